"""Like jobs of the last days, and the base of the predictors that use them."""

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Hashable
from operator import attrgetter, itemgetter
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field

from softwalltime.core.jobs import NoPrediction, Submission
from softwalltime.core.reasons import Reason
from softwalltime.predict.predictors.base import History, Options, Predictor
from softwalltime.predict.predictors.keys import KEYS, wrong_keys

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}

T = TypeVar("T")


def _split_keys(value: object) -> object:
    return tuple(value.split("+")) if isinstance(value, str) else value


def _check_keys(keys: tuple[str, ...]) -> tuple[str, ...]:
    if not keys or len(set(keys)) != len(keys) or not set(keys) <= set(KEYS):
        raise ValueError(wrong_keys(keys))
    return keys


def _read_window(value: object) -> object:
    if not isinstance(value, str) or value.isdecimal():
        return value
    if value[-1:] in UNITS and value[:-1].isdecimal():
        return int(value[:-1]) * UNITS[value[-1]]
    raise ValueError("write 30d, 12h, 90m or plain seconds")


Keys = Annotated[
    tuple[str, ...],
    BeforeValidator(_split_keys),
    AfterValidator(_check_keys),
    Field(description=f"what like jobs have in common, joined by +, out of {', '.join(KEYS)}"),
]
"""An option: keys joined by ``+``."""
Least = Annotated[int, Field(ge=1, description="fewer like jobs than this give no prediction")]
"""An option: a number of jobs."""
Window = Annotated[
    int,
    BeforeValidator(_read_window),
    Field(gt=0, description="how far back like jobs count: 30d, 12h, 90m or plain seconds"),
]
"""An option: a number of seconds, or ``30d``."""


class LikeJobs:
    """Values of the jobs with one key that ended within a window, in order of end and in ascending order."""

    __slots__ = ("by_end", "key", "sorted")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.by_end: deque[tuple[int, float]] = deque()
        self.sorted: list[float] = []

    def since(self, oldest: int) -> list[float]:
        """Return the values of the jobs that ended at ``oldest`` or later, in ascending order."""
        # Remove old values from a copy only: the next prediction may be for an earlier time.
        values = self.sorted.copy()
        for end, value in self.by_end:
            if end >= oldest:
                break
            del values[bisect_left(values, value)]
        return values


class RecentJobs:
    """Like jobs by key within a sliding window.  Memory is bounded by the jobs in the window."""

    __slots__ = ("by_end", "like", "window")

    def __init__(self, window: int) -> None:
        """Keep the jobs of the last ``window`` seconds before the newest end."""
        self.window = window
        self.like: dict[Hashable, LikeJobs] = {}
        # All jobs in the window in order of end, to find the old ones at once.
        self.by_end: deque[tuple[int, LikeJobs]] = deque()

    def add(self, key: Hashable, end: int, value: float) -> None:
        like = self.like.get(key) or self.like.setdefault(key, LikeJobs(key))
        insort(like.sorted, value)
        of_key, by_end = like.by_end, self.by_end
        # Nearly always an append; avoiding two calls makes learning a fifth faster.
        if not by_end or by_end[-1][0] <= end:
            of_key.append((end, value))
            by_end.append((end, like))
        else:
            _insert(of_key, (end, value))
            _insert(by_end, (end, like))
        oldest = end - self.window
        if by_end[0][0] < oldest:
            self.remove_before(oldest)

    def remove_before(self, oldest: int) -> None:
        by_end = self.by_end
        while by_end and by_end[0][0] < oldest:
            _, like = by_end.popleft()
            _, value = like.by_end.popleft()
            del like.sorted[bisect_left(like.sorted, value)]
            if not like.sorted:
                del self.like[like.key]

    def values(self, key: Hashable, now: int) -> list[float]:
        """Return the values of the jobs with this key in the window before ``now``, ascending; read-only."""
        like = self.like.get(key)
        if like is None:
            return []
        oldest = now - self.window
        return like.sorted if like.by_end[0][0] >= oldest else like.since(oldest)


class LikeJobsPredictor(Predictor):
    """Base of the predictors from values of the like jobs of the last days."""

    def __init__(self, options: Options, keys: Keys, window: Window, least: Least) -> None:
        super().__init__(options)
        self._least = least
        self._days = window / 86400
        self._alike = " and ".join(keys)
        self._key: Callable[[Submission], Hashable] = attrgetter(*keys)
        self._recent = RecentJobs(window)

    @property
    def history(self) -> History:
        return History(seconds=self._recent.window)

    def _too_few(self, count: int) -> NoPrediction:
        """Return no prediction, with the reason, for fewer like jobs than the option ``least``."""
        return NoPrediction(Reason.TOO_FEW_JOBS, (count, self._alike, self._days, self._least))


def _insert(by_end: deque[tuple[int, T]], entry: tuple[int, T]) -> None:
    """Insert an entry in order of end: its job was reported late, for example by a second server's log."""
    by_end.insert(bisect_right(by_end, entry[0], key=itemgetter(0)), entry)
