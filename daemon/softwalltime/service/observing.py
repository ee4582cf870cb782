"""Derive events from the store's list of waiting and running jobs, for predictors that observe them."""

from collections.abc import Iterable

from softwalltime.events import Altered, Deleted, Ended, Event, Started, Submitted
from softwalltime.jobs import CompletedJob, CurrentJob, Submission

Key = tuple[str, str]


class JobWatch:
    """Waiting and running jobs at the last poll, by job id and server.

    The list results from the accounting log's records Q, S, a, D and E, whichever process has read them.  No event is
    observed twice after a restart.  A job that came and ended between two polls is observed when its end is stored.
    """

    def __init__(self) -> None:
        self._known: dict[Key, tuple[Submission, int | None]] = {}

    def poll(self, current: Iterable[CurrentJob], now: int) -> list[Event]:
        """Return the events since the last poll, in order of time; whole arrays are left out.

        :param current: all jobs that wait or run.
        :param now: time of alters and deletions, which the list does not have, epoch seconds.
        """
        events: list[Event] = []
        there: dict[Key, tuple[Submission, int | None]] = {}
        for job in current:
            submission, start = job.submission, job.start
            if "[]" in submission.job_id:
                continue
            key = submission.job_id, job.server
            there[key] = submission, start
            known = self._known.get(key)
            if known is None:
                events.append(Submitted(submission.submitted, submission))
            elif known[0] != submission:
                events.append(Altered(now, submission))
            if start is not None and (known is None or known[1] != start):
                events.append(Started(start, submission))
        for key, (submission, _) in self._known.items():
            if key not in there:
                events.append(Deleted(now, submission))
        self._known = there
        return sorted(events, key=lambda event: (event.time, event.kind))

    def ended(self, job: CompletedJob) -> list[Event]:
        """Return the events of a stored job: those that were not observed yet, then its end."""
        submission = job.submission
        known = self._known.pop((submission.job_id, job.server), None)
        events: list[Event] = []
        if known is None:
            events.append(Submitted(submission.submitted, submission))
        if job.start is not None and (known is None or known[1] != job.start):
            events.append(Started(job.start, submission))
        if job.start is None and not job.ran:
            return [*events, Deleted(job.end, submission)]
        return [*events, Ended(job.end, job)]
