"""The daemon's status: one frozen value for the protocol, the metrics and the commands."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from softwalltime.core.errors import SoftwalltimeError
from softwalltime.core.jobs import DecisionRecord
from softwalltime.predict.drive import PredictorFailure
from softwalltime.store.quality import Quality, StartQuality, WaitOfSize

OK = "ok"
NOT_FOLLOWED = "not followed"

BOUNDS = (
    25, 50, 75, 100, 150, 200, 300, 500, 750, 1000, 1500, 2000, 3000, 5000, 10_000, 20_000, 50_000, 100_000, 1_000_000,
)  # fmt: skip
"""Upper bounds of the histogram's buckets in microseconds; one more bucket follows the last bound."""


@dataclass(slots=True)
class Histogram:
    """Durations counted in buckets."""

    bounds_us: Sequence[int]
    """Upper bounds of the buckets in microseconds."""
    counts: list[int]
    """Durations in each bucket, and above the last bound."""
    total_us: int
    """Sum of the durations in microseconds."""

    def add(self, microseconds: int) -> None:
        self.counts[bisect_left(self.bounds_us, microseconds)] += 1
        self.total_us += microseconds

    def copy(self) -> "Histogram":
        """Return the durations so far; safe from any thread."""
        return Histogram(self.bounds_us, self.counts.copy(), self.total_us)

    def percentile(self, share: float) -> float | None:
        """Return the percentile in microseconds, interpolated linearly within a bucket; ``None`` without durations.

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


class StatusError(SoftwalltimeError):
    """The response is not a status of this version."""


@dataclass(frozen=True, slots=True)
class DecisionCount:
    """Number of decisions of this kind since the start."""

    event: str
    """Event of PBS."""
    mode: str
    """Mode of the policy."""
    action: str
    """set, late, shadow or none."""
    count: int
    """Number of decisions."""


@dataclass(slots=True)
class LiveStatus:
    """State and counters of live values since the start of the daemon."""

    mode: str = "off"
    """off, shadow or on."""
    problem: str = ""
    """Why PBS cannot be read or altered; empty: it can."""
    late_job: str = ""
    """The late top job for which the guard is on; empty: it is off."""
    looks: int = 0
    """Polls of PBS's queue."""
    jobs: int = 0
    """Waiting and running jobs at the last poll."""
    altered: int = 0
    """Alters made."""
    shadowed: int = 0
    """Alters that were only recorded, in mode shadow."""
    refused: int = 0
    """Alters that PBS refused."""
    postponed: int = 0
    """Alters postponed at the last poll, because they exceed the budget."""
    guard: int | None = None
    """Seconds that a top job may be late before the guard is on; ``None``: there is no guard."""
    promises: Mapping[str, int] = field(default_factory=dict)
    """Promised starts kept, late and withdrawn since the start, and open now, by these names."""
    unmet: str = ""
    """Parts of the policy that need live values, which are off; empty: none."""


@dataclass(frozen=True, slots=True)
class QueueStarts:
    """Expected waits of a queue's waiting jobs."""

    queue: str
    """The queue."""
    waiting: int
    """Waiting jobs."""
    forecast: int
    """Of these, jobs with an expected start."""
    mean_wait: float
    """Mean expected wait in seconds."""
    longest_wait: float
    """Longest expected wait in seconds."""


@dataclass(frozen=True, slots=True)
class StartsStatus:
    """The last forecast of the starts of waiting jobs."""

    mode: str = "off"
    """off, or on."""
    problem: str = ""
    """Why there is no newer forecast; empty: there is."""
    taken: int = 0
    """Time of the forecast, epoch seconds; 0: none since the start."""
    seconds: float = 0.0
    """Duration of the forecast in seconds."""
    learnt: int = 0
    """Jobs from which runtimes were learnt."""
    runs: int = 0
    """Simulation runs for the ranges; fewer than set if forecasts take too long."""
    waiting: int = 0
    """Waiting jobs."""
    forecast: int = 0
    """Of these, jobs with an expected start."""
    shown: int = 0
    """Jobs altered to show their expected starts."""
    refused: int = 0
    """Alters that PBS refused."""
    remarks: tuple[str, ...] = ()
    """Features of the server that the forecast does not model."""
    judged: int = 0
    """Jobs whose past forecasts are used to calibrate the current ones; too few calibrate nothing."""
    range_factor: float = 1.0
    """Mean width of the 90% ranges, divided by their width before calibration."""
    queues: tuple[QueueStarts, ...] = ()
    """Expected waits by queue."""
    quality: tuple[StartQuality, ...] = ()
    """Accuracy of the forecasts of the last seven days, by queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """State and counters of the daemon; counters begin at its start.

    In JSON, the response to ``{"v":1,"op":"status"}``, the keys are the names of the fields.
    """

    version: str
    """Version of the daemon."""
    pid: int
    """Process id of the daemon."""
    started: int
    """Start time of the daemon, epoch seconds."""
    uptime: int
    """Seconds since its start, by the monotonic clock."""

    policy: Mapping[str, Any]
    """:class:`softwalltime.predict.policy.site.SitePolicy` as JSON."""
    settings: str
    """``ok``, or why the settings were refused at the last reload."""
    ready: bool
    """Whether the history is loaded and predictions are made."""
    learnt: int
    """Jobs that the predictors of this policy have learnt."""
    history: int = 0
    """Number of learnt jobs in the history that was loaded last."""
    loaded: int = 0
    """Time at which it was loaded, epoch seconds; 0: not yet."""
    rounds: int = 0
    """Times that the log was read, and new jobs and changes of the queue were learnt."""
    from_the_future: int
    """Jobs whose recorded end is in the future; they are learnt at that time."""

    store: str
    """``ok``, or why the store cannot be used."""
    retention: str = OK
    """``ok``, or why retention deletes nothing."""
    recorded: int
    """Predictions stored."""
    to_record: int
    """Predictions queued for the store."""
    dropped: int
    """Predictions that were never stored, because too many waited."""
    unstorable: int = 0
    """Predictions that PostgreSQL refused; softwalltime.malformed_lines has them."""
    refreshed: int
    """Time of the last refresh of the monitoring figures, epoch seconds; 0: none since the start."""
    week: tuple[Quality, ...]
    """Quality of each predictor in the week before the refresh."""
    waits: tuple[WaitOfSize, ...] = ()
    """Waits by job size in the week before the refresh and in the eight weeks before that."""

    accounting: str
    """``ok``, ``not followed``, or why the accounting log cannot be read."""
    logs_read: bool = True
    """Whether the logs have been read to their end since the start."""
    stored: int
    """Completed jobs stored from the log."""
    lines: int
    """Lines read from the log."""
    malformed: int
    """Lines of the log that could not be read."""
    behind_bytes: int
    """Bytes of the log that are not stored yet."""
    behind_seconds: float
    """Seconds for which there have been such bytes."""

    requests: Mapping[str, int]
    """Requests answered, by operation; failed, refused and unusable ones by these names."""
    unusable: str = ""
    """Value outside the limits in the last job refused for that reason; empty: none."""
    refused_users: int
    """Refused connections of users that may not connect."""
    decisions: tuple[DecisionCount, ...]
    """Decisions by event, mode and action."""
    timeouts: int
    """Requests of the hook that timed out, a lower bound."""
    answer_times: Histogram
    """Durations of the daemon's responses."""
    exchange_times: Histogram
    """Durations of the hook's exchanges."""

    live: LiveStatus = field(default_factory=LiveStatus)
    """Live values: alters of jobs that wait and run."""
    failures: tuple[PredictorFailure, ...] = ()
    """Errors of predictors since the history was loaded, by predictor and step."""
    starts: StartsStatus = StartsStatus()
    """Forecasts of the starts of waiting jobs."""

    @property
    def followed(self) -> bool:
        return self.accounting != NOT_FOLLOWED

    @property
    def working(self) -> bool:
        """Return whether it predicts, stores, and uses the settings of its file."""
        return self.ready and self.store == OK and self.settings == OK

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, response: Mapping[str, Any]) -> "Status":
        """Read a response; unknown keys are ignored.

        :raises StatusError: if a key is missing or has another form, as in another version.
        """
        try:
            return _reader().validate_python(response)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(map(str, first["loc"]))
            reason = f"lacks {key}" if first["type"] == "missing" else f"{key}: {first['msg']}"
            version = response.get("version", "unknown")
            advice = "restart the daemon, or ask with its own command"
            raise StatusError(f"the status of the daemon, version {version}, {reason}: {advice}") from error


@cache
def _reader() -> TypeAdapter[Status]:
    return TypeAdapter(Status)


class RequestMetrics:
    """Decisions by event, mode and action; response times, durations of the hook's exchanges, and its timeouts."""

    def __init__(self) -> None:
        self.decisions: Counter[tuple[str, str, str]] = Counter()
        self.answers, self.exchanges = (Histogram(BOUNDS, [0] * (len(BOUNDS) + 1), 0) for _ in range(2))
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
