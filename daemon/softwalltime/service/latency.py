"""Histograms of response times; only the thread of the requests writes, other threads read."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from softwalltime.jobs import DecisionRecord

BOUNDS = (
    25, 50, 75, 100, 150, 200, 300, 500, 750, 1000, 1500, 2000, 3000, 5000, 10_000, 20_000, 50_000, 100_000, 1_000_000,
)  # fmt: skip
"""Upper bounds of the histogram's buckets in microseconds; one more bucket follows the last bound."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """Durations counted in buckets."""

    bounds_us: Sequence[int]
    """Upper bounds of the buckets in microseconds."""
    counts: Sequence[int]
    """Durations in each bucket, and above the last bound."""
    total_us: int
    """Sum of the durations in microseconds."""

    def since(self, earlier: "Histogram") -> "Histogram":
        """Return the durations added after ``earlier``; all of them if the daemon was restarted since."""
        counts = [count - before for count, before in zip(self.counts, earlier.counts, strict=True)]
        return self if min(counts) < 0 else Histogram(self.bounds_us, counts, self.total_us - earlier.total_us)

    def percentile(self, share: float) -> float | None:
        """Return the percentile in microseconds, interpolated linearly within a bucket; ``None`` without durations.

        :param share: between 0 and 1.
        :return: at most the last bound.
        """
        wanted = share * sum(self.counts)
        if not wanted:
            return None
        below = 0
        for number, count in enumerate(self.counts[:-1]):
            if count and below + count >= wanted:
                low = self.bounds_us[number - 1] if number else 0
                return low + (self.bounds_us[number] - low) * (wanted - below) / count
            below += count
        return float(self.bounds_us[-1])


@dataclass(slots=True)
class DurationCounter:
    """Counts durations in the buckets of ``BOUNDS`` and adds them up, in microseconds."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    total: int = 0

    def add(self, microseconds: int) -> None:
        self.counts[bisect_left(BOUNDS, microseconds)] += 1
        self.total += microseconds

    def histogram(self) -> Histogram:
        """Return the durations so far; safe from any thread."""
        return Histogram(BOUNDS, self.counts.copy(), self.total)


class RequestMetrics:
    """Decisions by event, mode and action; response times, durations of the hook's exchanges, and its timeouts."""

    def __init__(self) -> None:
        self.decisions: Counter[tuple[str, str, str]] = Counter()
        self.answers = DurationCounter()
        self.exchanges = DurationCounter()
        self.timeouts = 0
        """Requests of the hook that timed out, a lower bound: the hook reports how many in a row preceded a request."""
        self._before = 0

    def add(self, decision: DecisionRecord) -> None:
        self.decisions[decision.event, decision.mode, decision.action] += 1
        self.answers.add(decision.took)
        if decision.exchange_before is not None:
            self.exchanges.add(decision.exchange_before)
        count, before = decision.timeouts, self._before
        if count:
            # If the number has grown, it includes the timeouts that were reported before.
            self.timeouts += count - before if count > before else count
        self._before = count
