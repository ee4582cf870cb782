"""How much the jobs of one user may teach: a burst of a user's jobs counts as a few of them."""

MEMORY = 1000.0
"""Jobs of all users after which a job has lost 63% of its weight."""
MOST = 25.0
"""Jobs of one user, of those ``MEMORY``, beyond which each further one counts less: all together as so many."""
USERS = 4096
"""Users kept before those without weight are forgotten."""
LEAST = 0.01
"""Jobs below which a user is forgotten then."""
_LARGEST = 1e100
"""Weight of a new job from which on all weights are scaled."""


class RecentShare:
    """The number of recent jobs of each user."""

    __slots__ = ("_jobs", "_weight")

    def __init__(self) -> None:
        # Weights of new jobs grow, instead of those of all old ones falling.
        self._jobs: dict[str, float] = {}
        self._weight = 1.0

    def discount(self, user: str, jobs: int = 1) -> float:
        """Count a job of this user that stands for so many; return its factor, from 0 to 1."""
        self._weight /= 1.0 - jobs / MEMORY
        before = self._jobs.get(user, 0.0)
        self._jobs[user] = before + jobs * self._weight
        found = min(1.0, MOST / (1.0 + before / self._weight))
        if self._weight > _LARGEST or len(self._jobs) > USERS:
            self._forget()
        return found

    def _forget(self) -> None:
        kept = {user: jobs / self._weight for user, jobs in self._jobs.items()}
        self._jobs = {user: jobs for user, jobs in kept.items() if jobs >= LEAST}
        self._weight = 1.0
