"""The guard: while the top job is later than promised, waiting jobs are planned with their walltimes.

Short waiting values let jobs be backfilled that outlive them, so a wide job at the head of the queue can be put off
again and again.  With the guard nothing that could delay it longer is started once it is late.  A job's promise is the
start that the scheduler gave it when it first became a top job.
"""

from collections.abc import Mapping


class Guard:
    """Remembers the first start promised to each waiting job.

    :param seconds: how late the top job may be before the guard is on.
    """

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds
        self.late: str = ""
        """The job for which the guard is on; empty: it is off."""
        self._promised: dict[str, int] = {}

    @property
    def on(self) -> bool:
        """Whether waiting jobs are to be planned with their walltimes."""
        return bool(self.late)

    def look(self, promises: Mapping[str, int | None], now: int) -> None:
        """Take in the waiting jobs, with the start promised to each now (epoch seconds; ``None``: no promise).

        A promise of a job that is no longer a top job counts as long as it waits.  One that is past when it is first
        seen counts for nothing: PBS leaves the estimate of a former top job, also of one that ran and was requeued.
        """
        first = self._promised
        self._promised = {job: first[job] for job in promises if job in first}
        for job, promise in promises.items():
            if promise is not None and promise > now:
                self._promised.setdefault(job, promise)
        late = [(promise, job) for job, promise in self._promised.items() if now > promise + self.seconds]
        self.late = min(late)[1] if late else ""

    def first_promise(self, job: str) -> int | None:
        """Return the first start promised to a waiting job (epoch seconds)."""
        return self._promised.get(job)
