"""Evaluate start forecasts over a schedule against the actual starts: at submission, and every hour after.

A forecast uses only information available at its time: jobs that had ended, starts that had happened.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import count
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softwalltime.core.errors import SourceError
from softwalltime.core.formatting import duration, plural
from softwalltime.core.progress import ShowProgress, no_progress
from softwalltime.measure.forecast.expected import unforeseeable, wait_forecasts
from softwalltime.measure.forecast.like_waits import LastWaits, LikeWaits
from softwalltime.measure.forecast.queue_model import QueueModel
from softwalltime.measure.forecast.runtimes import RuntimeModel
from softwalltime.measure.forecast.self_calibration import JudgedForecast, SelfCalibration
from softwalltime.measure.forecast.start_times import POINT, forecast
from softwalltime.measure.simulation.engine import simulate
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.simulated_jobs import Floats, Integers, Jobs, starts_of
from softwalltime.predict.predictors.registry import make

WALLTIMES, LIKE, LAST, SIMULATED = "walltimes", "like jobs", "the user's last waits", "predicted runtimes"
DRAWN, COMBINED, BOUND = "drawn runtimes", "combined", "known runtimes"
METHODS = (WALLTIMES, LIKE, LAST, SIMULATED, DRAWN, COMBINED, BOUND)
"""Forecast methods; the last one uses actual runtimes, as a bound."""
CALIBRATION_SHARE = 0.1
"""Share of the sampled jobs, the first ones, that are only used for calibration."""
WEEK = 7 * 86400
AT_ONCE_S = 60
"""Seconds until which an expected start is at once: a scheduling cycle, and what starting a job takes."""
BOOTSTRAP_SAMPLES = 1000
"""Number of bootstrap samples of weeks for an interval."""


@dataclass(frozen=True, slots=True)
class GivenSchedule:
    """Starts and durations of jobs: simulated, or as recorded."""

    jobs: Jobs
    start: Integers
    duration: Integers
    processors: int
    policy: SchedulerPolicy

    @classmethod
    def simulated(cls, jobs: Jobs, processors: int) -> "GivenSchedule":
        policy = SchedulerPolicy()
        outcome = simulate(jobs, processors, policy)
        return cls(jobs, outcome.start, outcome.duration, processors, policy)

    @classmethod
    def recorded(cls, jobs: Jobs, processors: int) -> "GivenSchedule":
        start = np.maximum(starts_of(jobs.completed), np.array(jobs.submitted, np.int64))
        return cls(jobs, start, np.array(jobs.runtime, np.int64), processors, SchedulerPolicy(kill_at_walltime=False))


@dataclass(frozen=True, slots=True)
class Judged:
    """One evaluated forecast: each method's prediction of the remaining wait, and the actual wait, in seconds.

    ``waited`` is 0 at the submission, ``made`` the time of the forecast (epoch seconds).  ``free``: enough processors
    were free for the job, so it waited for something else.  ``predicted`` holds for each of :data:`METHODS` the two
    lower ends (90%, 50%), the point and the two upper ends; a method without ranges repeats its point.
    """

    job: int
    waited: int
    actual: int
    predicted: Mapping[str, Floats]
    made: int = 0
    free: bool = False


def judge(
    schedule: GivenSchedule, runtimes: RuntimeModel, sample: Sequence[int], runs: int, every: int,
    progress: Callable[[int], None] = lambda _: None,
) -> Iterator[Judged]:  # fmt: skip
    """Yield each method's forecasts for the jobs of a sample, in order of time.

    Forecasts are calibrated as in the daemon: by their errors when the job has started, and when a range end has passed
    before that.  Of jobs that start at once nothing is learnt: the daemon forecasts none, nor one that depends on a job
    of unknown runtime.

    :param runtimes: an untrained model.
    :param every: seconds between two forecasts of a waiting job.
    """
    calibration, like, last = SelfCalibration(), LikeWaits(), LastWaits()
    waiting: dict[str, list[JudgedForecast]] = {}
    moments = _moments(schedule, runtimes, (like, last), sample, every, progress)
    seeds = count()
    for now, job, members, running in moments:
        started = [name for name, (first, *_) in waiting.items() if first.started <= now]
        calibration.learn(judged for name in started for judged in waiting.pop(name))
        calibration.still_waiting(waiting.keys(), now)
        name = str(job)
        jobs, submission = schedule.jobs.chosen(members), schedule.jobs.completed[job].submission
        waited, actual = now - schedule.jobs.submitted[job], int(schedule.start[job]) - now
        beyond = like.remaining(submission, waited)
        starts = tuple(int(schedule.start[member]) for member in members[:running])
        model = QueueModel(jobs, starts, jobs.walltime[:running], now, schedule.processors, schedule.policy)
        distributions = [
            runtimes.distribution(record.submission, limit, now, model.elapsed(place))
            for place, (record, limit) in enumerate(zip(jobs.completed, jobs.walltime, strict=True))
        ]
        position = members.index(job)
        start_forecast = forecast(model, distributions, runs, next(seeds) if actual else 0, [position])
        if unforeseeable(model, distributions, start_forecast, [position]):
            continue
        raw = wait_forecasts(model, distributions, start_forecast.quantiles(), [position], like)[position]
        low, lower, upper, high = raw.ranges
        known = tuple(max(int(schedule.duration[member]), 1) for member in members)
        bound = float(model.run(known, [position]).start[position]) - now
        own = last.expected(submission, waited)
        corrections = calibration.corrections_for(raw)
        if actual:
            calibration.watch(name, now, raw)
            waiting.setdefault(name, []).append(JudgedForecast(name, now, now + actual, raw))
        alike = np.quantile(beyond, (0.05, 0.25, 0.5, 0.75, 0.95)) if len(beyond) else np.zeros(5)
        alike[POINT] = beyond.mean() if len(beyond) else 0.0
        yield Judged(job, waited, actual, {
            WALLTIMES: np.full(5, raw.by_walltimes),
            LIKE: alike,
            LAST: np.full(5, raw.like_jobs if own is None else own),
            SIMULATED: np.full(5, float(start_forecast.point[position - running]) - now),
            DRAWN: np.array((low, lower, raw.median, upper, high)),
            COMBINED: corrections.corrected(raw),
            BOUND: np.full(5, bound),
        }, now, jobs.processors[position] <= model.processors - sum(jobs.processors[:running]))  # fmt: skip


def sampled(schedule: GivenSchedule, most: int) -> list[int]:
    """Positions of jobs that waited, spread evenly over the schedule without its first 1%."""
    return _some(schedule.start > np.array(schedule.jobs.submitted, np.int64), most)


def started_at_once(schedule: GivenSchedule, most: int) -> list[int]:
    """Positions of jobs that started when they were submitted, as :func:`sampled`."""
    return _some(schedule.start == np.array(schedule.jobs.submitted, np.int64), most)


def _some(wanted: NDArray[np.bool_], most: int) -> list[int]:
    jobs = np.flatnonzero(wanted)
    jobs = jobs[jobs >= len(wanted) // 100]
    if not len(jobs):
        return []
    return sorted(set(jobs[np.linspace(0, len(jobs) - 1, min(most, len(jobs))).astype(np.int64)].tolist()))


def _moments(
    schedule: GivenSchedule, runtimes: RuntimeModel, waits: Sequence[LikeWaits | LastWaits], sample: Sequence[int],
    every: int, progress: Callable[[int], None],
) -> Iterator[tuple[int, int, list[int], int]]:  # fmt: skip
    """Yield time and job of each forecast, running and waiting jobs at that time, and the number of running ones."""
    jobs, completed = schedule.jobs, schedule.jobs.completed
    start, duration = schedule.start.tolist(), schedule.duration.tolist()
    submitted = jobs.submitted
    # At one instant: ends, submissions, forecasts of jobs that start at once, starts, forecasts of jobs that wait.
    events = [(start[job] + duration[job], 0, job) for job in range(len(jobs))]
    events += [(submitted[job], 1, job) for job in range(len(jobs))]
    events += [(start[job], 3, job) for job in range(len(jobs))]
    events += [(start[job], 2, job) for job in sample if start[job] == submitted[job]]
    events += [(time, 4, job) for job in sample for time in range(submitted[job], start[job], every)]
    events.sort()
    running: dict[int, None] = {}
    waiting: dict[int, None] = {}
    for now, kind, job in events:
        if kind == 0:
            # A job of no duration ends before it starts.
            running.pop(job, None)
            ended = replace(completed[job], start=start[job], end=now, runtime=duration[job])
            runtimes.ended(ended, teaches=jobs.teaches[job])
        elif kind == 1:
            waiting[job] = None
            runtimes.submitted(completed[job].submission, now)
            progress(1)
        elif kind == 3:
            waiting.pop(job, None)
            if duration[job] > 0:
                running[job] = None
            for known in waits:
                known.started(completed[job].submission, now - submitted[job])
            runtimes.started(completed[job].submission, now)
        else:
            yield now, job, [*running, *waiting], len(running)


@dataclass(frozen=True, slots=True)
class StartScores:
    """Accuracy of one method's forecasts."""

    forecasts: int
    """Number of forecasts."""
    mean_wait: float
    """Mean remaining wait in seconds."""
    error: float
    """Mean absolute error of the expected start, in seconds."""
    relative: float
    """The error divided by the mean wait."""
    bias: float
    """Mean of expected minus actual start, in seconds; below 0: too early."""
    covered50: float | None
    """Share of the starts within the 50% range; null for a method without ranges."""
    covered90: float | None
    """Share of the starts within the 90% range."""
    width90: float | None
    """Mean width of the 90% range in seconds."""
    gain: float
    """Error minus that of the combined forecast, divided by the mean wait; below 0: the combined one is worse."""
    gain_low: float
    """The 2.5% quantile of that gain over samples of the weeks (bootstrap)."""
    gain_high: float
    """The 97.5% quantile."""
    enough_free: float
    """Share of the forecasts made while enough processors were free for the job: it waited for something else."""


@dataclass(frozen=True, slots=True)
class AtOnceScores:
    """Whether jobs were expected to start within a minute of their submission."""

    started: int
    """Number of jobs that started at once."""
    foreseen: float | None
    """Share of them that were expected to start at once; null: there are none."""
    waited: int
    """Number of jobs that waited."""
    missed: float | None
    """Share of them that were expected to start at once; null: there are none."""

    @classmethod
    def of(cls, judged: Iterable[Judged]) -> "AtOnceScores":
        shares: dict[bool, list[bool]] = {True: [], False: []}
        for one in judged:
            if not one.waited:
                shares[one.actual == 0].append(bool(one.predicted[COMBINED][POINT] <= AT_ONCE_S))
        started, waited = shares[True], shares[False]
        return cls(
            len(started), float(np.mean(started)) if started else None,
            len(waited), float(np.mean(waited)) if waited else None,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReplayStartsDocument:
    """Forecasts of start times on recorded jobs, compared with the starts."""

    COLUMNS: ClassVar = ("time", "method", *(field.name for field in fields(StartScores)))

    source: str
    """The sources, as given."""
    jobs: int
    """Number of jobs."""
    refused: int
    """Number of jobs that are larger than the machine."""
    processors: int
    """Size of the machine."""
    schedule: str
    """simulated, or recorded."""
    predictor: str
    """Predictor of runtimes."""
    at_once: AtOnceScores
    """Forecasts at submission that a job starts at once, by the combined forecast."""
    forecasts: dict[str, dict[str, StartScores]]
    """Figures without the first 10% of the sampled jobs, which only calibrate: by time of the forecast and method."""

    def rows(self) -> Iterator[dict[str, Any]]:
        for name, by_method in self.forecasts.items():
            for method, figures in by_method.items():
                yield {"time": name, "method": method, **asdict(figures)}


def scores(judged: Sequence[Judged], method: str) -> StartScores:
    """Return the scores of a method over one or more forecasts, its gain with the 95% interval of a bootstrap."""
    values, combined = (np.array([forecast.predicted[name] for forecast in judged]) for name in (method, COMBINED))
    actual = np.array([forecast.actual for forecast in judged], np.float64)
    difference = values[:, POINT] - actual
    mean, errors = float(actual.mean()), np.abs(difference)
    covered: tuple[float | None, float | None, float | None] = (None, None, None)
    if method not in (WALLTIMES, LAST, SIMULATED, BOUND):
        # Starts are whole seconds.
        low, lower, _, upper, high = np.round(values).T
        covered = (
            float(((lower <= actual) & (actual <= upper)).mean()),
            float(((low <= actual) & (actual <= high)).mean()),
            float((high - low).mean()),
        )
    _, week = np.unique([forecast.made // WEEK for forecast in judged], return_inverse=True)
    gains = np.bincount(week, errors - np.abs(combined[:, POINT] - actual))
    waits = np.bincount(week, actual)
    drawn = np.random.default_rng(0).integers(0, len(gains), (BOOTSTRAP_SAMPLES, len(gains)))
    low_gain, high_gain = np.quantile(gains[drawn].sum(axis=1) / waits[drawn].sum(axis=1), (0.025, 0.975)).tolist()
    error = float(errors.mean())
    return StartScores(
        len(judged), mean, error, error / mean, float(difference.mean()), *covered,
        float(gains.sum() / waits.sum()), low_gain, high_gain, float(np.mean([forecast.free for forecast in judged])),
    )  # fmt: skip


class StartsPlan(NamedTuple):
    """What to forecast: ``predictor`` of runtimes, number of jobs, seconds between two forecasts of a job, runs."""

    predictor: str
    recorded: bool
    sample: int
    every: int
    runs: int


def replay_forecasts(
    source: str, jobs: Jobs, processors: int, plan: StartsPlan, show: ShowProgress = no_progress
) -> ReplayStartsDocument:
    """Forecast a sample of the starts; the first ones only calibrate.

    :param source: the sources of the jobs, for people.
    :raises SourceError: if no job waits, or no start can be forecast.
    """
    jobs, refused = jobs.that_fit(processors)
    schedule = (GivenSchedule.recorded if plan.recorded else GivenSchedule.simulated)(jobs, processors)
    chosen = sampled(schedule, plan.sample)
    if not chosen:
        raise SourceError(f"no job waits on {plural(processors, 'processor')}: nothing to forecast")
    model = RuntimeModel(make(plan.predictor))
    sample = sorted(chosen + started_at_once(schedule, plan.sample))
    with show("forecasting", len(jobs)) as progress:
        judged = list(judge(schedule, model, sample, plan.runs, plan.every, progress))
    begin = jobs.submitted[chosen[int(len(chosen) * CALIBRATION_SHARE)]]
    judged = [one for one in judged if jobs.submitted[one.job] >= begin]
    parts = {
        name: [one for one in judged if one.actual and (one.waited > 0) == later]
        for name, later in (("at submission", False), (f"every {duration(plan.every)} after", True))
    }
    if not any(parts.values()):
        raise SourceError("every forecast depends on a job without walltime, of which nothing is known")
    return ReplayStartsDocument(
        source, len(jobs), refused, processors, "recorded" if plan.recorded else "simulated", plan.predictor,
        AtOnceScores.of(judged),
        {name: {method: scores(part, method) for method in METHODS} for name, part in parts.items() if part},
    )  # fmt: skip
