"""The walltimes that users request: few, round, generous, and the same again next time.

Source: D. Tsafrir, Y. Etsion and D. G. Feitelson, "Modeling User Runtime Estimates", JSSPP 2005.  Taken from it: twenty
popular values serve 89% of the jobs, their popularity falls exponentially with rank, the greatest permitted value is
among the most popular, and no job outlives its request.  The constants are the defaults of the authors' own program
(``m_tsafrir05``, ``est_model.hh``, Parallel Workloads Archive).  Which value has which rank is ours.

Where this departs from that model: it draws a histogram of requests and then deals them out to the jobs that they
suffice for.  Here each user chooses, by popularity and by closeness to the runtime that the user expects, and then
stays with the choice (:func:`keep`), so that one user's requests repeat; popularity weighs a choice, and is not the
resulting histogram.  In that 5 and 10 minutes lead, because so many jobs of the runtime model are that short.
"""

import math

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

MINUTE, HOUR = 60, 3600

MAXIMUM = 48 * HOUR
"""Greatest walltime that may be requested, in seconds."""

POPULAR = (
    MAXIMUM,
    1 * HOUR,
    24 * HOUR,
    4 * HOUR,
    30 * MINUTE,
    2 * HOUR,
    12 * HOUR,
    10 * MINUTE,
    8 * HOUR,
    15 * MINUTE,
    6 * HOUR,
    5 * MINUTE,
    36 * HOUR,
    3 * HOUR,
    20 * MINUTE,
    10 * HOUR,
    18 * HOUR,
    5 * HOUR,
    16 * HOUR,
    45 * MINUTE,
)
"""The popular walltimes in seconds, the most popular first."""

HEAD = 0.89
"""Share of the jobs whose request is popular (``binsiz_head_sum``)."""
DECAY = (14.0491, -0.177531, 0.462513)
"""a, b, c of the share a e^(b rank) + c, in per cent, of the second to the twentieth value (``binsiz_head_params``)."""

TASTE = 0.5
"""How closely a request follows its user's wish: standard deviation of ln(request / wish)."""
STEP = 10 * MINUTE
"""What the less round requests are multiples of."""
STALE = 12
"""A user cuts a request that exceeds the expected runtime by more than this factor."""


def shares() -> Floats:
    """Popularity of each of :data:`POPULAR`; together :data:`HEAD`.  The first takes what the curve leaves."""
    a, b, c = DECAY
    rest = [(a * math.exp(b * rank) + c) / 100 for rank in range(2, len(POPULAR) + 1)]
    return np.array([HEAD - sum(rest), *rest])


def choose(random: np.random.RandomState, expected: Integers, margin: Floats) -> Integers:
    """A request in seconds for each expected runtime (s), no less than it, about ``margin`` times as long.

    Among the popular values that suffice, one is chosen with probability proportional to its popularity times a
    log-normal closeness to ``expected * margin``.  One in nine is less round: the wish itself, in steps of 10 minutes.
    No expected runtime may exceed :data:`MAXIMUM`.
    """
    values = np.array(POPULAR)
    wish = np.clip(expected * np.maximum(margin, 1.0), min(POPULAR), MAXIMUM)
    distance = np.log(values / wish[:, None]) / TASTE
    appeal = np.where(values < expected[:, None], -np.inf, np.log(shares()) - distance**2 / 2)
    # The greatest of log weights plus Gumbel noise is a choice in proportion to the weights, for all rows at once.
    popular = values[np.argmax(appeal + random.gumbel(size=appeal.shape), axis=1)]
    odd = np.minimum(np.ceil(wish / STEP) * STEP, MAXIMUM)
    result: Integers = np.where(random.random_sample(len(expected)) < HEAD, popular, odd).astype(np.int64)
    return result


def least(expected: Integers) -> Integers:
    """The shortest popular request (s) that suffices for each expected runtime (s)."""
    ascending = np.sort(np.array(POPULAR))
    return ascending[np.searchsorted(ascending, expected)]


def keep(habits: Integers, expected: Integers, fresh: Integers) -> Integers:
    """The requests (s) when users, in order of time, stay with their last one as long as it suits.

    ``habits`` says whose habit each request belongs to (a user's application), ``fresh`` what would be chosen anew:
    that happens when the last request is less than the expected runtime, or more than :data:`STALE` times as long.
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
