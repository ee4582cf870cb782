"""What forecasts rest on, kept current from look to look: runtimes, and waits of like jobs."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from softwalltime.forecast.expected import Learnt
from softwalltime.forecast.history import learn_history
from softwalltime.forecast.runtimes import RuntimeModel
from softwalltime.forecast.snapshot import ServerSnapshot
from softwalltime.jobs import CompletedJob, Submission
from softwalltime.predictors.base import Predictor
from softwalltime.replay.job_columns import JobColumns
from softwalltime.states import State

Key = tuple[str, int]
"""Id and submission of a job: ids are used again after some years."""
FORGOTTEN = 86400
"""Seconds for which the record of the end of a job that has gone is waited for."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """A job as of the last look that had it (epoch seconds)."""

    submission: Submission
    started: bool
    at: int


class ForecastLearning:
    """Learns from the history once, and then from each look at the server and the jobs that ended since.

    :param teaching: states of the jobs that teach.
    """

    def __init__(self, predictor: Predictor, teaching: Collection[State]) -> None:
        self.learnt = Learnt(RuntimeModel(predictor))
        self.jobs = 0
        """Jobs that have taught."""
        self._teaching = frozenset(teaching)
        self._seen: dict[Key, _Seen] = {}

    def history(self, completed: Iterable[CompletedJob], now: int) -> None:
        """Learn the jobs that ended by ``now`` (epoch seconds)."""
        jobs = JobColumns.of(completed)
        learnt = self.learnt
        self.jobs = learn_history(learnt.runtimes, jobs, now, self._teaching, learnt.waits)

    def look(self, snapshot: ServerSnapshot, ended: Iterable[CompletedJob]) -> None:
        """Learn the jobs that ended since the last look, and note what waits and runs now."""
        runtimes, waits = self.learnt.runtimes, self.learnt.waits
        now = snapshot.taken
        for job in ended:
            seen = self._seen.pop(_key(job.submission), None)
            if seen is None:
                # It was submitted after the last look.
                runtimes.submitted(job.submission, job.submission.submitted, compare=False)
            if job.start is not None and (seen is None or not seen.started):
                runtimes.started(job.submission, job.start)
                waits.started(job.submission, max(job.start - (job.etime or job.submission.submitted), 0))
            teaches = job.state in self._teaching
            runtimes.ended(job, teaches=teaches)
            self.jobs += teaches
        before, self._seen = self._seen, {}
        for live in snapshot.jobs:
            seen = before.pop(_key(live.submission), None)
            if seen is None:
                runtimes.submitted(live.submission, now, compare=not live.occupies)
            if live.occupies and live.start is not None and (seen is None or not seen.started):
                runtimes.started(live.submission, live.start)
                since = live.etime or live.qtime or live.submission.submitted
                waits.started(live.submission, max(live.start - since, 0))
            self._seen[_key(live.submission)] = _Seen(live.submission, live.occupies, now)
        for key, seen in before.items():
            if seen.started and now - seen.at < FORGOTTEN:
                # The record of its end is still to come.
                self._seen[key] = seen
            else:
                runtimes.deleted(seen.submission, now)


def _key(submission: Submission) -> Key:
    return submission.job_id, submission.submitted
