"""The last jobs of one user, whichever way they became known."""

import re
from bisect import bisect_left
from collections import deque
from typing import Generic, TypeVar

from softwalltime.jobs import CompletedJob

T = TypeVar("T", int, float)

_NUMBER = re.compile("[0-9]*")


class LastJobs(Generic[T]):
    """One number of each of the last jobs to have ended, in order of end.

    Jobs that ended in the same second are in order of job id and server (:func:`_tie_break`).  The daemon learns new
    jobs in the order in which they were stored, and at its start by their ends: the records of two servers, or of a log
    that comes late, must give the same answers both ways.
    """

    __slots__ = ("_keys", "values")

    def __init__(self, limit: int) -> None:
        """Begin without jobs; ``limit`` is how many are kept."""
        self._keys: deque[tuple[int, str, str]] = deque(maxlen=limit)
        self.values: deque[T] = deque(maxlen=limit)

    def add(self, job: CompletedJob, value: T) -> None:
        """Add a job's number in place of the oldest job's; one that is older than all is not added."""
        key = (job.end, job.submission.job_id, job.server)
        keys, values = self._keys, self.values
        if not keys or keys[-1][0] < key[0]:
            keys.append(key)
            values.append(value)
            return
        place = bisect_left([_tie_break(each) for each in keys], _tie_break(key))
        if len(keys) == keys.maxlen:
            if not place:
                return
            keys.popleft()
            values.popleft()
            place -= 1
        keys.insert(place, key)
        values.insert(place, value)


def _tie_break(key: tuple[int, str, str]) -> tuple[int, int, str, int, str, str]:
    """Order by end, the number that the id begins with (9 before 10), id and server, as the SQL functions do."""
    end, job_id, server = key
    number = _NUMBER.match(job_id)
    digits = number[0] if number else ""
    return end, len(digits), digits, len(job_id), job_id, server
