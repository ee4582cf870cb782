"""Statistical baselines: median wait of recently started like jobs, or of the user's last jobs, without simulation."""

import math
from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Mapping

import numpy as np

from softwalltime.core.jobs import Submission
from softwalltime.measure.forecast.calibration import LATER
from softwalltime.measure.simulation.simulated_jobs import Floats

MAX_CLASS_WAITS, MAX_USER_CLASS_WAITS = 100, 30
"""Maximum waits kept of each class of jobs, and of each class of a user's jobs."""
LAST_WAITS = 5
"""Number of a user's last started jobs whose waits are kept."""
MIN_CLASS_WAITS = 5
"""Minimum number of waits for a class to be used."""


class LikeWaits:
    """Waits of started jobs by queue, size and walltime; sizes and walltimes are alike within a factor of 2 and 4."""

    def __init__(self) -> None:
        self._waits: defaultdict[Hashable, deque[int]] = defaultdict(lambda: deque(maxlen=MAX_CLASS_WAITS))
        self._own: defaultdict[Hashable, deque[int]] = defaultdict(lambda: deque(maxlen=MAX_USER_CLASS_WAITS))

    def started(self, submission: Submission, wait: int) -> None:
        keys, own_keys = _keys(submission)
        for key in keys:
            self._waits[key].append(wait)
        for key in own_keys:
            self._own[key].append(wait)

    def remaining(self, submission: Submission, waited: int) -> Floats:
        """Return the remaining waits after ``waited`` of like jobs that waited longer, in seconds; may be empty."""
        return _beyond(self._waits, _keys(submission)[0], waited)

    def expected(self, submission: Submission, waited: int) -> float | None:
        """The remaining wait of a job in seconds; ``None`` if no like job is known.

        The median of like jobs' waits; at the submission the mean of it and of the median of the user's own like jobs,
        because fair share and limits let some users wait longer than others.  Of jobs that have waited long, too few
        own ones are known.
        """
        beyond = self.remaining(submission, waited)
        if not len(beyond):
            return None
        all_users = float(np.median(beyond))
        own = _beyond(self._own, _keys(submission)[1], waited) if waited < LATER else beyond[:0]
        return (all_users + float(np.median(own))) / 2 if len(own) else all_users


class LastWaits:
    """The waits of each user's last :data:`LAST_WAITS` started jobs."""

    def __init__(self) -> None:
        self._waits: defaultdict[str, deque[int]] = defaultdict(lambda: deque(maxlen=LAST_WAITS))

    def started(self, submission: Submission, wait: int) -> None:
        self._waits[submission.user].append(wait)

    def expected(self, submission: Submission, waited: int) -> float | None:
        """The remaining wait of a job in seconds by their median; ``None`` without one, or if it has waited long."""
        waits = self._waits.get(submission.user)
        return max(float(np.median(waits)) - waited, 0.0) if waits and waited < LATER else None


def _beyond(waits: Mapping[Hashable, Iterable[int]], keys: Iterable[Hashable], waited: int) -> Floats:
    """Return the remaining waits of the first of these classes with enough data."""
    for key in keys:
        remaining = np.array([wait - waited for wait in waits.get(key, ()) if wait > waited], np.float64)
        if len(remaining) >= MIN_CLASS_WAITS:
            return remaining
    return np.zeros(0)


def _keys(submission: Submission) -> tuple[list[Hashable], list[Hashable]]:
    """Return the classes of a job among all jobs, and among its user's, the narrowest first."""
    size = int(math.log2(max(submission.ncpus or 1, 1)))
    limit = int(math.log2(max(submission.walltime or 1, 1)) / 2)
    own: list[Hashable] = [(submission.user, submission.queue, size, limit), (submission.user, size)]
    return [(submission.queue, size, limit), (size, limit), size, None], own
