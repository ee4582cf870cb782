"""Requested walltimes: few round values, larger than the runtime, repeated by each user.

Source: D. Tsafrir, Y. Etsion and D. G. Feitelson, "Modeling User Runtime Estimates", JSSPP 2005.  From the paper:
twenty popular values cover 89% of the jobs, the popularity decreases exponentially with the rank, the greatest
permitted value is among the most popular, and no job exceeds its request.  The constants are the defaults of the
authors' program (``m_tsafrir05``, ``est_model.hh``, Parallel Workloads Archive).  The order of the values is our own.

The model assigns a histogram of requests to jobs.  Here each user selects a value by popularity and by closeness to
the expected runtime, and keeps it (:func:`repeat_requests`).
"""

import math

import numpy as np

from softwalltime.measure.simulation.simulated_jobs import Floats, Integers

MINUTE, HOUR = 60, 3600

MAXIMUM = 48 * HOUR
"""Greatest walltime that may be requested, in seconds."""

POPULAR = (
    MAXIMUM, 1 * HOUR, 24 * HOUR, 4 * HOUR, 30 * MINUTE, 2 * HOUR, 12 * HOUR, 10 * MINUTE, 8 * HOUR, 15 * MINUTE,
    6 * HOUR, 5 * MINUTE, 36 * HOUR, 3 * HOUR, 20 * MINUTE, 10 * HOUR, 18 * HOUR, 5 * HOUR, 16 * HOUR, 45 * MINUTE,
)  # fmt: skip
"""Popular walltimes in seconds, most popular first."""

HEAD = 0.89
"""Share of the jobs whose request is popular (``binsiz_head_sum``)."""
DECAY = (14.0491, -0.177531, 0.462513)
"""a, b, c of the share a e^(b rank) + c, in per cent, of the second to the twentieth value (``binsiz_head_params``)."""

SPREAD = 0.5
"""Standard deviation of ln(request / target)."""
STEP = 10 * MINUTE
"""Granularity of unpopular requests, in seconds."""
STALE = 12
"""A user replaces a request that exceeds the expected runtime by more than this factor."""


def popularities() -> Floats:
    """Return the popularity of each of :data:`POPULAR`, in total :data:`HEAD`; the first gets the rest of the curve."""
    a, b, c = DECAY
    rest = [(a * math.exp(b * rank) + c) / 100 for rank in range(2, len(POPULAR) + 1)]
    return np.array([HEAD - sum(rest), *rest])


def draw_requests(random: np.random.RandomState, expected: Integers, margin: Floats) -> Integers:
    """Return a request (s) for each expected runtime (s): at least that long, about ``margin`` times as long.

    A popular value that is long enough is drawn with probability proportional to its popularity times a log-normal
    weight around the target ``expected * margin``.  One request in nine is the target itself, in steps of 10 minutes.
    No expected runtime may exceed :data:`MAXIMUM`.
    """
    values = np.array(POPULAR)
    target = np.clip(expected * np.maximum(margin, 1.0), min(POPULAR), MAXIMUM)
    distance = np.log(values / target[:, None]) / SPREAD
    appeal = np.where(values < expected[:, None], -np.inf, np.log(popularities()) - distance**2 / 2)
    # Gumbel-max trick: draws in proportion to the weights, for all rows at once.
    popular = values[np.argmax(appeal + random.gumbel(size=appeal.shape), axis=1)]
    odd = np.minimum(np.ceil(target / STEP) * STEP, MAXIMUM)
    result: Integers = np.where(random.random_sample(len(expected)) < HEAD, popular, odd).astype(np.int64)
    return result


def shortest_requests(expected: Integers) -> Integers:
    """Return the shortest popular request (s) that covers each expected runtime (s)."""
    ascending = np.sort(np.array(POPULAR))
    return ascending[np.searchsorted(ascending, expected)]


def repeat_requests(habits: Integers, expected: Integers, fresh: Integers) -> Integers:
    """Return the requests (s) in order of time, if users repeat the last request while it is suitable.

    :param habits: identifies the application of each request.
    :param fresh: the new request if the last one is shorter than the expected runtime, or more than :data:`STALE` times
        as long.
    """
    last: dict[int, int] = {}
    requests = []
    for habit, runtime, choice in zip(habits.tolist(), expected.tolist(), fresh.tolist(), strict=True):
        request = last.get(habit, 0)
        if not runtime <= request <= STALE * runtime:
            request = choice
        last[habit] = request
        requests.append(request)
    return np.array(requests, dtype=np.int64)
