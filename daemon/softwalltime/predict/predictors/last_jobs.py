"""The last jobs of one user, independent of the order in which they became known."""

from collections import deque
from typing import Generic, TypeVar

from softwalltime.core.jobs import CompletedJob

T = TypeVar("T", int, float)
S = TypeVar("S")


class LastJobs(Generic[T, S]):
    """One number for each of the last jobs, in order of end.

    Jobs that ended in the same second are in order of job id and server (:func:`_order`).  The daemon learns new
    jobs in the order in which they were stored, and at its start by their ends: the records of two servers, or of a log
    that comes late, must give the same answers both ways.
    """

    __slots__ = ("_keys", "summary", "values")

    def __init__(self, limit: int) -> None:
        self._keys: deque[tuple[int, str, str]] = deque(maxlen=limit)
        self.values: deque[T] = deque(maxlen=limit)
        self.summary: S | None = None
        """Cached result computed from the numbers; ``None``: not computed."""

    def add(self, job: CompletedJob, value: T) -> None:
        """Replace the oldest job's number by this one, unless the job is older than all."""
        end = job.end
        key = (end, job.submission.job_id, job.server)
        keys, values = self._keys, self.values
        self.summary = None
        if not keys or keys[-1][0] < end:
            keys.append(key)
            values.append(value)
            return
        place, order = len(keys), _order(*key)
        while place and _order(*keys[place - 1]) > order:
            place -= 1
        if len(keys) == keys.maxlen:
            if not place:
                return
            keys.popleft()
            values.popleft()
            place -= 1
        keys.insert(place, key)
        values.insert(place, value)


def _order(end: int, job_id: str, server: str) -> tuple[int, int, str, int, str, str]:
    """Return the sort key: the end, the number at the start of the id (9 before 10), then id and server, as in SQL."""
    number = job_id.partition(".")[0].partition("[")[0]
    return end, len(number), number, len(job_id), job_id, server
