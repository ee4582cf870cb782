"""Jobs that are alike, of the last days: what predictors from like jobs share."""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Hashable
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field

KEYS = ("user", "group", "project", "account", "queue", "job_name", "walltime", "ncpus", "nodect", "ngpus")
"""What jobs may be told apart by."""
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}

T = TypeVar("T")


def _split_keys(value: object) -> object:
    return tuple(value.split("+")) if isinstance(value, str) else value


def _check_keys(keys: tuple[str, ...]) -> tuple[str, ...]:
    if not keys or len(set(keys)) != len(keys) or not set(keys) <= set(KEYS):
        raise ValueError(f"keys are one or more of {', '.join(KEYS)}, joined by +, each once")
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
Window = Annotated[
    int,
    BeforeValidator(_read_window),
    Field(gt=0, description="how far back like jobs count: 30d, 12h, 90m or plain seconds"),
]
"""An option: a number of seconds, or ``30d``."""


class LikeJobs:
    """The jobs with one key that ended within a window: a value of each in order of end, and in ascending order."""

    __slots__ = ("by_end", "key", "sorted")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.by_end: deque[tuple[int, float]] = deque()
        self.sorted: list[float] = []

    def forget_first(self) -> None:
        """Drop the job that ended first."""
        _, value = self.by_end.popleft()
        del self.sorted[bisect_left(self.sorted, value)]

    def since(self, oldest: int) -> list[float]:
        """The values, in ascending order, of the jobs that ended at ``oldest`` or later."""
        if not self.by_end or self.by_end[0][0] >= oldest:
            return self.sorted
        # Only those are taken out of a copy that are too old; to forget them is left to what is learnt, because the
        # next question may be about an earlier moment.
        values = self.sorted.copy()
        for end, value in self.by_end:
            if end >= oldest:
                break
            del values[bisect_left(values, value)]
        return values


class RecentJobs:
    """Like jobs by key, forgotten as the window leaves them behind.  Memory is bounded by the jobs in the window."""

    __slots__ = ("by_end", "like", "window")

    def __init__(self, window: int) -> None:
        """Keep the jobs of the last ``window`` seconds before the newest end."""
        self.window = window
        self.like: dict[Hashable, LikeJobs] = {}
        # Every job in the window in order of end, so that what the window has left behind is found at once.
        self.by_end: deque[tuple[int, LikeJobs]] = deque()

    def add(self, key: Hashable, end: int, value: float) -> None:
        """Take in a job that ended; forget what is too old by then."""
        like = self.like.get(key)
        if like is None:
            like = self.like[key] = LikeJobs(key)
        insort(like.sorted, value)
        _insert(like.by_end, (end, value))
        _insert(self.by_end, (end, like))
        self.forget(end - self.window)

    def forget(self, oldest: int) -> None:
        """Forget the jobs that ended before ``oldest``."""
        by_end = self.by_end
        while by_end and by_end[0][0] < oldest:
            _, like = by_end.popleft()
            like.forget_first()
            if not like.sorted:
                del self.like[like.key]

    def values(self, key: Hashable, now: int) -> list[float]:
        """The values, ascending, of the jobs with this key that ended in the window before ``now``; to read only."""
        like = self.like.get(key)
        return like.since(now - self.window) if like is not None else []


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
