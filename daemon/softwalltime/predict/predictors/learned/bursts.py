"""Limit the weight of one user's jobs in learning, so that a burst counts as a few jobs."""

MEMORY_JOBS = 1000.0
"""Jobs of all users after which a job has lost 63% of its weight."""
MAX_USER_JOBS = 25.0
"""Maximum weight of one user's jobs among the last ``MEMORY_JOBS``, in jobs."""
AVERAGING_DAYS = 10
"""Averaging period, in days with jobs, of the usual concentration of jobs on few users."""
MAX_USERS = 4096
"""Number of users beyond which those without weight are forgotten."""
MIN_USER_JOBS = 0.01
"""Weight, in jobs, below which a user is then forgotten."""
_MAX_WEIGHT = 1e100
"""Weight of a new job from which on all weights are scaled."""


class RecentShare:
    __slots__ = ("_day", "_days", "_jobs", "_of_day", "_sum", "_usual", "_weight")

    def __init__(self) -> None:
        # Increase the weight of new jobs instead of decreasing all old weights.
        self._jobs: dict[str, float] = {}
        self._weight = 1.0
        self._usual = 1.0
        self._day = self._days = self._of_day = 0
        self._sum = 0.0

    def discount(self, user: str, day: int, jobs: int = 1) -> float:
        """Count a job of this user, with a weight; return its factor, from 0 to 1.

        The factor is relative to the usual one, so that the jobs of sites with few users are not regarded as bursts.

        :param day: number of the day on which it ended, ascending.
        """
        self._weight /= 1.0 - jobs / MEMORY_JOBS
        factor = self._factor(user)
        self._jobs[user] = self._jobs.get(user, 0.0) + jobs * self._weight
        if day != self._day:
            # Each day has the same weight in the average, independent of its number of jobs.
            if self._of_day:
                self._days += 1
                self._usual += (self._sum / self._of_day - self._usual) / min(self._days, AVERAGING_DAYS)
            self._day, self._sum, self._of_day = day, 0.0, 0
        self._sum, self._of_day = self._sum + factor, self._of_day + 1
        if self._weight > _MAX_WEIGHT or len(self._jobs) > MAX_USERS:
            kept = {user: jobs / self._weight for user, jobs in self._jobs.items()}
            self._jobs = {user: jobs for user, jobs in kept.items() if jobs >= MIN_USER_JOBS}
            self._weight = 1.0
        return min(1.0, factor / self._usual)

    def peek(self, user: str) -> float:
        """Return the factor of a job of this user, which was or will be counted otherwise."""
        return min(1.0, self._factor(user) / self._usual)

    def _factor(self, user: str) -> float:
        return min(1.0, MAX_USER_JOBS / (1.0 + self._jobs.get(user, 0.0) / self._weight))
