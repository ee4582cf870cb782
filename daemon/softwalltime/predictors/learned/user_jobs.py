"""The last jobs of one user in columns, in order of end, and those that wait or run."""

import math
from collections.abc import Sequence
from functools import lru_cache
from zlib import crc32

import numpy as np

from softwalltime.jobs import Submission
from softwalltime.predictors.learned.present_jobs import Floats, PresentJobs

Row = Sequence[float]

END, START, SUBMITTED, WALLTIME, NCPUS, QUEUE, NAME, RUNTIME, KILLED, SHARE, GROUP, KEY, SCRIPT = range(13)
"""Places in a row: times in epoch seconds; logarithms of walltime and processors; hashes of queue and job name;
logarithm of the runtime, at most the walltime; 1 if killed at the walltime; bin of runtime / walltime; hash of the
group; a number that is equal for the same walltime, processors and queue; hash of the script, 0 if unknown."""
ROW = 13
OTHER_NAME = -1.0
"""Stands for the name and the queue of a job with another script; no hash is negative."""
MIN_USER_JOBS = 256
"""Jobs kept in any case."""
MAX_USER_JOBS = 16_384
"""Jobs kept at most."""
USER_WINDOW_S = 14 * 86400
"""Seconds before the user's last end of which all jobs are kept, up to ``MAX_USER_JOBS``."""


class UserJobs:
    """One user's completed jobs in order of end and job id, and the present ones."""

    __slots__ = ("_columns", "_count", "forgotten", "ids", "present")

    def __init__(self) -> None:
        self._columns: Floats = np.empty((ROW, 16))
        self._count = 0
        self.forgotten = -1
        """When the last of the jobs ended that are not kept any more; -1: all are kept."""
        self.ids: list[str] = []
        """Job ids in order of end; a list that was handed out changes only at its end."""
        self.present = PresentJobs()
        """Those that wait or run."""

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
    """Return a job as a row."""
    walltime, ncpus = math.log(submission.walltime or 1), math.log(submission.ncpus or 1)
    queue = _hash(submission.queue)
    return (
        end, start, submission.submitted, walltime, ncpus, queue, _hash(submission.job_name), log, killed, share,
        _hash(submission.group), walltime + 31.0 * ncpus + queue / 1009.0, _hash(submission.script),
    )  # fmt: skip


def runs_known_script(row: Row, ended: Floats) -> bool:
    """Whether one of the user's last jobs has the same script."""
    return bool(row[SCRIPT]) and row[SCRIPT] in ended[SCRIPT, -MIN_USER_JOBS:]


def named_by_script(row: Row) -> tuple[float, ...]:
    """Return a job with its script in the place of its name."""
    return (*row[:NAME], row[SCRIPT], *row[NAME + 1 :])


def like_script(row: Row, jobs: Floats) -> Floats:
    """Return past jobs so that those with this job's script are the ones with its name and queue.

    A job without a known script is one with the same script if it has the same name.
    """
    unknown = (jobs[SCRIPT] == 0) & (jobs[NAME] == row[NAME]) & (row[NAME] != 0)
    same = (jobs[SCRIPT] == row[SCRIPT]) | unknown
    changed = jobs.copy()
    changed[NAME] = np.where(same, row[SCRIPT], OTHER_NAME)
    changed[QUEUE] = np.where(same | (jobs[SCRIPT] == 0), jobs[QUEUE], OTHER_NAME)
    return changed


def waited(row: Row, least: float) -> bool:
    """Whether a job waited for more than ``least`` seconds."""
    # A clock that was set may let a start come after the end.
    return row[SUBMITTED] + least < row[START] < row[END]


@lru_cache(4096)
def _hash(text: str) -> float:
    return crc32(text.encode("utf-8", "replace"))
