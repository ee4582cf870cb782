"""The last jobs of one user, whichever way they became known."""

from collections import deque
from typing import Generic, TypeVar

from softwalltime.jobs import CompletedJob

T = TypeVar("T", int, float)


class LastJobs(Generic[T]):
    """One number of each of the last jobs to have ended, in order of end.

    Jobs that ended in the same second are in order of job id and server (:func:`_tie_break`).  The daemon learns new
    jobs in the order in which they were stored, and at its start by their ends: the records of two servers, or of a log
    that comes late, must give the same answers both ways.
    """

    __slots__ = ("_keys", "greatest", "values")

    def __init__(self, limit: int) -> None:
        """Begin without jobs; ``limit`` is how many are kept."""
        self._keys: deque[tuple[int, str, str]] = deque(maxlen=limit)
        self.values: deque[T] = deque(maxlen=limit)
        self.greatest: T | None = None
        """The greatest of them; ``None``: to be found again."""

    def add(self, job: CompletedJob, value: T) -> None:
        """Add a job's number in place of the oldest job's; one that is older than all is not added."""
        end = job.end
        key = (end, job.submission.job_id, job.server)
        keys, values = self._keys, self.values
        self.greatest = None
        if not keys or keys[-1][0] < end:
            keys.append(key)
            values.append(value)
            return
        place = len(keys)
        while place and (keys[place - 1][0] > end or (keys[place - 1][0] == end and _later(keys[place - 1], key))):
            place -= 1
        if len(keys) == keys.maxlen:
            if not place:
                return
            keys.popleft()
            values.popleft()
            place -= 1
        keys.insert(place, key)
        values.insert(place, value)


def _later(one: tuple[int, str, str], other: tuple[int, str, str]) -> bool:
    """Whether one of two jobs that ended in the same second counts as the later one."""
    return _tie_break(*one[1:]) > _tie_break(*other[1:])


def _tie_break(job_id: str, server: str) -> tuple[int, str, int, str, str]:
    """Order by the number that the id begins with (9 before 10), then by id and server, as the SQL functions do."""
    number = job_id.partition(".")[0].partition("[")[0]
    return len(number), number, len(job_id), job_id, server
