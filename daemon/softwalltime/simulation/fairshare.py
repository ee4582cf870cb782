"""Fair share as PBS does it: users with the least decayed usage first."""

import numpy as np

from softwalltime.simulation.jobs import Floats, Integers, Jobs
from softwalltime.simulation.order import Order
from softwalltime.simulation.policies import SchedulerPolicy
from softwalltime.simulation.values import Values

DECAY_TIME = 86400
DECAY_FACTOR = 0.5
"""PBS's defaults of fairshare_decay_time and fairshare_decay_factor."""
_MIN_USAGE = 1.0


class FairShare(Order):
    """Least usage first, with equal shares for all users.

    Usage is processors x seconds run (``fairshare_usage_res: ncpus*walltime``).  Every 24 h since the first submission
    it is halved, but not below 1.  A running job counts with all that it requested, from its start on (OpenPBS,
    fairshare.cpp: ``decay_fairshare_tree``, ``update_usage_on_run``).  EASY ranks its candidates once in a pass.
    """

    changes_on_start = True

    def __init__(self, jobs: Jobs, values: Values, policy: SchedulerPolicy) -> None:
        users: dict[str, int] = {}
        self._user = np.array([users.setdefault(user, len(users)) for user in jobs.completed.values("user")], np.int64)
        self._processors = np.array(jobs.processors, np.float64)
        self._requested = self._processors * values.limit_array
        self._usage = np.full(len(users), _MIN_USAGE)
        self._running = np.zeros(len(users))
        self._rate = np.zeros(len(users))
        self._now = jobs.submitted[0] if len(jobs) else 0
        self._decay = self._now + DECAY_TIME

    def priorities(self, waiting: Integers, now: int) -> Floats:
        self._advance(now)
        user = self._user[waiting]
        priorities: Floats = -(self._usage[user] + self._running[user])
        return priorities

    def started(self, job: int, now: int) -> None:
        """Count the job's request until it ends."""
        self._advance(now)
        user = self._user[job]
        self._rate[user] += self._processors[job]
        self._running[user] += self._requested[job]

    def ended(self, job: int, now: int) -> None:
        """Replace the job's request by its usage, which :meth:`_advance` has counted."""
        self._advance(now)
        user = self._user[job]
        self._rate[user] -= self._processors[job]
        self._running[user] -= self._requested[job]

    def _advance(self, now: int) -> None:
        while self._decay <= now:
            self._usage += self._rate * (self._decay - self._now)
            self._usage = np.maximum(self._usage * DECAY_FACTOR, _MIN_USAGE)
            self._now = self._decay
            self._decay += DECAY_TIME
        if now > self._now:
            self._usage += self._rate * (now - self._now)
            self._now = now
