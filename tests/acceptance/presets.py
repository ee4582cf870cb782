"""The presets as a site switches them on, on the server for tests, and the simulator's policy of each."""

import json
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import numpy as np

from softwalltime.jobs import CompletedJob
from softwalltime.policy.power_order import BALANCED
from softwalltime.policy.presets import PRESETS
from softwalltime.simulation.engine import simulate
from softwalltime.simulation.jobs import Integers, jobs_of
from softwalltime.simulation.metrics import bounded_slowdowns
from softwalltime.simulation.policies import SchedulerPolicy
from tests.acceptance.cycles import Cycle, compare
from tests.acceptance.lab import Lab
from tests.acceptance.sleeping import Record, Sleeper, recorded, run
from tests.service.running import Daemon

AGE = 30
"""Age in the formula in seconds, in place of one hour, for jobs of seconds."""
FORMULAS: dict[str, str] = {
    name: replace(order, age=float(AGE)).formula("predicted")
    for name, preset in PRESETS.items()
    if (order := preset.order) is not None
}
"""The formulas of the presets that have one."""
UNIT = 1000
"""Milliseconds: the simulation has a finer clock than the accounting log, whose records of one second have an order."""
HANDOVERS = (0, 1000)
"""Milliseconds for which a job that has ended still holds its processors: the bounds of what the log can tell."""
POLICIES = {
    "fcfs": SchedulerPolicy(backfill="pbs"),
    "safe": SchedulerPolicy(backfill="pbs", waiting="factor:0.5", classes_by_value=True),
    **{
        name: SchedulerPolicy(
            backfill="pbs", waiting="factor:0.5", classes_by_value=True, order="formula", formula=formula,
            ordering="factor:0.2",
        )
        for name, formula in FORMULAS.items()
    },
}  # fmt: skip
"""The guard is left out: no promise is an hour late in these minutes."""
SETTINGS = 'mode = "on"\nwaiting = "factor:0.5"\nrunning = "walltime"\n'
ORDERING = 'ordering = "factor:0.2"\n'
PATIENT = {"deadline_ms": 2000}
"""The hook's deadline: a busy machine must not decide which jobs get a value."""


def softwalltime(lab: Lab, *arguments: object) -> str:
    """Run a command of ours where PBS is; its output."""
    return lab.must(sys.executable, "-m", "softwalltime", *map(str, arguments))


@contextmanager
def preset(lab: Lab, name: str, folder: Path, dsn: str) -> Iterator[None]:
    """Set PBS up for a policy by ``softwalltime install --preset``, with daemon and hook; taken back at the end."""
    if name == "fcfs":
        yield
        return
    hook = folder / "hook"
    hook.mkdir(mode=0o755)
    (hook / "softwalltime_hook.json").write_text(json.dumps(PATIENT))
    daemon = Daemon(folder, dsn, SETTINGS + (ORDERING if name in FORMULAS else ""))
    daemon.start()
    formula = ("--formula", FORMULAS[name]) if name in FORMULAS else ()
    try:
        softwalltime(lab, "install", hook, "--config", daemon.config, "--preset", name, *formula, "--apply")
        yield
    finally:
        lab.run("qdel", "-W", "force", "-x", *lab.jobs)
        softwalltime(lab, "uninstall", hook, "--apply")
        daemon.end(signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class Compared:
    """One workload under one policy, as pbs_sched scheduled it and as the simulator does.

    ``wait`` in seconds and ``slowdown`` (bounded with 10 s) are means, of the server first, then of the simulator for
    each of HANDOVERS; ``order`` is the rank correlation of the starts for each.
    """

    jobs: int
    cycles: list[Cycle]
    order: tuple[float, ...]
    wait: tuple[float, ...]
    slowdown: tuple[float, ...]

    @property
    def explained(self) -> int:
        """How many decisions are the same, or are where jobs were exiting meanwhile."""
        return sum(cycle.explained for cycle in self.cycles)

    @property
    def same(self) -> int:
        """How many decisions are the same."""
        return sum(cycle.same for cycle in self.cycles)


def in_milliseconds(policy: SchedulerPolicy) -> SchedulerPolicy:
    """The same policy for jobs whose times are in milliseconds."""
    formula = policy.formula.replace(f"{AGE}.0", f"{AGE * UNIT}.0")
    formula = formula.replace(f"> {BALANCED.limit}", f"> {(BALANCED.limit or 0) * UNIT}")
    return replace(policy, minimum=policy.minimum * UNIT, formula=formula)


def spread(completed: Sequence[CompletedJob], records: Sequence[Record], handover: int) -> list[CompletedJob]:
    """The jobs with times in milliseconds: the records of one second follow each other at equal distances.

    pbs_sched runs a cycle after each of them, and a simulation in seconds only one after all of them.

    :param handover: milliseconds by which each job runs longer.
    """
    times: dict[tuple[str, int], int] = {}
    for second, group in groupby(sorted(records, key=lambda record: record.time), key=lambda record: record.time):
        members = list(group)
        for place, record in enumerate(members):
            times[record.kind, record.job] = second * UNIT + UNIT * (2 * place + 1) // (2 * len(members))
    # Those submitted before the scheduler saw any wait together for its first cycle.
    first = min(time for (kind, _), time in times.items() if kind == "S")
    found = []
    for index, job in enumerate(completed):
        start, end = times["S", index], times["E", index]
        submitted = first if times["Q", index] // UNIT <= first // UNIT else min(times["Q", index], start)
        submission = replace(job.submission, submitted=submitted, walltime=(job.submission.walltime or 0) * UNIT)
        runtime = end - start + handover
        found.append(replace(job, submission=submission, start=start, end=start + runtime, runtime=runtime))
    return found


def compared(lab: Lab, sleepers: list[Sleeper], processors: int, policy: SchedulerPolicy, timeout: float) -> Compared:
    """Run the jobs on the server, and simulate them as the accounting log shows them."""
    return compared_with(*recorded(lab, run(lab, sleepers, timeout)), processors, policy)


def compared_with(
    completed: Sequence[CompletedJob], records: Sequence[Record], processors: int, policy: SchedulerPolicy
) -> Compared:
    """Simulate jobs that ran on the server.

    :param records: their records in the order of the log.
    """
    figures: list[tuple[float, float]] = []
    order = []
    for handover in HANDOVERS:
        jobs = jobs_of(spread(completed, records, handover))
        outcome = simulate(jobs, processors, in_milliseconds(policy))
        actual = np.array([job.start for job in jobs.completed], np.int64)
        submitted, ran = np.array(jobs.submitted, np.int64), np.array(jobs.runtime, np.int64) - handover
        if not figures:
            figures.append(_means(actual - submitted, ran))
        figures.append(_means(outcome.start - submitted, ran))
        order.append(float(np.corrcoef(_ranks(actual), _ranks(outcome.start))[0, 1]))
    cycles = compare(jobs_of(completed), records, processors, policy)
    wait, slowdown = zip(*figures, strict=True)
    return Compared(len(completed), cycles, tuple(order), wait, slowdown)


def _means(wait: Integers, ran: Integers) -> tuple[float, float]:
    """Mean wait in seconds and mean bounded slowdown, from milliseconds."""
    return float(wait.mean() / UNIT), float(bounded_slowdowns(wait, ran, 10 * UNIT).mean())


def _ranks(starts: Integers) -> Integers:
    """Ranks of the starts; jobs that start in one second share the mean of theirs."""
    _, inverse, counts = np.unique(starts, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    found: Integers = (2 * last - counts - 1)[inverse]
    return found
