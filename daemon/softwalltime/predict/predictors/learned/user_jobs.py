"""One user's last jobs as columns, in order of end, and his waiting and running jobs."""

import math
from array import array
from bisect import bisect_left, insort
from collections.abc import Sequence
from functools import lru_cache
from zlib import crc32

import numpy as np

from softwalltime.core.jobs import Submission
from softwalltime.predict.predictors.learned.distribution import Floats

Row = Sequence[float]

END, START, SUBMITTED, WALLTIME, NCPUS, QUEUE, NAME, RUNTIME, KILLED, SHARE, GROUP, KEY, SCRIPT = range(13)
"""Places in a row: times in epoch seconds; logarithms of walltime and processors; hashes of queue and job name;
logarithm of the runtime, at most the walltime; 1 if killed at the walltime; bin of runtime / walltime; hash of the
group; a number that is equal for the same walltime, processors and queue; hash of the script, 0 if unknown."""
ROW = 13
OTHER_NAME = -1.0
"""Name and queue of a job with another script; hashes are not negative."""
MIN_USER_JOBS = 256
"""Minimum number of jobs kept."""
MAX_USER_JOBS = 16_384
"""Maximum number of jobs kept."""
USER_WINDOW_S = 14 * 86400
"""Seconds before the user's last end in which all jobs are kept, up to ``MAX_USER_JOBS``."""


class PresentJobs:
    __slots__ = ("_running", "_started", "_submissions", "_submitted")

    def __init__(self) -> None:
        self._submitted: dict[str, tuple[float, float]] = {}
        self._running: dict[str, tuple[float, Row]] = {}
        # Time and key of each submission in turn, ascending.
        self._submissions = array("d")
        self._started: list[tuple[float, Row]] = []

    def submit(self, job_id: str, submitted: float, key: float) -> None:
        """Add a job submitted at ``submitted``; ``key`` is the :data:`.user_jobs.KEY` of its row."""
        submission = (submitted, key)
        if self._submitted.get(job_id) != submission:
            self._withdraw(job_id)
            self._submitted[job_id] = submission
            place = self._place(submission)
            self._submissions[place:place] = array("d", submission)

    def start(self, job_id: str, start: float, row: Row) -> None:
        self._stop(job_id)
        self._running[job_id] = (start, row)
        insort(self._started, (start, row))

    def started(self, job_id: str) -> float | None:
        running = self._running.get(job_id)
        return None if running is None else running[0]

    def leave(self, job_id: str) -> None:
        self._stop(job_id)
        self._withdraw(job_id)

    def submissions(self, most: int, without: str) -> Floats:
        """Return rows of submission and key, ascending: of the last ``most`` jobs, leaving out the job ``without``."""
        own = self._submitted.get(without)
        # The row of the job itself, or an equal one; the first one if the job is older than all of these.
        first = max(len(self._submissions) - 2 * (most + (own is not None)), 0)
        rows = self._submissions[first:]
        if own is not None:
            place = max(self._place(own) - first, 0)
            del rows[place : place + 2]
        return np.array(rows).reshape(-1, 2)

    def running(self, most: int, now: float, without: str) -> tuple[list[Row], int]:
        """Return the last ``most`` jobs started before ``now`` but ``without``, in order of start, and how many did."""
        count = bisect_left(self._started, (now,))
        own = self._running.get(without)
        if own is None or own[0] >= now:
            return [row for _, row in self._started[max(count - most, 0) : count]], count
        last = self._started[max(count - most - 1, 0) : count]
        del last[bisect_left(last, own)]
        return [row for _, row in last], count - 1

    def _withdraw(self, job_id: str) -> None:
        if (submission := self._submitted.pop(job_id, None)) is not None:
            place = self._place(submission)
            del self._submissions[place : place + 2]

    def _place(self, submission: tuple[float, float]) -> int:
        """Return the index of a submission, or its insertion point."""
        flat = self._submissions
        return 2 * bisect_left(range(len(flat) // 2), submission, key=lambda row: (flat[2 * row], flat[2 * row + 1]))

    def _stop(self, job_id: str) -> None:
        running = self._running.pop(job_id, None)
        if running is not None:
            del self._started[bisect_left(self._started, running)]


class UserJobs:
    """One user's completed jobs in order of end and job id, and the present ones."""

    __slots__ = ("_columns", "_count", "forgotten", "ids", "present")

    def __init__(self) -> None:
        self._columns: Floats = np.empty((ROW, 16))
        self._count = 0
        self.forgotten = -1
        """Last end of the jobs that were removed; -1: none was removed."""
        self.ids: list[str] = []
        """Job ids in order of end; a list that was returned is only appended to."""
        self.present = PresentJobs()
        """The waiting and running jobs."""

    @property
    def columns(self) -> Floats:
        """The completed jobs, one column each; valid until the next one is added."""
        return self._columns[:, : self._count]

    def add(self, row: Row, job_id: str) -> None:
        """Add a completed job; forget the oldest ones if there are too many."""
        if self._count == self._columns.shape[1]:
            self._make_room()
        count, columns = self._count, self._columns
        self._count += 1
        if not count or columns[END, count - 1] < row[END]:
            columns[:, count] = row
            self.ids.append(job_id)
        else:
            self._insert(row, job_id, count)

    def _insert(self, row: Row, job_id: str, count: int) -> None:
        columns, end = self._columns, row[END]
        place = int(columns[END, :count].searchsorted(end, "right"))
        key = (job_id, tuple(row))
        while place and columns[END, place - 1] == end and (self.ids[place - 1], tuple(columns[:, place - 1])) > key:
            place -= 1
        if place == count:
            columns[:, count] = row
            self.ids.append(job_id)
            return
        columns[:, place + 1 : count + 1] = columns[:, place:count].copy()
        columns[:, place] = row
        self.ids = [*self.ids[:place], job_id, *self.ids[place:]]

    def _make_room(self) -> None:
        count = self._count
        old = int(self._columns[END].searchsorted(self._columns[END, -1] - USER_WINDOW_S))
        first = max(0, min(old, count - MIN_USER_JOBS), MAX_USER_JOBS // 4 if count >= MAX_USER_JOBS else 0)
        if first < count // 4:
            first = 0
        if first:
            self.forgotten = int(self._columns[END, first - 1])
        columns = np.empty((ROW, count if first else 2 * count))
        columns[:, : count - first] = self._columns[:, first:]
        self._columns, self._count, self.ids = columns, count - first, self.ids[first:]


def row_of(
    submission: Submission, end: int = 0, start: int = 0, log: float = 0.0, killed: bool = False, share: int = 0
) -> tuple[float, ...]:
    walltime, ncpus = math.log(submission.walltime or 1), math.log(submission.ncpus or 1)
    queue = _hash(submission.queue)
    return (
        end, start, submission.submitted, walltime, ncpus, queue, _hash(submission.job_name), log, killed, share,
        _hash(submission.group), walltime + 31.0 * ncpus + queue / 1009.0, _hash(submission.script),
    )  # fmt: skip


def by_script(row: tuple[float, ...], ended: Floats, running: Floats) -> tuple[tuple[float, ...], Floats, Floats]:
    """Return a job and its user's jobs with scripts instead of names, if an ended job had the job's script."""
    if not row[SCRIPT] or row[SCRIPT] not in ended[SCRIPT, -MIN_USER_JOBS:]:
        return row, ended, running
    return (*row[:NAME], row[SCRIPT], *row[NAME + 1 :]), _like_script(row, ended), _like_script(row, running)


def _like_script(row: Row, jobs: Floats) -> Floats:
    """Return past jobs with names and queues changed such that equal ones mean the same script.

    A job without a known script is one with the same script if it has the same name.
    """
    unknown = (jobs[SCRIPT] == 0) & (jobs[NAME] == row[NAME]) & (row[NAME] != 0)
    same = (jobs[SCRIPT] == row[SCRIPT]) | unknown
    changed = jobs.copy()
    changed[NAME] = np.where(same, row[SCRIPT], OTHER_NAME)
    changed[QUEUE] = np.where(same | (jobs[SCRIPT] == 0), jobs[QUEUE], OTHER_NAME)
    return changed


def waited(row: Row, least: float) -> bool:
    """Return whether a job waited for more than ``least`` seconds."""
    # The start may be after the end if the clock was set.
    return row[SUBMITTED] + least < row[START] < row[END]


@lru_cache(4096)
def _hash(text: str) -> float:
    return crc32(text.encode("utf-8", "replace"))
