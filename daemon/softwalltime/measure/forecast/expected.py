"""Forecast the start of each waiting job, with ranges and the reason for waiting."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from softwalltime.core.formatting import plural
from softwalltime.measure.forecast.calibration import Corrections, WaitForecast
from softwalltime.measure.forecast.like_waits import LikeWaits
from softwalltime.measure.forecast.queue_model import ModelledQueue, QueueModel
from softwalltime.measure.forecast.runtimes import RuntimeDistribution, RuntimeModel
from softwalltime.measure.forecast.snapshot import LiveJob
from softwalltime.measure.forecast.start_times import POINT, StartForecast, distributions_of, forecast, waits_for
from softwalltime.measure.simulation.simulated_jobs import UNLIMITED_WALLTIME_S, Floats


@dataclass(frozen=True, slots=True)
class ExpectedStart:
    """A waiting job with its expected start and ranges, in epoch seconds; ``None`` where there is no forecast.

    ``runtime`` is the distribution of its runtime.  ``raw`` is what was forecast before any correction, where that is
    kept.
    """

    job: LiveJob
    waits_for: str
    expected: int | None = None
    range50: tuple[int, int] | None = None
    range90: tuple[int, int] | None = None
    runtime: RuntimeDistribution | None = None
    raw: WaitForecast | None = None


@dataclass(frozen=True, slots=True)
class Learnt:
    """Models learnt from past jobs: runtimes, and optionally waits and forecast errors.

    ``correct``: returns the calibration of a forecast, whose uncalibrated values are then kept; ``None``: no
    calibration.
    """

    runtimes: RuntimeModel
    waits: LikeWaits = field(default_factory=LikeWaits)
    correct: Callable[[WaitForecast], Corrections] | None = None


def expected_starts(
    queue: ModelledQueue, learnt: Learnt, jobs: frozenset[str], runs: int,
    progress: Callable[[int], None] = lambda _: None, known: Mapping[str, RuntimeDistribution] = MappingProxyType({}),
) -> Iterator[ExpectedStart]:  # fmt: skip
    """Yield the jobs with these ids by their expected start, then those without a forecast.

    Jobs whose starts depend on a job of unknown runtime have no forecast.

    :param runs: with drawn runtimes, for the ranges and the expected start, their median; 0: the expected start is that
        with median runtimes, and there are no ranges, as where nothing is known of runtimes but walltimes.
    :param known: runtimes that were predicted before, by job id.
    """
    model = queue.model
    first = model.running
    until = [index for index, job_id in enumerate(queue.ids) if index >= first and job_id in jobs]
    if until:
        distributions = distributions_of(queue, learnt.runtimes, known)
        if learnt.correct is None and all(known.values.min() == known.values.max() for known in distributions):
            # All runs would be equal, so the ranges would have no width.
            progress(runs)
            runs = 0
        starts = forecast(model, distributions, runs, until=until, progress=progress)
        unknown = [index for index, distribution in enumerate(distributions) if not distribution.known]
        depending = unforeseeable(model, distributions, starts, until)
        rows, raw = starts.quantiles(), dict[int, WaitForecast]()
        if runs and learnt.correct is not None:
            raw = wait_forecasts(model, distributions, rows, until, learnt.waits)
            for index, wait in raw.items():
                rows[:, index - first] = learnt.correct(wait).corrected(wait) + (model.now + wait.delay)
        foreseen = [index for index in until if index not in depending]
        for index in sorted(foreseen, key=lambda index: float(rows[POINT, index - first])):
            low, lower, expected, upper, high = (round(value) for value in rows[:, index - first].tolist())
            sentence = waits_for(queue, starts, index)
            yield ExpectedStart(
                queue.live[index], sentence, expected, (lower, upper) if runs else None, (low, high) if runs else None,
                _known(distributions[index]), raw.get(index),
            )  # fmt: skip
        for index in depending:
            others = f" and {plural(len(unknown) - 1, 'other')}" if len(unknown) > 1 else ""
            name = queue.live[unknown[0]].submission.job_id
            reason = f"its start depends on {name}{others}, of unknown runtime: {distributions[unknown[0]].basis}"
            yield ExpectedStart(queue.live[index], reason, runtime=_known(distributions[index]))
    for impossible in queue.impossible:
        if impossible.job.submission.job_id in jobs:
            yield ExpectedStart(impossible.job, impossible.reason)


def _known(distribution: RuntimeDistribution) -> RuntimeDistribution | None:
    return distribution if distribution.known else None


def unforeseeable(
    model: QueueModel, distributions: Sequence[RuntimeDistribution], starts: StartForecast, until: Sequence[int]
) -> list[int]:
    """Return the jobs whose starts change if jobs of unknown runtime end at once."""
    if all(given.known for given in distributions):
        return []
    shortest = [given if given.known else replace(given, values=np.ones(1)) for given in distributions]
    changed = forecast(model, shortest, 0, until=until).point != starts.point
    return [index for index in until if changed[index - model.running]]


def wait_forecasts(
    model: QueueModel, distributions: Sequence[RuntimeDistribution], quantiles: Floats, until: Sequence[int],
    waits: LikeWaits,
) -> dict[int, WaitForecast]:  # fmt: skip
    """Return the uncalibrated forecasts of the waits of these jobs by position.

    The wait of a delayed job begins at its execution time.

    :param quantiles: of the starts with drawn runtimes (:meth:`.StartForecast.quantiles`).
    """
    # The scheduler's default for jobs without a walltime is no estimate of the runtime.
    limits = [
        math.ceil(distribution.median) if walltime == UNLIMITED_WALLTIME_S else walltime
        for walltime, distribution in zip(model.jobs.walltime, distributions, strict=True)
    ]
    by_walltimes = model.run(limits, until).start
    forecasts = {}
    for index in until:
        place, submitted = index - model.running, model.jobs.submitted[index]
        begin = max(model.now, submitted)
        waited = begin - submitted
        low, lower, expected, upper, high = (quantiles[:, place] - begin).tolist()
        like = waits.expected(model.jobs.completed[index].submission, waited)
        forecasts[index] = WaitForecast(
            expected, float(by_walltimes[index]) - begin, expected if like is None else like,
            (low, lower, upper, high), waited, begin - model.now,
        )  # fmt: skip
    return forecasts
