"""Compare the queue of a server as it is with the queue after changes, in simulations with the same drawn runtimes.

Each draw of all jobs' runtimes is simulated in both states, so a difference is due to the changes alone.  Jobs that are
submitted later are in neither.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from softwalltime.measure.forecast.expected import unforeseeable
from softwalltime.measure.forecast.machine_use import IdleWindow, free_processors, idle_windows, used_processors
from softwalltime.measure.forecast.queue_model import EXPENSIVE_RUN_JOBS, ModelledQueue, QueueModel, limit
from softwalltime.measure.forecast.runtimes import RuntimeDistribution, RuntimeModel, samples
from softwalltime.measure.forecast.start_times import distributions_of, forecast, outcomes
from softwalltime.measure.replay.sweep.workers import MAX_JOBS_IN_PROCESS, local_workers
from softwalltime.measure.simulation.schedule_metrics import NAMELESS, size_class
from softwalltime.measure.simulation.simulated_jobs import Floats, Integers

RANGE = (0.05, 0.95)
"""Quantiles of the draws at the ends of a range."""
RUNS, FEWER_RUNS = 50, 20
"""Number of draws, and the lower number for many jobs; a draw is a simulation of each state."""
UNKNOWN = "its start depends on a job of unknown runtime"


def range_of(draws: Floats | Integers) -> Floats:
    """Return the ends of the range in which a further draw lies with a probability of 90%.

    Quantiles are of type 6 of Hyndman & Fan (1996), i / (n + 1).  With numpy's default and 20 draws it is only 81%.

    :param draws: a row for each draw.
    """
    return np.quantile(draws, RANGE, axis=0, method="weibull")


@dataclass(frozen=True, slots=True)
class PairedChange:
    """A figure before and after the changes: means over the draws."""

    before: float | None
    """The figure as it is."""
    after: float | None
    """The figure after the changes."""
    change: float | None = None
    """The difference; null: the figure is one of new jobs."""
    range90: tuple[float, float] | None = None
    """Range that holds the paired difference with a probability of 90%; null: there is one draw."""

    @classmethod
    def of(cls, before: Floats, after: Floats) -> "PairedChange":
        """Return the change of a figure whose values in each draw are given."""
        low, high = range_of(after - before).tolist()
        change = float((after - before).mean())
        return cls(float(before.mean()), float(after.mean()), change, (low, high) if len(before) > 1 else None)


@dataclass(frozen=True, slots=True)
class ClassChange:
    """The mean wait of a class of the jobs that wait now."""

    kind: str
    """What makes the class: all, user, queue, size; submitted: new jobs."""
    name: str
    """The class."""
    jobs: int
    """Number of jobs with forecasts."""
    wait: PairedChange
    """Mean wait from now on, or from their execution time on, in seconds."""


@dataclass(frozen=True, slots=True)
class JobChange:
    """The start of a job that waits now: medians of the draws in epoch seconds."""

    job: str
    """Job id."""
    user: str
    """Owner of the job."""
    queue: str
    """Queue of the job."""
    ncpus: int | None
    """Number of processors."""
    walltime: int | None
    """Requested walltime in seconds."""
    before: int | None = None
    """Start as it is; null: no forecast."""
    before90: tuple[int, int] | None = None
    """Range that holds this start with a probability of 90%; null: no range."""
    after: int | None = None
    """Start after the changes; null: no forecast."""
    after90: tuple[int, int] | None = None
    """Range that holds this start with a probability of 90%; null: no range."""
    change: int | None = None
    """Mean of the paired differences in seconds; null: a forecast is missing."""
    change90: tuple[int, int] | None = None
    """Range that holds the difference with a probability of 90%; null: no range."""
    reason: str = ""
    """Why a forecast is missing."""

    @property
    def moves(self) -> bool:
        """Whether the start changes, or there is one only before or only after."""
        return bool(self.change) or (self.before is None) is not (self.after is None)


@dataclass(frozen=True, slots=True)
class QueueComparison:
    """The queue of a server as it is, and after changes."""

    COLUMNS: ClassVar = tuple(field.name for field in fields(JobChange))

    taken: int
    """Time of the server's state, epoch seconds."""
    server: str
    """Name of the server."""
    runs: int
    """Number of draws."""
    runtimes: str
    """Source of the predicted runtimes."""
    remarks: tuple[str, ...]
    """What the forecasts do not take into account."""
    processors: tuple[int, int]
    """Processors of the vnodes that are up, before and after."""
    used: PairedChange
    """Mean number of processors in use in the next 24 h."""
    classes: tuple[ClassChange, ...]
    """Classes of jobs, in each kind those first whose sum of waits changes most."""
    jobs: tuple[JobChange, ...]
    """Jobs that wait now: first those with one forecast, then by the size of the change."""
    idle: tuple[IdleWindow, ...]
    """Idle processors in the next 24 h as it is."""

    def rows(self) -> Iterator[dict[str, Any]]:
        return map(asdict, self.jobs)


def default_runs(states: Iterable[ModelledQueue]) -> int:
    return RUNS if max(len(state.live) for state in states) < EXPENSIVE_RUN_JOBS else FEWER_RUNS


@dataclass(frozen=True, slots=True)
class _Draws:
    """Simulations of one state: rows are draws, columns of ``starts`` and ``begins`` waiting jobs, by id in ``column``.

    ``begins``: when the wait begins: now, or at the execution time.
    """

    column: Mapping[str, int]
    begins: Integers
    starts: Integers

    @classmethod
    def of(cls, state: ModelledQueue, known: Mapping[str, RuntimeDistribution], starts: Integers) -> "_Draws":
        """:param known: distributions of the runtimes by job id."""
        model, ids = state.model, state.ids
        distributions, waiting = [known[job_id] for job_id in ids], range(model.running, len(ids))
        without: set[int] = set()
        if not all(distribution.known for distribution in distributions):
            without.update(unforeseeable(model, distributions, forecast(model, distributions, 0), waiting))
        column = {ids[index]: index - model.running for index in waiting if index not in without}
        begins = np.maximum(np.array(model.jobs.submitted[model.running :], np.int64), model.now)
        return cls(column, begins, starts)

    def starts_of(self, ids: Iterable[str]) -> Integers:
        """Return the starts of these jobs."""
        return self.starts[:, [self.column[job_id] for job_id in ids]]

    def mean_wait(self, ids: Iterable[str]) -> Floats:
        columns = [self.column[job_id] for job_id in ids]
        means: Floats = (self.starts[:, columns] - self.begins[columns]).mean(axis=1)
        return means


def compare(
    before: ModelledQueue, after: ModelledQueue, runtimes: RuntimeModel, basis: str, runs: int,
    submitted: Mapping[str, str], progress: Callable[[int], None] = lambda _: None, processes: int | None = None,
) -> QueueComparison:  # fmt: skip
    """Simulate a server before and after changes.

    :param basis: source of the runtimes, for people.
    :param runs: number of draws; one is made where nothing is known of runtimes but walltimes.
    :param submitted: of the jobs that only ``after`` has, what they were described as, by job id.
    :param processes: for a long queue; ``None`` for one a core.
    """
    known = dict(zip(before.ids, distributions_of(before, runtimes), strict=True))
    now, live = before.snapshot.taken, (*before.live, *after.live)
    for job in after.live:
        # No job that only the second state has runs.
        if (asked := job.submission).job_id not in known:
            known[asked.job_id] = runtimes.distribution(asked, limit(asked), now)
    if all(distribution.values.min() == distribution.values.max() for distribution in known.values()):
        runs = 1
    users = {job.submission.job_id: job.submission.user for job in live}
    owners = [users[job_id] for job_id in known]
    drawn = samples(list(known.values()), owners, runs, 0, runtimes.user_correlation)
    place = {job_id: column for column, job_id in enumerate(known)}
    if before.model.one_pool != after.model.one_pool:
        # One pool has room for more jobs, which is no effect of the changes.
        before, after = (replace(state, model=state.model.as_one_pool()) for state in (before, after))
    many = max(len(before.live), len(after.live))
    # A job on vnodes that the changes take away holds no others, but goes on using them.
    old_sizes = dict(zip(before.ids, before.model.jobs.processors, strict=True))
    workers = local_workers(1 if 2 * runs * many <= MAX_JOBS_IN_PROCESS else processes)
    rows = np.array_split(drawn, min(runs, 4 * workers.processes))
    parts: list[_Part] = []
    for state in (before, after):
        model, columns = state.model, [place[job_id] for job_id in state.ids]
        sizes = [old_sizes.get(job_id, size) for job_id, size in zip(state.ids, model.jobs.processors, strict=True)]
        parts += [
            _Part(len(parts) + number, model.quick(many), sizes, some[:, columns]) for number, some in enumerate(rows)
        ]
    done: dict[int, _Simulated] = {}
    for number, draws in workers.do(_simulate, parts):
        done[number] = draws
        progress(len(draws.starts))
    in_order = [done[number] for number in range(len(parts))]
    old, new = _joined(in_order[: len(rows)]), _joined(in_order[len(rows) :])
    first, second = _Draws.of(before, known, old.starts), _Draws.of(after, known, new.starts)
    remarks = (*before.snapshot.remarks, *before.remarks, *after.snapshot.remarks, *after.remarks)
    return QueueComparison(
        now, before.snapshot.server, runs, basis, tuple(dict.fromkeys(remarks)),
        (before.model.processors, after.model.processors), PairedChange.of(old.used, new.used),
        (*_classes(before, first, second), *_new_jobs(second, submitted)), _jobs(before, after, first, second),
        idle_windows(old.free, now),
    )  # fmt: skip


class _Part(NamedTuple):
    """Draws to simulate together; ``number`` is the place of the part.

    ``sizes``: processors that each job uses.  ``drawn``: runtimes in seconds, a row for each draw.
    """

    number: int
    model: QueueModel
    sizes: Sequence[int]
    drawn: Floats


class _Simulated(NamedTuple):
    """Starts of waiting jobs, mean processors in use, free processors (:mod:`.machine_use`): a row for each draw."""

    starts: Integers
    used: Floats
    free: Integers


def _simulate(part: _Part) -> tuple[int, _Simulated]:
    """Simulate draws, perhaps in a process of their own; return the part's number with them."""
    model = part.model
    rows = [
        (outcome.start[model.running :], used_processors(model, outcome, part.sizes), free_processors(model, outcome))
        for outcome in outcomes(model, part.drawn)
    ]
    return part.number, _Simulated(*map(np.array, zip(*rows, strict=True)))


def _joined(parts: Sequence[_Simulated]) -> _Simulated:
    return _Simulated(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def _classes(state: ModelledQueue, first: _Draws, second: _Draws) -> Iterator[ClassChange]:
    asked = {job.submission.job_id: job.submission for job in state.live}
    model = state.model
    size = dict(zip(state.ids, model.jobs.processors, strict=True))
    labels: dict[str, Callable[[str], str]] = {
        "all": lambda _: "all jobs", "user": lambda job_id: asked[job_id].user or NAMELESS,
        "queue": lambda job_id: asked[job_id].queue or NAMELESS,
        "size": lambda job_id: size_class(size[job_id], model.processors),
    }  # fmt: skip
    for kind, label in labels.items():
        members = defaultdict[str, list[str]](list)
        for job_id in first.column:
            if job_id in second.column:
                members[label(job_id)].append(job_id)
        changes = [
            ClassChange(kind, name, len(ids), PairedChange.of(first.mean_wait(ids), second.mean_wait(ids)))
            for name, ids in members.items()
        ]
        yield from sorted(changes, key=lambda row: -abs(row.wait.change or 0.0) * row.jobs)


def _new_jobs(after: _Draws, submitted: Mapping[str, str]) -> Iterator[ClassChange]:
    for text in dict.fromkeys(submitted.values()):
        ids = [job_id for job_id in after.column if submitted.get(job_id) == text]
        wait = float(after.mean_wait(ids).mean()) if ids else None
        yield ClassChange("submitted", text, len(ids), PairedChange(None, wait))


_Figures = tuple[int | None, tuple[int, int] | None]
"""Median or mean, and the range."""


def _jobs(before: ModelledQueue, after: ModelledQueue, first: _Draws, second: _Draws) -> tuple[JobChange, ...]:
    both = [job_id for job_id in first.column if job_id in second.column]
    starts = _figures(first.column, first.starts_of(first.column))
    later = _figures(second.column, second.starts_of(second.column))
    change = _figures(both, second.starts_of(both) - first.starts_of(both), np.mean)
    reasons = {one.job.submission.job_id: one.reason for state in (before, after) for one in state.impossible}
    left = {job.submission.job_id for job in after.snapshot.jobs}
    rows = []
    for job in before.snapshot.jobs:
        if not job.occupies:
            asked, job_id = job.submission, job.submission.job_id
            reason = "" if job_id in change else reasons.get(job_id, UNKNOWN) if job_id in left else "it is deleted"
            old, new, moved = (values.get(job_id, (None, None)) for values in (starts, later, change))
            rows.append(JobChange(
                job_id, asked.user, asked.queue, asked.ncpus, asked.walltime, *old, *new, *moved, reason
            ))  # fmt: skip
    # Jobs with one forecast, those that move, those that do not, jobs without forecasts.
    return tuple(
        sorted(rows, key=lambda row: (not row.moves, row.moves is (row.change is not None), -abs(row.change or 0)))
    )


def _figures(ids: Iterable[str], values: Integers, middle: Callable[..., Floats] = np.median) -> dict[str, _Figures]:
    """Return a middle and the range of each job, of whose values there is a row for each draw."""
    low, high = np.rint(range_of(values)).astype(np.int64).tolist()
    rows = zip(ids, np.rint(middle(values, axis=0)).astype(np.int64).tolist(), low, high, strict=True)
    return {job_id: (centre, (least, most) if len(values) > 1 else None) for job_id, centre, least, most in rows}
