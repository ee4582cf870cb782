"""Simulate many policies of a study in parallel; compute the papers' metrics and their paired changes."""

import math
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from softwalltime.measure.experiments.result_tables import Cell, Column, Contents, Kind
from softwalltime.measure.experiments.study import Study, months_of
from softwalltime.measure.replay.sweep.jobs_file import read, take
from softwalltime.measure.replay.sweep.workers import local_workers
from softwalltime.measure.replay.workload import Workload
from softwalltime.measure.simulation.differences import Interval, interval
from softwalltime.measure.simulation.engine import ScheduleOutcome
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.runs import run
from softwalltime.measure.simulation.schedule_metrics import bounded_slowdowns, measure, waits
from softwalltime.measure.simulation.shaking import shaken
from softwalltime.measure.simulation.simulated_jobs import Jobs, jobs_of

Figures = dict[str, float | None]
"""Metrics by name; ``None``: no job has it."""

WHOLE = "all"
"""The part that is the whole workload."""
MIN_MONTH_JOBS = 50
"""Minimum jobs of a month to be measured separately."""
_MAX_JOBS_IN_PROCESS = 20_000
"""Simulated jobs up to which no further processes are started, because starting them takes longer."""


@dataclass(frozen=True, slots=True)
class WorkloadPart:
    """A part of a workload that is simulated separately; ``counted`` excludes the jobs of the warm-up."""

    jobs: Jobs
    counted: NDArray[np.bool_]


def month_names(jobs: Jobs) -> list[str]:
    """Return the calendar months (UTC) of a workload that are simulated separately.

    The first month is only the warm-up of the second.  A workload of one month is not split.
    """
    names, counts = np.unique(months_of(jobs.submitted), return_counts=True)
    chosen = [str(name) for name, count in zip(names[1:], counts[1:], strict=True) if count >= MIN_MONTH_JOBS]
    return chosen or [WHOLE]


def part_of(jobs: Jobs, name: str, warm_up: float = 0.0) -> WorkloadPart:
    """Return the whole workload, its first share ``warm_up`` not counted, or one month after the month before it."""
    if name == WHOLE:
        return WorkloadPart(jobs, np.arange(len(jobs)) >= int(len(jobs) * warm_up))
    labels = months_of(jobs.submitted)
    counted = labels == name
    before = labels[labels < name]
    chosen = np.flatnonzero(counted | (labels == before[-1]) if len(before) else counted)
    return WorkloadPart(jobs.chosen(chosen.tolist()), counted[chosen])


def schedule_figures(part: WorkloadPart, outcome: ScheduleOutcome, processors: int, policy: SchedulerPolicy) -> Figures:
    """The figures of :class:`~softwalltime.measure.simulation.schedule_metrics.Metrics` over the counted jobs.

    ``jobs``; ``killed``: the share that ended before its recorded runtime; ``bsld600_mean``: bounded slowdown with
    600 s; ``priority_wait``: mean wait weighted by priority at the start (Tang et al. 2013, eq. 4).
    """
    jobs, counted = part.jobs, part.counted
    metrics = measure(jobs, outcome, processors, None, counted)
    figures: Figures = {name: value for name, value in asdict(metrics).items() if name != "jobs_per_second"}
    count = int(counted.sum())
    figures["jobs"] = float(count)
    if not count:
        return figures | dict.fromkeys(("killed", "bsld600_mean", "priority_wait"))
    wait, run = waits(jobs, outcome)[counted], outcome.duration[counted]
    figures["killed"] = float((run < np.array(jobs.runtime, np.int64)[counted]).mean())
    figures["bsld600_mean"] = float(bounded_slowdowns(wait, run, 600).mean())
    priority = wait.astype(np.float64)
    if policy.order == "wfp":
        # By the user's walltime (equation 5).
        relative = priority / np.array(jobs.walltime, np.float64)[counted]
        priority = relative * relative * relative * np.array(jobs.processors, np.float64)[counted]
    total = float(priority.sum())
    figures["priority_wait"] = float((wait * priority).sum() / total) if total else 0.0
    return figures


@dataclass(frozen=True, slots=True)
class Trials:
    """The figures of each policy on each part of each workload: ``found[policy name][part, seed]``."""

    found: dict[str, dict[tuple[str, int], Figures]]

    @property
    def parts(self) -> list[str]:
        return list(dict.fromkeys(part for cells in self.found.values() for part, _ in cells))

    def mean(self, policy: str, figure: str, part: str | None = None) -> float | None:
        """Return the mean of a metric over parts and seeds, or over the seeds of one part; ``None`` without a value."""
        cells = self.found[policy].items()
        values = [
            value for (name, _), cell in cells if part in (None, name) and (value := cell[figure]) is not None
        ]  # fmt: skip
        return math.fsum(values) / len(values) if values else None

    def change(self, policy: str, baseline: str, figure: str) -> Interval:
        """The mean relative change against another policy on the same workloads, with its 95% interval.

        Over the parts where there are several, each the mean of its seeds; else over the seeds.
        """
        by_part: dict[str, list[float]] = {part: [] for part in self.parts}
        for key, cell in self.found[policy].items():
            mine, other = cell[figure], self.found[baseline][key][figure]
            if mine is not None and other:
                by_part[key[0]].append((mine - other) / other)
        if len(by_part) == 1:
            return interval(next(iter(by_part.values())))
        return interval([math.fsum(values) / len(values) for values in by_part.values() if values])

    def pooled(self, policy: str, baseline: str, figure: str) -> float | None:
        """Return the relative change of the mean over all jobs of all parts and seeds; months are weighted by jobs."""
        sums = []
        for name in (policy, baseline):
            cells = [(cell["jobs"], cell[figure]) for cell in self.found[name].values()]
            sums.append(math.fsum(count * value for count, value in cells if count is not None and value is not None))
        return (sums[0] - sums[1]) / sums[1] if sums[1] else None

    def better(self, policy: str, baseline: str, figure: str) -> str:
        """Return the number of parts with a lower mean than the other policy's, such as ``11 of 12``."""
        pairs = [(self.mean(policy, figure, part), self.mean(baseline, figure, part)) for part in self.parts]
        both = [(mine, other) for mine, other in pairs if mine is not None and other is not None]
        return f"{sum(mine < other for mine, other in both)} of {len(both)}"

    def monthly(self, policy: str, baseline: str, figure: str, part: str) -> float | None:
        """Return the relative change of a metric in one part."""
        mine, other = (self.mean(name, figure, part) for name in (policy, baseline))
        return None if mine is None or not other else mine / other - 1

    def table(self, labels: Sequence[str], metrics: Mapping[str, str], rows: Iterable["Compared"]) -> Contents:
        """Return the columns and rows of a table that compares policies.

        The kind of a column decides what it has of its metric: the change against the baseline (``change``,
        ``pooled``, ``better``), or the mean.
        """
        compare: dict[str, Callable[[str, str, str], Cell]] = {
            "change": self.change, "pooled": self.pooled, "better": self.better
        }  # fmt: skip

        def cell(row: Compared, kind: Kind, metric: str) -> Cell:
            if kind not in compare:
                return self.mean(row.policy, metric)
            if row.policy == row.baseline:
                return "" if kind == "better" else None
            return compare[kind](row.policy, row.baseline, metric)

        kinds = {column: Column.of(column).kind for column in metrics}
        return (*labels, *metrics), [
            (*row.labels, *(cell(row, kinds[column], metric) for column, metric in metrics.items())) for row in rows
        ]


class Compared(NamedTuple):
    """A row of a table of policies: its first cells, the policy, and its baseline."""

    labels: tuple[Cell, ...]
    policy: str
    baseline: str


@dataclass(frozen=True, slots=True)
class _Task:
    path: Path
    processors: int
    shake: str
    seed: int
    part: str
    policies: tuple[tuple[str, SchedulerPolicy], ...]
    warm_up: float


def simulate_all(
    study: Study, policies: dict[str, SchedulerPolicy], monthly: bool = False, warm_up: float = 0.0
) -> Trials:
    """Simulate each policy on each workload of the study, or on each month of it separately.

    :param warm_up: share of a whole workload, its first jobs, that is not measured; months have the month before.
    """
    named = tuple(policies.items())
    # Only the recorded months: a shaken workload may extend into others.
    names = month_names(study.jobs) if monthly else [WHOLE]
    split = names != [WHOLE]
    total = len(policies) * len(study.seeds) * len(study.jobs) * (2 if split else 1)
    simulated: dict[str, dict[tuple[str, int], Figures]] = {name: {} for name in policies}
    workers = local_workers(1 if total <= _MAX_JOBS_IN_PROCESS else study.processes)
    pieces = [named] if split else [(policy,) for policy in named]
    with tempfile.TemporaryDirectory(prefix="softwalltime-experiment-") as folder:
        path = Path(folder) / "jobs.parquet"
        take(Workload(study.jobs.completed, teaching=study.teaching), path)
        tasks = [
            _Task(path, study.processors, study.shake, seed, name, piece, warm_up)
            for seed in study.seeds
            for name in names
            for piece in pieces
        ]
        with closing(workers.do(_evaluate, tasks)) as done, study.bar("simulating", total) as progress:
            for task, figures in done:
                for (name, _), cell in zip(task.policies, figures, strict=True):
                    simulated[name][task.part, task.seed] = cell
                progress(total // len(tasks))
    keys = [(part, seed) for part in names for seed in study.seeds]
    return Trials({policy: {key: cells[key] for key in keys} for policy, cells in simulated.items()})


@lru_cache(maxsize=1)
def _workload(path: Path, shake: str, seed: int) -> Jobs:
    return shaken(jobs_of(*read(path), limited_only=True), shake, seed)


def _evaluate(task: _Task) -> tuple[_Task, list[Figures]]:
    part = part_of(_workload(task.path, task.shake, task.seed), task.part, task.warm_up)
    processors = task.processors
    outcomes = ((run(part.jobs, processors, policy), policy) for _, policy in task.policies)
    return task, [schedule_figures(part, outcome, processors, policy) for outcome, policy in outcomes]
