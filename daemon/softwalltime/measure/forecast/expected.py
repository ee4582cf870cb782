"""Forecast the start of each waiting job, with ranges and the reason for waiting."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from softwalltime.core.formatting import plural
from softwalltime.measure.forecast.calibration import POINT, Corrections, WaitForecast
from softwalltime.measure.forecast.like_waits import LikeWaits
from softwalltime.measure.forecast.queue_model import ModelledQueue, QueueModel
from softwalltime.measure.forecast.runtimes import RuntimeDistribution, RuntimeModel
from softwalltime.measure.forecast.snapshot import LiveJob
from softwalltime.measure.forecast.start_times import StartForecast, distributions_of, forecast, waits_for
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
    until = [index for index in range(first, len(queue.live)) if queue.live[index].submission.job_id in jobs]
    if until:
        distributions = distributions_of(queue, learnt.runtimes, known)
        if learnt.correct is None and all(known.values.min() == known.values.max() for known in distributions):
            # All runs would be equal, so the ranges would have no width.
            progress(runs)
            runs = 0
        starts = forecast(model, distributions, runs, until=until, progress=progress)
        unknown = [index for index, distribution in enumerate(distributions) if not distribution.known]
        depending = unforeseeable(model, distributions, starts, until)
        rows = np.insert(starts.ranges(), POINT, starts.point, axis=0)
        raw: dict[int, WaitForecast] = {}
        if runs:
            # A run with medians frees no processor before the shortest median: too late if jobs end early.
            rows[POINT] = np.median(starts.sampled, axis=0)
            rows, raw = _corrected(queue, learnt, distributions, until, rows)
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


def walltimes_or_medians(model: QueueModel, distributions: Sequence[RuntimeDistribution]) -> list[int]:
    """Return the walltimes; the scheduler's default for jobs without one is no estimate of the runtime."""
    return [
        math.ceil(distribution.median) if walltime == UNLIMITED_WALLTIME_S else walltime
        for walltime, distribution in zip(model.jobs.walltime, distributions, strict=True)
    ]


def _corrected(
    queue: ModelledQueue, learnt: Learnt, distributions: Sequence[RuntimeDistribution], until: Sequence[int],
    rows: Floats,
) -> tuple[Floats, dict[int, WaitForecast]]:  # fmt: skip
    model = queue.model
    if learnt.correct is None:
        return rows, {}
    corrected, kept = rows.copy(), {}
    by_walltimes = model.run(walltimes_or_medians(model, distributions), until).start
    for index in until:
        place = index - model.running
        # The wait of a delayed job begins at its execution time.
        begin = max(model.now, model.jobs.submitted[index])
        waited = begin - model.jobs.submitted[index]
        like = learnt.waits.expected(model.jobs.completed[index].submission, waited)
        expected = float(rows[POINT, place]) - begin
        ranges = np.delete(rows[:, place], POINT) - begin
        kept[index] = raw = WaitForecast(
            expected, float(by_walltimes[index]) - begin, expected if like is None else like,
            tuple(ranges.tolist()), waited, begin - model.now,
        )  # fmt: skip
        corrected[:, place] = learnt.correct(raw).corrected(raw) + begin
    return corrected, kept
