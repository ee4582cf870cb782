"""Forecast when a job would start that is submitted now, by queue, size and walltime, for a user without other jobs."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import NamedTuple

from softwalltime.core.errors import UsageError
from softwalltime.measure.forecast.expected import ExpectedStart, Learnt, expected_starts
from softwalltime.measure.forecast.queue_model import ModelledQueue, model_of
from softwalltime.measure.forecast.runtimes import RuntimeDistribution
from softwalltime.measure.forecast.snapshot import QueueSettings, ServerSnapshot
from softwalltime.measure.forecast.what_if import PROBE, RUNS, accepts, probe, probe_job
from softwalltime.service.spare_time import SpareTime
from softwalltime.store.forecast_rows import StoredProbe

WALLTIMES_S = (900, 3600, 4 * 3600, 12 * 3600, 24 * 3600)
"""Walltimes of the grid, with the limit of the queue."""
LONGEST_S = 7 * 86400
"""Longest walltime of a queue without a limit."""
SIZE_FACTORS = (2, 4, 16)
"""Factors between two sizes: the smallest with which all forecasts can be kept up to date, else the last."""
MANY_JOBS, FEWER_RUNS = 1000, 5
"""Number of running and waiting jobs from which there are fewer runs, and no ranges: a run takes half a second."""
MAX_JOBS = 500
"""Maximum jobs of the grid, which is part of the answer to each user, unless it has the coarsest sizes."""


class GridJob(NamedTuple):
    """A job of the grid: execution queue, processors, walltime in seconds."""

    queue: str
    ncpus: int
    walltime: int


@dataclass(eq=False)
class ProbeGrid:
    """Forecast a few jobs of the grid at each step, in turn."""

    running: str
    """Value with which running jobs are planned: ``soft_walltime`` or ``walltime``."""
    every: int
    """Seconds between two steps."""

    def __post_init__(self) -> None:
        self._results = SpareTime[GridJob, ExpectedStart](self.every, renew=1)

    def step(
        self, snapshot: ServerSnapshot, queue: ModelledQueue, learnt: Learnt, known: Mapping[str, RuntimeDistribution]
    ) -> list[StoredProbe]:
        """Return the known expected starts, and when each was forecast.

        :param known: predicted runtimes of the snapshot's jobs by id.
        """
        usable = tuple(settings for settings in snapshot.queues if settings.enabled and not settings.restricted)
        ordinary = replace(snapshot, queues=usable)

        def forecast(job: GridJob) -> ExpectedStart:
            submitted = probe_job("", probe(PROBE, job.ncpus, job.walltime, queue=job.queue), ordinary)
            modelled = model_of(snapshot, [submitted], self.running)
            # The median of the runs does not depend on the single run with several reservations, which is slow.
            modelled = replace(modelled, model=modelled.model.quick())
            start = next(expected_starts(modelled, learnt, frozenset((PROBE,)), runs, known=known))
            return start if runs == RUNS else replace(start, range90=None)

        runs = RUNS if len(queue.live) < MANY_JOBS else FEWER_RUNS
        walltimes = {settings.name: _walltimes(settings) for settings in usable if settings.execution}
        for factor in SIZE_FACTORS:
            sizes = _sizes(queue.model.processors, factor)
            jobs = [GridJob(name, ncpus, each) for ncpus in sizes for name in walltimes for each in walltimes[name]]
            if len(jobs) <= min(self._results.affordable, MAX_JOBS):
                break
        entrances = {each: _entrances(ordinary, each) for each in {job.walltime for job in jobs}}
        rows = []
        for job, (made, start) in self._results.step(snapshot.taken, jobs, forecast).items():
            if start.expected is not None:
                submit_to, ends = entrances[job.walltime][job.queue], start.range90 or (None, None)
                rows.append(StoredProbe(*job, submit_to, made, start.expected, *ends))
        return rows


def _walltimes(queue: QueueSettings) -> list[int]:
    longest = queue.max_walltime or LONGEST_S
    return [walltime for walltime in sorted({*WALLTIMES_S, longest}) if accepts(queue, walltime)]


def _sizes(processors: int, factor: int) -> list[int]:
    """Return the numbers of processors of the grid, the whole machine at last.

    >>> _sizes(100, 4)
    [1, 4, 16, 64, 100]
    """
    powers: Iterator[int] = (factor**exponent for exponent in range(processors.bit_length() + 1))
    return [*takewhile(lambda size: size < processors, powers), processors]


def _entrances(snapshot: ServerSnapshot, walltime: int) -> Mapping[str, tuple[str, ...]]:
    """Return, by execution queue, where to submit a job with this walltime that is to run there.

    The queue itself or routing queues; an empty name stands for the server's default queue.
    """
    entrances: defaultdict[str, tuple[str, ...]] = defaultdict(tuple)
    for name in ("", *(queue.name for queue in snapshot.queues if not queue.from_route_only)):
        with suppress(UsageError):
            entrances[probe_job("", probe(PROBE, 1, walltime, queue=name), snapshot).submission.queue] += (name,)
    return entrances
