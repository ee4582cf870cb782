"""Simulate the expected start of each waiting job, with ranges, from a model of the queue.

The expected start is from one simulation with the median of each job's predicted runtime (Li et al. 2004, section 3).
The ranges hold the middle 50% or 90% of the starts in many simulations with runtimes drawn from the predicted
distributions.  No further job is submitted, as in the paper.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from softwalltime.core.formatting import local_time, percent, plural
from softwalltime.measure.forecast.queue_model import ModelledQueue, QueueModel, limit
from softwalltime.measure.forecast.runtimes import RuntimeDistribution, RuntimeModel, samples
from softwalltime.measure.simulation.engine import ScheduleOutcome
from softwalltime.measure.simulation.simulated_jobs import Floats, Integers

LEVELS = (0.05, 0.25, 0.75, 0.95)
"""Quantiles of the starts: the ends of the 90% and of the 50% range."""
POINT = 2
"""Index of the expected start among the quantiles of a forecast: 5%, 25%, 50%, 75% and 95%."""


@dataclass(frozen=True, slots=True)
class StartForecast:
    """Starts of the waiting jobs of a model, in epoch seconds, in the order of the model's waiting jobs.

    ``point`` is one start a job; ``sampled`` has a row for each run.  ``ends`` and ``sampled_ends`` are the ends of
    all jobs in the point's run, and of the running jobs in each run.
    """

    point: Integers
    ends: Integers
    sampled: Integers
    sampled_ends: Integers

    def quantiles(self) -> Floats:
        """Return the quantiles of each job's start, the median at :data:`POINT`; without drawn runs, the point each.

        A run with medians frees no processor before the shortest median: its starts are too late if jobs end early.
        """
        if not len(self.sampled):
            return np.repeat(self.point[None, :].astype(np.float64), len(LEVELS) + 1, axis=0)
        return np.insert(np.quantile(self.sampled, LEVELS, axis=0), POINT, np.median(self.sampled, axis=0), axis=0)


def distributions_of(
    queue: ModelledQueue, runtimes: RuntimeModel, known: Mapping[str, RuntimeDistribution] = MappingProxyType({})
) -> list[RuntimeDistribution]:
    """Return the predicted runtime of each job; ``known``: those that were predicted before, by job id."""
    model = queue.model
    return [
        known.get(job.submission.job_id)
        or runtimes.distribution(job.submission, limit(job.submission), model.now, model.elapsed(index))
        for index, job in enumerate(queue.live)
    ]


def forecast(
    model: QueueModel, distributions: Sequence[RuntimeDistribution], runs: int, seed: int = 0,
    until: Sequence[int] = (), progress: Callable[[int], None] = lambda _: None,
) -> StartForecast:  # fmt: skip
    """Forecast the starts of the waiting jobs.

    :param runs: with drawn runtimes; 0 for the point alone.
    :param until: only these jobs matter: the runs stop when they have started, and the starts of others are -1.
    """
    first = model.running
    medians = np.array([distribution.median for distribution in distributions])
    point = model.feasible().run(_whole(model, medians), until)
    starts = np.empty((runs, len(model.jobs) - first), np.int64)
    ends = np.empty((runs, first), np.int64)
    if runs:
        users = list(model.jobs.completed.values("user"))
        drawn = samples(distributions, users, runs, seed)
        for run, outcome in enumerate(outcomes(model.quick(), drawn, until)):
            starts[run], ends[run] = outcome.start[first:], _ends(outcome)[:first]
            progress(1)
    return StartForecast(point.start[first:], _ends(point), starts, ends)


def outcomes(model: QueueModel, drawn: Floats, until: Sequence[int] = ()) -> Iterator[ScheduleOutcome]:
    """Yield the schedule with the runtimes of each row, in seconds, one column per job."""
    return model.runs((_whole(model, seconds) for seconds in drawn), until)


def _ends(outcome: ScheduleOutcome) -> Integers:
    return outcome.start + outcome.duration


def _whole(model: QueueModel, seconds: Floats) -> list[int]:
    """Round to whole seconds; a running job runs at least one second more."""
    least = np.ones(len(seconds), np.int64)
    least[: model.running] = model.now - np.array(model.starts, np.int64) + 1
    whole: list[int] = np.maximum(np.ceil(seconds).astype(np.int64), least).tolist()
    return whole


def waits_for(queue: ModelledQueue, starts: StartForecast, position: int) -> str:
    """Return why the job at this position starts when it is expected to."""
    model = queue.model
    first = model.running
    start = int(starts.point[position - first])
    submitted = model.jobs.submitted[position]
    if start <= model.now:
        return "enough processors are free: starts at the next scheduling cycle"
    if start == submitted:
        return f"delayed until {local_time(submitted, model.now)} (qsub -a)"
    behind = _behind(queue, starts, position)
    moment = local_time(start, model.now)
    for reservation in [] if model.pooling is None else model.pooling.reservations:
        if reservation.end == start:
            return f"{behind}; {reservation.title} ends at {moment}"
    ended = [job for job in np.flatnonzero(starts.ends == start).tolist() if job != position]
    if not ended:
        return f"{behind}; starts when its walltime fits before the jobs ahead"
    freed = sum(model.jobs.processors[job] for job in ended)
    last = max(ended, key=lambda job: model.jobs.processors[job])
    name = queue.live[last].submission.job_id
    others = f" and {plural(len(ended) - 1, 'other')}" if len(ended) > 1 else ""
    come, end = "comes" if freed == 1 else "come", "end" if others else "ends"
    sentence = f"{behind}; {plural(freed, 'processor')} {come} free at {moment} when {name}{others} {end}"
    if last < first and len(starts.sampled_ends):
        likely = float((starts.sampled_ends[:, last] <= start).mean())
        sentence += f", by then with probability {percent(likely, 0)}"
    return sentence


def _behind(queue: ModelledQueue, forecast: StartForecast, position: int) -> str:
    """Return the number of jobs that are ahead of it and start before it, and their queue if there is only one."""
    first, now = queue.model.running, queue.model.now
    own = forecast.point[position - first]
    starts = forecast.point if queue.model.policy.order != "fcfs" else forecast.point[: position - first]
    before = (starts > now) & (starts <= own)
    before[position - first :][:1] = False
    ahead = [first + index for index in np.flatnonzero(before).tolist()]
    if not ahead:
        return "first in the queue" if position == first else "by backfilling"
    names = {queue.live[job].submission.queue for job in ahead}
    of = f" of queue {next(iter(names))}" if len(names) == 1 and "" not in names else ""
    return f"behind {plural(len(ahead), 'job')}{of}"
