"""Sizes, runtimes and arrivals of batch jobs by the model of Lublin and Feitelson.

Source: U. Lublin and D. G. Feitelson, "The workload on parallel supercomputers: modeling the characteristics of
rigid jobs", Journal of Parallel and Distributed Computing 63(11), 1105-1122, 2003, without its interactive jobs.  The
values are those of the authors' program ``m_lublin99.c`` (Parallel Workloads Archive, the ``..._BATCH`` constants).
All functions draw from a ``numpy.random.RandomState``, whose stream numpy keeps stable (NEP 19).
"""

import math

import numpy as np

from softwalltime.measure.simulation.simulated_jobs import Floats, Integers

SERIAL = 0.2927
"""Share of jobs on one processor (SERIAL_PROB_BATCH)."""
POWER_OF_TWO = 0.6686
"""Share of all jobs that are parallel and rounded to a power of two (POW2_PROB_BATCH)."""

MIN_LOG_SIZE = 1.2
"""log2 of the least parallel size; low enough for enough jobs of size 2 (ULOW_BATCH)."""
BELOW_LARGEST = 2.0
"""Distance of the boundary of the two stages from the machine's log2 size: 5 of 7 (UMED_BATCH, UHI_BATCH)."""
FIRST_STAGE = 0.875
"""Share of parallel jobs in the lower stage (UPROB_BATCH)."""

SHORT_GAMMA = (6.57, 0.823)
"""Shape and scale of the gamma of ln(runtime / s) of short jobs, mean e^5.4 = 220 s (A1_BATCH, B1_BATCH)."""
LONG_GAMMA = (639.1, 0.0156)
"""The same of long jobs, mean e^9.97 = 6 h (A2_BATCH, B2_BATCH)."""
SHORT_SLOPE, SHORT_INTERCEPT = -0.003, 0.6986
"""The probability of a short job is linear in its size in processors (PA_BATCH, PB_BATCH)."""
MAX_LOG_RUNTIME = 12.0
"""Greatest ln(runtime / s): 45 h; a draw above it is drawn again (TOO_MUCH_TIME)."""

GAP_GAMMA = (6.0415 * 1.0519, 0.8531)
"""Shape and scale of the gamma of ln(time between arrivals / s) (AARR_BATCH x ARAR_BATCH, BARR_BATCH)."""
MAX_LOG_GAP = 13.0
"""Greatest ln(time between arrivals / s): 5 days; a draw above it is drawn again (TOO_MUCH_ARRIVE_TIME)."""

DAILY = (6.1271, 5.2740)
"""Shape and scale of the gamma of the half-hour of the day of an arrival (ANUM_BATCH, BNUM_BATCH)."""
DAY_BEGINS = 11
"""Half-hour slot, from 1, at which the day of that gamma begins: 5:00 (CYCLIC_DAY_START)."""

DAY = 86_400
SLOTS = 48
SLOT = DAY // SLOTS


def draw_sizes(random: np.random.RandomState, count: int, processors: int = 128) -> Integers:
    """Draw the processors of ``count`` jobs on a machine of this size.

    Serial with probability :data:`SERIAL`; else 2^x with x two-stage uniform on [1.2, h - 2] and [h - 2, h],
    h = log2(processors), x rounded for most of them to give powers of two.  A size never exceeds the machine.
    """
    high = math.log2(processors)
    low = min(MIN_LOG_SIZE, high)
    middle = max(low, high - BELOW_LARGEST)
    kind, stage, position = random.random_sample((3, count))
    exponent = np.where(stage <= FIRST_STAGE, low + (middle - low) * position, middle + (high - middle) * position)
    rounded = np.minimum(np.floor(exponent + 0.5), math.floor(high))
    exponent = np.where(kind <= SERIAL + POWER_OF_TWO, rounded, exponent)
    parallel = np.minimum(np.floor(2.0**exponent + 0.5), processors)
    return np.where(kind <= SERIAL, 1, parallel).astype(np.int64)


def draw_runtimes(random: np.random.RandomState, processors: Integers) -> Integers:
    """Draw runtimes in whole seconds, at least 1 and less than 45 h, of jobs of these sizes.

    ln(runtime) is from :data:`SHORT_GAMMA` with a probability that falls linearly with the size, else from the other.
    """
    probability = np.clip(SHORT_SLOPE * processors + SHORT_INTERCEPT, 0.0, 1.0)
    logarithms = np.full(len(processors), np.inf)
    while (missing := np.flatnonzero(logarithms > MAX_LOG_RUNTIME)).size:
        short = random.random_sample(missing.size) <= probability[missing]
        logarithms[missing] = random.gamma(*np.where(short[:, None], SHORT_GAMMA, LONG_GAMMA).T)
    result: Integers = np.floor(np.exp(logarithms)).astype(np.int64)
    return result


def draw_gaps(random: np.random.RandomState, count: int) -> Floats:
    """Draw times between arrivals (s) without the daily cycle; :func:`apply_daily_cycle` adds it."""
    logarithms = np.full(count, np.inf)
    while (missing := np.flatnonzero(logarithms > MAX_LOG_GAP)).size:
        logarithms[missing] = random.gamma(*GAP_GAMMA, missing.size)
    result: Floats = np.exp(logarithms)
    return result


def daily_cycle() -> Floats:
    """Return the arrival rate of each half-hour from midnight, relative to the mean of the day.

    The gamma :data:`DAILY` integrated over each half-hour slot, the day beginning at slot :data:`DAY_BEGINS`.
    """
    weights = np.zeros(SLOTS)
    for slot in range(DAY_BEGINS, DAY_BEGINS + SLOTS):
        weights[(slot - 1) % SLOTS] = _gamma_cdf(slot + 0.5, *DAILY) - _gamma_cdf(slot - 0.5, *DAILY)
    result: Floats = weights * (SLOTS / weights.sum())
    return result


def apply_daily_cycle(elapsed: Floats, time_of_day: float = 0.0) -> Floats:
    """Return arrival times (s) under the daily cycle, after a start at ``time_of_day`` (s after midnight).

    ``elapsed`` are the arrival times without the cycle.  A half-hour with twice the mean rate contains two half-hours
    of them; whole days stay whole days.  This is the model's "paying points to buckets" in closed form.
    """
    edges = np.arange(SLOTS + 1) * float(SLOT)
    passed = np.concatenate(([0.0], np.cumsum(daily_cycle()))) * SLOT
    passed[-1] = DAY
    days, rest = np.divmod(elapsed + np.interp(time_of_day, edges, passed), DAY)
    result: Floats = days * DAY + np.interp(rest, passed, edges) - time_of_day
    return result


def _gamma_cdf(x: float, shape: float, scale: float) -> float:
    """Return the cumulative gamma distribution, by the series of Abramowitz 6.5.29."""
    t = x / scale
    term = total = 1.0 / shape
    n = 1
    while term > total * 1e-16:
        term *= t / (shape + n)
        total += term
        n += 1
    return total * math.exp(shape * math.log(t) - t - math.lgamma(shape))
