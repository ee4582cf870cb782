"""Compute results in the spare time of the forecast process: some of them at each step, in turn."""

import time
from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, TypeVar

MAX_TIME_SHARE = 0.1
"""Maximum share of the forecast interval to spend on one kind of results."""
RESULT_MAX_AGE_S = 1800
"""Seconds after which a result is not used any more."""

K = TypeVar("K")
V = TypeVar("V")


class Dated(NamedTuple, Generic[V]):
    """A result and when it was computed, epoch seconds."""

    made: int
    value: V


class SpareTime(Generic[K, V]):
    """Results by key, of which each step computes as many as there is time for, the missing and the oldest first.

    :param every: seconds between two steps.
    :param renew: seconds for which a result is not computed again.
    """

    def __init__(self, every: int, renew: int = RESULT_MAX_AGE_S) -> None:
        self.affordable = 0.0
        """Number of results that can be kept up to date, by the time that the last ones took; 0: not known."""
        self._seconds = MAX_TIME_SHARE * every
        self._renew = renew
        self._known: dict[K, Dated[V]] = {}

    def step(self, now: int, wanted: Iterable[K], compute: Callable[[K], V]) -> dict[K, Dated[V]]:
        """Return the known results of these keys that are not too old.

        :param now: epoch seconds.
        :param wanted: keys, the most important ones first.
        """
        begin, computed = time.monotonic(), 0
        keys = list(dict.fromkeys(wanted))
        known = self._known = {key: self._known[key] for key in keys if key in self._known}
        for key in sorted(keys, key=lambda key: known[key].made if key in known else 0):
            spent = time.monotonic() - begin
            if spent > self._seconds or (key in known and now - known[key].made < self._renew):
                break
            known[key] = Dated(now, compute(key))
            computed += 1
        if computed:
            self.affordable = MAX_TIME_SHARE * RESULT_MAX_AGE_S * computed / (time.monotonic() - begin)
        return {key: result for key, result in known.items() if now - result.made < RESULT_MAX_AGE_S}
