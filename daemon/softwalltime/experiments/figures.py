"""The figures of one schedule that the papers use."""

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from softwalltime.replay.metrics import accuracies
from softwalltime.simulation.engine import ScheduleOutcome
from softwalltime.simulation.jobs import Floats, Jobs
from softwalltime.simulation.metrics import bounded_slowdowns, measure, waits
from softwalltime.simulation.policies import SchedulerPolicy

Figures = dict[str, float | None]
"""By name; ``None`` where no job gives one."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The schedule of a workload under a policy; ``counted`` says which jobs the figures are of."""

    jobs: Jobs
    outcome: ScheduleOutcome
    processors: int
    policy: SchedulerPolicy
    counted: NDArray[np.bool_]


def schedule_figures(schedule: Schedule) -> Figures:
    """The figures of :class:`softwalltime.simulation.metrics.Metrics` over the counted jobs, and some more.

    ``jobs``; ``killed``: the share that ended before its recorded runtime; ``bsld600_mean``: bounded slowdown with
    600 s; ``priority_wait``: mean wait weighted by priority at the start (Tang et al. 2013, eq. 4);
    ``accuracy_mean`` and ``underestimated``: of the values that jobs waited with.
    """
    jobs, outcome, counted = schedule.jobs, schedule.outcome, schedule.counted
    metrics = measure(jobs, outcome, schedule.processors, None, counted)
    figures: Figures = {name: value for name, value in asdict(metrics).items() if name != "jobs_per_second"}
    count = int(counted.sum())
    figures["jobs"] = float(count)
    if not count:
        return figures | dict.fromkeys(("killed", "bsld600_mean", "priority_wait", "accuracy_mean", "underestimated"))
    wait, run = waits(jobs, outcome)[counted], outcome.duration[counted]
    estimate = outcome.waiting[counted]
    figures["killed"] = float((run < np.array(jobs.runtime, np.int64)[counted]).mean())
    figures["bsld600_mean"] = float(bounded_slowdowns(wait, run, 600).mean())
    priority = _priorities(schedule)[counted]
    total = float(priority.sum())
    figures["priority_wait"] = float((wait * priority).sum() / total) if total else 0.0
    figures["accuracy_mean"] = float(accuracies(estimate, run).mean())
    figures["underestimated"] = float((estimate < run).mean())
    return figures


def _priorities(schedule: Schedule) -> Floats:
    """Each job's priority at its start: WFP by the user's walltime (Tang et al. 2013, eq. 5), else its wait."""
    wait = waits(schedule.jobs, schedule.outcome).astype(np.float64)
    if schedule.policy.order != "wfp":
        return wait
    relative = wait / np.array(schedule.jobs.walltime, np.float64)
    priorities: Floats = relative * relative * relative * np.array(schedule.jobs.processors, np.float64)
    return priorities
