"""The waiting and running jobs of one user, in order: an answer costs as little for 200,000 of them as for a few."""

from bisect import bisect_left, insort

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Row = tuple[float, ...]


class PresentJobs:
    """The waiting and running jobs of one user."""

    __slots__ = ("_first", "_last", "_running", "_started", "_submissions", "_submitted")

    def __init__(self) -> None:
        self._submitted: dict[str, tuple[float, float]] = {}
        self._running: dict[str, tuple[float, Row]] = {}
        # Ascending from _first to _last, with room on both sides: jobs come at one end and mostly leave at the other.
        self._submissions: Floats = np.empty((16, 2))
        self._first = self._last = 0
        self._started: list[tuple[float, Row]] = []

    def submit(self, job_id: str, submitted: float, key: float) -> None:
        """Note that a job is there since ``submitted``; ``key`` is the :data:`.user_jobs.KEY` of its row."""
        submission = (submitted, key)
        if self._submitted.get(job_id) != submission:
            self._withdraw(job_id)
            self._submitted[job_id] = submission
            self._insert(submission)

    def start(self, job_id: str, start: float, row: Row) -> None:
        self._stop(job_id)
        self._running[job_id] = (start, row)
        insort(self._started, (start, row))

    def started(self, job_id: str) -> float | None:
        """Return when a running job started; ``None`` for any other."""
        running = self._running.get(job_id)
        return None if running is None else running[0]

    def leave(self, job_id: str) -> None:
        """Note that a job ended or was deleted."""
        self._stop(job_id)
        self._withdraw(job_id)

    def submissions(self, most: int, without: str) -> Floats:
        """Return rows of submission and key, ascending: of the last ``most`` jobs, leaving out the job ``without``."""
        own = self._submitted.get(without)
        rows = self._submissions[max(self._first, self._last - most - (own is not None)) : self._last]
        if own is not None:
            # An equal one stands for it.  If it is older than all of these, the first one is one too many.
            rows = np.delete(rows, _place(rows, own), 0)
        return rows

    def running(self, most: int, now: float, without: str) -> tuple[list[Row], int]:
        """Return the last ``most`` jobs to start before ``now`` in order of start, and the number of all that did.

        :param without: id of a job to leave out.
        """
        count = bisect_left(self._started, (now,))
        own = self._running.get(without)
        if own is None or own[0] >= now:
            return [row for _, row in self._started[max(count - most, 0) : count]], count
        last = self._started[max(count - most - 1, 0) : count]
        del last[bisect_left(last, own)]
        return [row for _, row in last], count - 1

    def _insert(self, submission: tuple[float, float]) -> None:
        if self._last == len(self._submissions):
            self._make_room()
        rows, first, last = self._submissions, self._first, self._last
        place = first + _place(rows[first:last], submission)
        rows[place + 1 : last + 1] = rows[place:last].copy()
        rows[place] = submission
        self._last += 1

    def _withdraw(self, job_id: str) -> None:
        submission = self._submitted.pop(job_id, None)
        if submission is None:
            return
        rows, first, last = self._submissions, self._first, self._last
        place = first + _place(rows[first:last], submission)
        if place - first < last - place:
            rows[first + 1 : place + 1] = rows[first:place].copy()
            self._first += 1
        else:
            rows[place : last - 1] = rows[place + 1 : last].copy()
            self._last -= 1

    def _make_room(self) -> None:
        count = self._last - self._first
        rows = np.empty((max(2 * count, 16), 2))
        rows[:count] = self._submissions[self._first : self._last]
        self._submissions, self._first, self._last = rows, 0, count

    def _stop(self, job_id: str) -> None:
        running = self._running.pop(job_id, None)
        if running is not None:
            del self._started[bisect_left(self._started, running)]


def _place(rows: Floats, submission: tuple[float, float]) -> int:
    """Return where a submission is, or belongs, in ascending rows."""
    then, key = submission
    first, last = rows[:, 0].searchsorted(then), rows[:, 0].searchsorted(then, "right")
    return int(first + rows[first:last, 1].searchsorted(key))
