"""The features of the learned attention with numpy: what :mod:`.gather_kernel` computes."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from softwalltime.predictors.learned.distribution import REACHES, SIZE, STEPS, Floats
from softwalltime.predictors.learned.features import (
    BURST,
    CENSORED,
    ENDED,
    KEY_JOBS,
    LARGEST,
    LONG_AGO,
    MAX_PAST_JOBS,
    MAX_RUNNING_JOBS,
    PAIR,
    REACHED,
    SAME_NAME,
    SAME_RUNTIME,
    SHORT,
    SIMILAR_RUNTIME,
)  # fmt: skip
from softwalltime.predictors.learned.known import (
    LAST,
    LOOK_BACK,
    OWN,
    RUNNING,
    SAME,
    SAME_WALLTIME,
    Integers,
    Known,
)  # fmt: skip
from softwalltime.predictors.learned.network import Floats32
from softwalltime.predictors.learned.user_jobs import (
    END,
    GROUP,
    KILLED,
    NAME,
    NCPUS,
    QUEUE,
    RUNTIME,
    SHARE,
    START,
    SUBMITTED,
    WALLTIME,
)  # fmt: skip

_PLACES: Floats = (np.arange(SIZE) - REACHES) / (4.0 * STEPS)


class Gathered(NamedTuple):
    """What the network and the mixture take; rows are the past jobs, the last one first, then the running ones.

    ``places`` are those of the past jobs.  ``base`` is the logarithm of the hand-set weight, ``logs`` that of runtime /
    walltime asked for, ``shifts`` that of the ratio of the walltimes, ``kinds`` what the job says of the new one.
    ``priors`` are the distributions of the user's, the project's and the queue's jobs.
    """

    pairs: Floats32
    job: Floats32
    places: Integers
    base: Floats
    logs: Floats
    shifts: Floats
    kinds: Integers
    priors: Floats


class _Alike(NamedTuple):
    """Which of the user's past jobs are like the one asked about, the last one first, and how many of those before."""

    walltime: NDArray[np.bool_]
    name: NDArray[np.bool_]
    all: NDArray[np.bool_]
    before: Integers

    @property
    def places(self) -> Integers:
        """Numbers of the jobs alike in all, the last one first."""
        places: Integers = self.all.nonzero()[0]
        return places


class _Sums(NamedTuple):
    """Averages over the past jobs by hand-set weight."""

    total: float = 0.0
    short: float = 0.0
    killed: float = 0.0
    mean: float = 0.0
    deviation: float = 0.0
    name: float = 0.0


def gather(known: Known) -> Gathered:
    ended, count = known.ended, known.ended.shape[1]
    recent = ended[:, : -LOOK_BACK - 1 : -1]
    alike = _alike(known, recent)
    chosen = _choose(alike)[:MAX_PAST_JOBS]
    running = known.running[:, -MAX_RUNNING_JOBS:]
    jobs = np.concatenate([recent[:, chosen], running], axis=1)
    rows, past = jobs.shape[1], len(chosen)
    places = count - 1 - chosen
    logs = jobs[RUNTIME].copy()
    logs[past:] = np.log(np.maximum(known.now - running[START], 1.0))
    base, since = _base(jobs, past, known)
    of_name = (jobs[NAME] == known.asked[NAME]) & (known.asked[NAME] != 0)
    pairs = np.zeros((rows, PAIR), np.float32)
    _fill_likeness(pairs, jobs, known, of_name)
    kinds = _fill_runtimes(pairs, jobs, logs, past, known)
    pairs[:past, 9] = np.log1p(chosen) / 3.0
    pairs[:past, 10] = np.log1p(alike.before[chosen]) / 3.0
    pairs[:, 11] = np.log1p(np.maximum(since, 0)) / 4.0
    pairs[:past, 12] = np.log1p(np.maximum(known.now - jobs[END, :past], 0.0) / 3600.0) / 3.0
    pairs[:, 13] = np.log1p(np.maximum(known.now - jobs[SUBMITTED], 0.0)) / 6.0 - 1.0
    pairs[past:, 14] = 1.0
    _fill_outcomes(pairs, logs, alike, recent)
    weights = np.exp(base[:past])
    _fill_sequence(pairs, jobs, places, known)
    pairs[:, 32] = base / 4.0
    shares = logs - known.asked[WALLTIME]
    total = float(weights.sum())
    if total > 0:
        apart = np.abs(shares[:, None] - shares[:past])
        pairs[:, 22] = (apart < SAME_RUNTIME) @ weights / total
        pairs[:, 23] = (apart < SIMILAR_RUNTIME) @ weights / total
    np.clip(pairs, -LARGEST, LARGEST, out=pairs)
    sums = _sums(weights, jobs[:, :past], shares[:past], of_name[:past])
    priors = _priors(known)
    shifts = known.asked[WALLTIME] - jobs[WALLTIME]
    return Gathered(pairs, _job(known, recent, alike, sums, priors), places, base, shares, shifts, kinds, priors)


def _alike(known: Known, recent: Floats) -> _Alike:
    asked = known.asked
    walltime = recent[WALLTIME] == asked[WALLTIME]
    name = (recent[NAME] == asked[NAME]) & (asked[NAME] != 0)
    whole = walltime & (recent[NCPUS] == asked[NCPUS]) & (recent[QUEUE] == asked[QUEUE])
    return _Alike(walltime, name, whole, whole.cumsum() - whole)


def _choose(alike: _Alike) -> Integers:
    """Return the numbers of the past jobs that count, the last job is number 0."""
    chosen = np.zeros(len(alike.all), np.bool_)
    chosen[:LAST] = chosen[alike.places[:SAME]] = chosen[alike.walltime.nonzero()[0][:SAME_WALLTIME]] = True
    chosen[alike.name.nonzero()[0][:SAME_NAME]] = True
    places: Integers = chosen.nonzero()[0]
    return places


def _base(jobs: Floats, past: int, known: Known) -> tuple[Floats, Integers]:
    """Return logarithms of the hand-set weights, and how many jobs the user has submitted since."""
    asked = known.asked
    walltime, ncpus = np.abs(jobs[WALLTIME] - asked[WALLTIME]), np.abs(jobs[NCPUS] - asked[NCPUS])
    since = len(known.submitted) + 1 - known.submitted.searchsorted(jobs[SUBMITTED], "right")
    base = -0.8 * walltime - 0.1 * (walltime > 0) - 0.4 * ncpus - 0.4 * (ncpus > 0)
    base -= 0.06 * (jobs[QUEUE] != asked[QUEUE]) + 0.3 * (jobs[NAME] != asked[NAME])
    base -= 0.75 * np.log(np.maximum(since, 1))
    base[:past] -= 0.15 * np.log1p(np.maximum(known.now - jobs[END, :past], 0.0) / 3600.0)
    base[past:] += math.log(RUNNING)
    return base, since


def _fill_likeness(pairs: Floats32, jobs: Floats, known: Known, of_name: NDArray[np.bool_]) -> None:
    asked = known.asked
    pairs[:, 0] = np.abs(jobs[WALLTIME] - asked[WALLTIME])
    pairs[:, 1] = asked[WALLTIME] - jobs[WALLTIME]
    pairs[:, 2] = jobs[WALLTIME] == asked[WALLTIME]
    pairs[:, 3] = np.abs(jobs[NCPUS] - asked[NCPUS])
    pairs[:, 4] = jobs[NCPUS] == asked[NCPUS]
    pairs[:, 5] = jobs[QUEUE] == asked[QUEUE]
    pairs[:, 6] = jobs[GROUP] == asked[GROUP]
    pairs[:, 7] = of_name
    pairs[:, 8] = pairs[:, 2] * pairs[:, 4] * pairs[:, 5]


def _fill_runtimes(pairs: Floats32, jobs: Floats, logs: Floats, past: int, known: Known) -> Integers:
    walltime = known.asked[WALLTIME]
    killed = jobs[KILLED] > 0
    killed[past:] = False
    kinds = np.where(killed, np.where(jobs[WALLTIME] >= walltime, REACHED, CENSORED), ENDED)
    kinds[past:] = CENSORED
    pairs[:, 15] = killed
    pairs[:, 16] = logs < SHORT
    pairs[:, 17] = (logs - walltime) / 4.0
    pairs[:, 18] = (logs - jobs[WALLTIME]) / 4.0
    pairs[:, 19] = logs / 5.0 - 1.0
    pairs[:, 20] = kinds == REACHED
    return kinds


def _fill_outcomes(pairs: Floats32, logs: Floats, alike: _Alike, recent: Floats) -> None:
    if recent.shape[1]:
        pairs[:, 24] = np.exp(-np.abs(logs - recent[RUNTIME, 0]))
    if alike.all.any():
        pairs[:, 25] = np.exp(-np.abs(logs - recent[RUNTIME, alike.places[0]]))


def _fill_sequence(pairs: Floats32, jobs: Floats, places: Integers, known: Known) -> None:
    """Fill in the places in the sequence of the user's submissions, and of the ends."""
    ended, submitted, then, count = known.ended, known.submitted, jobs[SUBMITTED], known.ended.shape[1]
    gap_now, end_gap_now, burst_now = _gaps(known)
    before = submitted.searchsorted(then)
    gap, end_gap = np.full(len(then), LONG_AGO), np.full(len(then), LONG_AGO)
    follows = before > 0
    gap[follows] = np.log1p(np.maximum(then[follows] - submitted[before[follows] - 1], 0.0))
    done = ended[END].searchsorted(then, "right")
    after = done > 0
    end_gap[after] = np.log1p(np.maximum(then[after] - ended[END, done[after] - 1], 0.0))
    burst = np.log1p(before - submitted.searchsorted(then - BURST))
    last = np.full(len(then), count)
    last[: len(places)] = places
    pairs[:, 21] = np.log1p(np.maximum(last - done, 0)) / 4.0
    pairs[:, 26] = np.abs(gap - gap_now) / 3.0
    pairs[:, 27] = np.abs(end_gap - end_gap_now) / 3.0
    if len(submitted):
        pairs[follows, 28] = known.keys[before[follows] - 1] == known.keys[-1]
    pairs[:, 29] = np.abs(burst - burst_now) / 2.0
    pairs[:, 30] = np.cos((known.now - then) * (2.0 * math.pi / 86400.0))
    if count:
        pairs[after, 31] = np.exp(-np.abs(ended[RUNTIME, done[after] - 1] - ended[RUNTIME, -1]))


def _gaps(known: Known) -> tuple[float, float, float]:
    """Return logarithms of the time since the last submission and since the last end, and of the place in a burst."""
    submitted, ended, now = known.submitted, known.ended, known.now
    gap = math.log1p(max(now - submitted[-1], 0.0)) if len(submitted) else LONG_AGO
    end_gap = math.log1p(max(now - ended[END, -1], 0.0)) if ended.shape[1] else LONG_AGO
    return gap, end_gap, math.log1p(len(submitted) - submitted.searchsorted(now - BURST))


def _sums(weights: Floats, jobs: Floats, shares: Floats, of_name: NDArray[np.bool_]) -> _Sums:
    total = float(weights.sum())
    if not total > 0:
        return _Sums()
    parts = weights / total
    mean = float(parts @ shares)
    deviation = math.sqrt(max(float(parts @ shares**2) - mean * mean, 0.0))
    killed = float(parts @ (jobs[KILLED] > 0))
    return _Sums(total, float(parts @ (jobs[RUNTIME] < SHORT)), killed, mean, deviation, float(parts @ of_name))


def _priors(known: Known) -> Floats:
    own = known.ended[SHARE, known.ended[WALLTIME] == known.asked[WALLTIME]][-OWN:].astype(np.int64)
    priors = np.zeros((3, SIZE))
    for number, bins in enumerate((own, known.project, known.queue)):
        if len(bins):
            priors[number] = np.bincount(bins, minlength=SIZE) / len(bins)
    return priors


def _job(known: Known, recent: Floats, alike: _Alike, sums: _Sums, priors: Floats) -> Floats32:
    walltime, count, running = known.asked[WALLTIME], recent.shape[1], known.running
    gap, end_gap, burst = _gaps(known)
    seconds = round(math.exp(walltime))
    places = alike.places
    last = [recent[RUNTIME, place] for place in places[:2].tolist()] or [walltime]
    since = np.log(np.maximum(known.now - running[START], 1.0)) if running.shape[1] else np.array([walltime - 8.0])
    same = (running[WALLTIME] == walltime) & (running[NCPUS] == known.asked[NCPUS])
    same &= running[QUEUE] == known.asked[QUEUE]
    shares = recent[RUNTIME, places[:KEY_JOBS]] - walltime
    mean = float(shares.mean()) if len(shares) else 0.0
    deviation = math.sqrt(max(float((shares**2).mean()) - mean * mean, 0.0)) if len(shares) else 0.0
    long = (recent[RUNTIME] >= SHORT).nonzero()[0]
    streak = int(long[0]) if len(long) else count
    own = int(alike.walltime.sum())
    mass = float(known.everybody.sum())
    means = priors @ _PLACES
    of_job = np.zeros(54, np.float32)
    of_job[:10] = (
        (walltime - 9.0) / 3.0, known.asked[NCPUS] / 4.0, math.log1p(count) / 5.0, math.log1p(len(places)) / 5.0,
        math.log1p(own) / 5.0, seconds % 3600 == 0, seconds % 43200 == 0, gap / 6.0 - 1.0, end_gap / 6.0 - 1.0,
        count > 0,
    )  # fmt: skip
    three = recent[:, :3]
    of_job[10 : 10 + min(count, 3)] = (three[RUNTIME] - walltime) / 4.0
    of_job[13 : 13 + min(count, 3)] = three[RUNTIME] < SHORT
    of_job[16 : 16 + min(count, 3)] = three[KILLED] > 0
    of_job[19:30] = (
        (last[0] - walltime) / 4.0, (last[-1] - walltime) / 4.0, len(places) > 0, abs(last[0] - last[-1]) / 4.0,
        len(places) > 0 and last[0] < SHORT, len(places) > 0 and recent[KILLED, places[0]] > 0,
        math.log1p(running.shape[1]) / 3.0, math.log1p(known.waiting) / 4.0, (since[0] - walltime) / 4.0,
        (since[-1] - walltime) / 4.0, math.log1p(int(same.sum())) / 3.0,
    )  # fmt: skip
    of_job[30:40] = (
        sums.short, sums.killed, sums.mean / 4.0, sums.deviation / 2.0, mean / 4.0, deviation / 2.0,
        float(known.everybody @ _PLACES) / mass if mass > 0 else 0.0, known.everybody[REACHES],
        math.log1p(streak) / 3.0, math.log(sums.total + 0.01) / 3.0,
    )  # fmt: skip
    of_job[40:] = (
        math.log1p(len(known.project)) / 5.0, means[1], priors[1, REACHES], math.log1p(len(known.queue)) / 5.0,
        means[2], priors[2, REACHES], math.log1p(min(own, OWN)) / 5.0, means[0], priors[0, REACHES], burst / 3.0,
        sums.name, alike.name.any(), len(known.submitted) > 0 and known.keys[-1] == known.key,
        int(alike.all[:8].sum()) / 8.0,
    )  # fmt: skip
    features: Floats32 = np.clip(of_job, -LARGEST, LARGEST)
    return features
