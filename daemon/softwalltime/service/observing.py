"""Derive events from the changes of waiting and running jobs, for predictors that observe them."""

from collections.abc import Iterable, Mapping

from softwalltime.events import Altered, Deleted, Ended, Event, Started, Submitted
from softwalltime.jobs import CompletedJob, CurrentJob, Submission

Key = tuple[str, str]


class JobEvents:
    """Events from changes of the waiting and running jobs that predictors have observed, by job id and server.

    They result from the accounting log's records Q, S, a, D and E, whichever process has read them.  No event is
    observed twice after a restart.  A job that was submitted and ended between two reads is observed at its end.
    """

    def __init__(self) -> None:
        self._known: dict[Key, tuple[Submission, int | None]] = {}

    @property
    def jobs(self) -> Mapping[Key, tuple[Submission, int | None]]:
        """Submission and start of the jobs that predictors know to wait or run; start ``None``: it waits."""
        return self._known

    def load(self, current: Iterable[CurrentJob], now: int) -> list[Event]:
        """Return the events that lead to these jobs, all that wait or run; for ``now`` see :meth:`change`."""
        jobs: dict[Key, CurrentJob | None] = {(job.submission.job_id, job.server): job for job in current}
        return self.change({**dict.fromkeys(self._known.keys() - jobs.keys()), **jobs}, now)

    def change(self, changed: Mapping[Key, CurrentJob | None], now: int) -> list[Event]:
        """Return the events of the changed jobs, in order of time; whole arrays are left out.

        :param changed: the state of each job; ``None``: it neither waits nor runs.
        :param now: time of alters and deletions, which the store does not have, epoch seconds.
        """
        events: list[Event] = []
        for key, job in changed.items():
            known = self._known.get(key)
            if job is None:
                if known is not None:
                    del self._known[key]
                    events.append(Deleted(now, known[0]))
                continue
            submission, start = job.submission, job.start
            if "[]" in submission.job_id:
                continue
            self._known[key] = submission, start
            if known is None:
                events.append(Submitted(submission.submitted, submission))
            elif known[0] != submission:
                events.append(Altered(now, submission))
            if start is not None and (known is None or known[1] != start):
                events.append(Started(start, submission))
        return sorted(events, key=lambda event: (event.time, event.kind))

    def ended(self, job: CompletedJob) -> list[Event]:
        """Return the events of a stored job: those that were not observed yet, then its end."""
        submission = job.submission
        key = submission.job_id, job.server
        known = self._known.get(key)
        if known is not None and known[0].submitted <= submission.submitted:
            del self._known[key]
        else:
            # A job that was submitted later has the same id, as after a new installation of the server.
            known = None
        events: list[Event] = []
        if known is None:
            events.append(Submitted(submission.submitted, submission))
        if job.start is not None and (known is None or known[1] != job.start):
            events.append(Started(job.start, submission))
        if job.start is None and not job.ran:
            return [*events, Deleted(job.end, submission)]
        return [*events, Ended(job.end, job)]
