"""How often each user may ask: so many times at once, and so many times a second."""

from collections.abc import Hashable


class Allowance:
    """A bucket of requests for each key, which fills with time.

    :param rate: requests a second in the long run.
    :param burst: requests at once.
    """

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        self._buckets: dict[Hashable, tuple[float, float]] = {}

    def take(self, key: Hashable, now: float) -> bool:
        """Return whether the key may ask now, and count the request if so.

        :param now: seconds of a clock that never goes back.
        """
        left, since = self._buckets.get(key, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._rate)
        allowed = left >= 1
        self._buckets[key] = (left - 1 if allowed else left, now)
        return allowed

    def forget(self, now: float) -> None:
        """Drop the keys whose buckets are full again."""
        full = self._burst / self._rate
        self._buckets = {key: (left, since) for key, (left, since) in self._buckets.items() if now - since < full}
