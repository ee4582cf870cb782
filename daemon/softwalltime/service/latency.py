"""What the thread that answers counts of its answers, in a microsecond each; others only read it."""

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field

from softwalltime.jobs import DecisionRecord

BOUNDS = (
    25, 50, 75, 100, 150, 200, 300, 500, 750, 1000, 1500, 2000, 3000, 5000, 10_000, 20_000, 50_000, 100_000, 1_000_000,
)  # fmt: skip
"""Upper bounds of the classes in which times are counted, microseconds; beyond the last there is one more class."""


@dataclass(slots=True)
class Times:
    """How many times were within each of ``BOUNDS``, and their sum in microseconds."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    total: int = 0

    def add(self, microseconds: int) -> None:
        """Count one."""
        self.counts[bisect_left(BOUNDS, microseconds)] += 1
        self.total += microseconds

    def as_dict(self) -> dict[str, object]:
        """Plain lists and numbers, as of one moment."""
        return {"bounds_us": list(BOUNDS), "counts": self.counts.copy(), "total_us": self.total}


class LatencyMeter:
    """Decisions by event, mode and action; how long they took; how long the hook waited, and its time-outs."""

    def __init__(self) -> None:
        self.decisions: Counter[tuple[str, str, str]] = Counter()
        self.answers = Times()
        self.exchanges = Times()
        self.timeouts = 0
        """Questions of the hook that timed out, at least: it tells how many in a row there were before each one."""
        self._before = 0

    def note(self, decision: DecisionRecord) -> None:
        """Count one decision."""
        self.decisions[decision.event, decision.mode, decision.action] += 1
        self.answers.add(decision.took)
        if decision.exchange_before is not None:
            self.exchanges.add(decision.exchange_before)
        count, before = decision.timeouts, self._before
        if count:
            # More than before: we may have answered those too late, and counted them; else they are all new.
            self.timeouts += count - before if count > before else count
        self._before = count

    def as_dict(self) -> dict[str, object]:
        """All of it in plain names and numbers; may be called from any thread."""
        # Copied in one step: the thread that answers may add to it at any moment.
        decisions = dict(self.decisions)
        return {
            "decisions": [
                {"event": event, "mode": mode, "action": action, "count": count}
                for (event, mode, action), count in sorted(decisions.items())
            ],
            "timeouts": self.timeouts,
            "answer_times": self.answers.as_dict(),
            "exchange_times": self.exchanges.as_dict(),
        }


def percentile(counts: list[int], bounds: list[int], share: float) -> float | None:
    """The time (microseconds) within which this share of the times was, by their classes; ``None``: there were none.

    Within a class times are taken to be spread evenly; beyond the last bound its bound is all that is known.
    """
    wanted = share * sum(counts)
    if not wanted:
        return None
    below = 0
    for number, count in enumerate(counts[:-1]):
        if count and below + count >= wanted:
            low = bounds[number - 1] if number else 0
            return low + (bounds[number] - low) * (wanted - below) / count
        below += count
    return float(bounds[-1])
