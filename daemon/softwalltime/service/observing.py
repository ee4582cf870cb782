"""From the store's list of jobs that wait and run to events, for predictors that observe."""

from collections.abc import Iterable

from softwalltime.events import Altered, Deleted, Ended, Event, Started, Submitted
from softwalltime.jobs import CompletedJob, CurrentJob, Submission

Key = tuple[str, str]


class JobWatch:
    """The jobs that were waiting or running when it looked last, by job id and server.

    The list is what the accounting log's records Q, S, a, D and E come to, whichever process has read them; so nothing
    is observed twice after a restart, and what came and went between two looks is told when its end is stored.
    """

    def __init__(self) -> None:
        self._known: dict[Key, tuple[Submission, int | None]] = {}

    def look(self, current: Iterable[CurrentJob], now: int) -> list[Event]:
        """Return what has happened since the last look, in order of time; whole arrays are left out.

        :param current: all jobs that wait or run.
        :param now: the time of what the list tells without a time: alters and deletions, epoch seconds.
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
        """Return the events that a stored job tells: its end, and before it what was not observed of it yet."""
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
