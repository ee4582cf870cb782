"""Limit a rate, such as that of the connections of a user."""

from collections.abc import Hashable


class RateLimit:
    """A token bucket for each key.

    :param rate: tokens per second.
    :param burst: maximum tokens.
    """

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        self._buckets: dict[Hashable, tuple[float, float]] = {}

    def take(self, key: Hashable, now: float) -> bool:
        """Take a token; return whether there was one.

        :param now: seconds of a monotonic clock.
        """
        left, since = self._buckets.get(key, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._rate)
        allowed = left >= 1
        self._buckets[key] = (left - 1 if allowed else left, now)
        return allowed

    def forget(self, now: float) -> None:
        full = self._burst / self._rate
        self._buckets = {key: (left, since) for key, (left, since) in self._buckets.items() if now - since < full}
