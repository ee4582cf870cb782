"""A percentile of the share of the walltime that like jobs used of late."""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Hashable
from operator import attrgetter
from typing import ClassVar, TypeVar

from pydantic import Field, field_validator

from softwalltime.jobs import ColdStart, CompletedJob, Prediction, Submission
from softwalltime.predictors.base import History, Options, Predictor
from softwalltime.reasons import Reason

KEYS = ("user", "group", "project", "account", "queue", "job_name", "walltime", "ncpus", "nodect", "ngpus")
"""What jobs may be told apart by."""

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


class PercentileOptions(Options):
    """Options of ``percentile``."""

    p: float = Field(default=85.0, ge=0, le=100, description="the percentile, 0 to 100, interpolated linearly")
    keys: tuple[str, ...] = Field(
        default=("user", "project", "walltime"),
        description=f"what like jobs have in common, joined by +, out of {', '.join(KEYS)}",
    )
    window: int = Field(
        default=30 * 86400, gt=0, description="how far back like jobs count: 30d, 12h, 90m or plain seconds"
    )
    least: int = Field(default=10, ge=1, description="fewer like jobs than this give no prediction")
    threshold: float | None = Field(
        default=None, ge=0, le=1, description="least share of the walltime ever predicted, such as 0.5"
    )

    @field_validator("keys", mode="before")
    @classmethod
    def _split_keys(cls, value: object) -> object:
        return tuple(value.split("+")) if isinstance(value, str) else value

    @field_validator("keys")
    @classmethod
    def _check_keys(cls, keys: tuple[str, ...]) -> tuple[str, ...]:
        if not keys or len(set(keys)) != len(keys) or not set(keys) <= set(KEYS):
            raise ValueError(f"keys are one or more of {', '.join(KEYS)}, joined by +, each once")
        return keys

    @field_validator("window", mode="before")
    @classmethod
    def _read_window(cls, value: object) -> object:
        if not isinstance(value, str) or value.isdecimal():
            return value
        if value[-1:] in UNITS and value[:-1].isdecimal():
            return int(value[:-1]) * UNITS[value[-1]]
        raise ValueError("write 30d, 12h, 90m or plain seconds")


class _LikeJobs:
    """The jobs with one key that ended within the window: their shares in order of end, and in ascending order."""

    __slots__ = ("by_end", "key", "sorted")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.by_end: deque[tuple[int, float]] = deque()
        self.sorted: list[float] = []

    def forget_first(self) -> None:
        """Drop the job that ended first."""
        _, share = self.by_end.popleft()
        del self.sorted[bisect_left(self.sorted, share)]

    def since(self, oldest: int) -> list[float]:
        """The shares, in ascending order, of the jobs that ended at ``oldest`` or later."""
        if not self.by_end or self.by_end[0][0] >= oldest:
            return self.sorted
        # Only those are taken out of a copy that are too old; to forget them is left to what is learnt, because the
        # next question may be about an earlier moment.
        shares = self.sorted.copy()
        for end, share in self.by_end:
            if end >= oldest:
                break
            del shares[bisect_left(shares, share)]
        return shares


class Percentile(Predictor):
    """The P-th percentile of R = runtime / walltime over like jobs of the last days, times this job's walltime.

    Like jobs share the keys' values; a job counts while its end is at most ``window`` seconds old.  Memory is bounded
    by the jobs that ended within the window.
    """

    name: ClassVar[str] = "percentile"
    summary: ClassVar[str] = "percentile P of R over jobs with the same keys in the last W days x walltime"
    source: ClassVar[str] = "Tang, Desai, Buettner & Lan 2013"
    options_type: ClassVar[type[Options]] = PercentileOptions

    def __init__(self, options: PercentileOptions) -> None:
        super().__init__(options)
        self._p = options.p / 100
        self._window = options.window
        self._least = options.least
        self._threshold = options.threshold
        self._alike = " and ".join(options.keys)
        self._key: Callable[[Submission], Hashable] = attrgetter(*options.keys)
        self._like: dict[Hashable, _LikeJobs] = {}
        # Every job in the window in order of end, so that what the window has left behind is found at once.
        self._by_end: deque[tuple[int, _LikeJobs]] = deque()

    @property
    def history(self) -> History:
        """All jobs of the window."""
        return History(seconds=self._window)

    def learn(self, job: CompletedJob) -> None:
        """Add the share of its walltime that the job used, if it ran and had one; forget what is too old by now."""
        submission = job.submission
        if job.runtime <= 0 or not submission.walltime:
            return
        share = job.runtime / submission.walltime
        key = self._key(submission)
        like = self._like.get(key)
        if like is None:
            like = self._like[key] = _LikeJobs(key)
        insort(like.sorted, share)
        _insert(like.by_end, (job.end, share))
        _insert(self._by_end, (job.end, like))
        oldest = job.end - self._window
        by_end = self._by_end
        while by_end[0][0] < oldest:
            _, like = by_end.popleft()
            like.forget_first()
            if not like.sorted:
                del self._like[like.key]

    def predict(self, submission: Submission, now: int, elapsed: int = 0) -> Prediction | ColdStart:
        """The percentile of like jobs' shares, times this job's walltime."""
        walltime = submission.walltime
        if not walltime:
            return ColdStart(Reason.NO_WALLTIME)
        like = self._like.get(self._key(submission))
        shares = like.since(now - self._window) if like is not None else []
        count = len(shares)
        if count < self._least:
            return ColdStart(Reason.TOO_FEW_JOBS, (count, self._alike, self._window / 86400, self._least))
        # The order of operations is that of PostgreSQL's percentile_cont, so that both give the same bits.
        rank = self._p * (count - 1)
        below = int(rank)
        share = shares[below]
        if rank != below:
            share += (rank - below) * (shares[below + 1] - share)
        if self._threshold is not None and share < self._threshold:
            share = self._threshold
        return Prediction(
            share * walltime,
            "{:g}th percentile of the walltime used by the {} jobs with the same {} of the last {:g} days is {:.0%}",
            (self._p * 100, count, self._alike, self._window / 86400, share),
        )


T = TypeVar("T")


def _insert(by_end: deque[tuple[int, T]], entry: tuple[int, T]) -> None:
    """Add an entry in order of end, after its equals: nearly always the last place."""
    if not by_end or by_end[-1][0] <= entry[0]:
        by_end.append(entry)
        return
    # Late news, as when the logs of two servers are followed.
    place = len(by_end)
    while place and by_end[place - 1][0] > entry[0]:
        place -= 1
    by_end.insert(place, entry)
