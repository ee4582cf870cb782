"""Learn runtimes and waits for forecasts from completed jobs and from snapshots of the server."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from softwalltime.core.events import Kind
from softwalltime.core.jobs import CompletedJob, Submission
from softwalltime.core.states import TEACHING, State
from softwalltime.measure.forecast.expected import Learnt
from softwalltime.measure.forecast.like_waits import LikeWaits
from softwalltime.measure.forecast.runtimes import MAX_ERRORS, MAX_USER_ERRORS, RuntimeModel
from softwalltime.measure.forecast.snapshot import LiveJob, ServerSnapshot
from softwalltime.measure.replay.job_columns import JobColumns
from softwalltime.measure.replay.workload import Workload
from softwalltime.predict.predictors.base import History, Predictor

MIN_HISTORY = History(per_user=MAX_USER_ERRORS, seconds=60 * 86400)
"""Jobs of the store that a forecast needs besides those of its predictor, to estimate the predictor's errors."""


def learn_history(
    model: RuntimeModel, completed: Sequence[CompletedJob], now: int, teaching: Collection[State] = TEACHING,
    waits: LikeWaits | None = None, progress: Callable[[int], None] = lambda _: None, correlate: bool = False,
) -> int:  # fmt: skip
    """Let a model learn each job at its end, and compare predictions at submission; return how many jobs it learnt.

    Only the last jobs to end are predicted, because the model keeps only their errors.

    :param now: what happened later is not used (epoch seconds).
    :param waits: learns how long each job waited.
    :param correlate: whether to estimate the correlation of users' jobs, which needs more predictions.
    """
    workload = Workload(completed, teaching=teaching)
    learnt = 0
    newest = _newest(workload, now)
    compared = _compared(workload, newest)
    correlated = frozenset(newest[:MAX_ERRORS]) if correlate else frozenset()
    for stride in workload.stream(everything=True, progress=progress):
        for kind, number, job, time, teaches in zip(*stride, strict=True):
            if time > now:
                return learnt
            match kind:
                case Kind.SUBMITTED:
                    model.submitted(job.submission, time, compare=compared[number], correlate=number in correlated)
                case Kind.STARTED:
                    _started(model, waits, job.submission, time, job.etime)
                case Kind.DELETED:
                    model.deleted(job.submission, time)
                case _:
                    model.ended(job, teaches=teaches)
                    learnt += teaches
    return learnt


def _started(
    model: RuntimeModel, waits: LikeWaits | None, submission: Submission, start: int, eligible: int | None
) -> None:
    model.started(submission, start)
    if waits is not None:
        waits.started(submission, max(start - (eligible or submission.submitted), 0))


def _newest(workload: Workload, now: int) -> list[int]:
    """Return the jobs that had ended and count for learning, the last one to end first."""
    counts = workload.teaches & (workload.runtime > 0) & (workload.ended <= now)
    order = workload.ends()[::-1]
    newest: list[int] = order[counts[order]].tolist()
    return newest


def _compared(workload: Workload, newest: Sequence[int]) -> list[bool]:
    """Return a mask of the jobs among the last to end, of all users or of their user."""
    compared = [False] * len(workload.jobs)
    users = list(workload.jobs.values("user"))
    ended: Counter[str] = Counter()
    for newer, number in enumerate(newest):
        user = users[number]
        compared[number] = newer < MAX_ERRORS or ended[user] < MAX_USER_ERRORS
        ended[user] += 1
    return compared


def server_of(snapshot: ServerSnapshot, setting: str) -> str:
    """Return the server's name in the store: from the setting, else the job ids, else PBS."""
    names = (job.submission.job_id.partition(".")[2] for job in snapshot.jobs)
    return setting or next(names, "") or snapshot.server


def note_live(model: RuntimeModel, jobs: Iterable[LiveJob]) -> None:
    for job in jobs:
        model.submitted(job.submission, job.submission.submitted, compare=False)
        if job.occupies and job.start is not None:
            model.started(job.submission, job.start)


Key = tuple[str, int]
"""Id and submission of a job: ids are used again after some years."""
END_RECORD_TIMEOUT_S = 86400
"""Seconds to wait for the end record of a job that has left the queue."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """A job as in the last snapshot that contained it (epoch seconds)."""

    submission: Submission
    started: bool
    at: int


class ForecastLearning:
    """Learn from the history once, then from each snapshot of the server and the jobs that ended since."""

    def __init__(self, predictor: Predictor, teaching: Collection[State]) -> None:
        self.learnt = Learnt(RuntimeModel(predictor))
        self.jobs = 0
        """Number of jobs learnt."""
        self._teaching = frozenset(teaching)
        self._seen: dict[Key, _Seen] = {}

    def history(self, completed: Iterable[CompletedJob], now: int) -> None:
        learnt = self.learnt
        self.jobs = learn_history(learnt.runtimes, JobColumns.of(completed), now, self._teaching, learnt.waits)

    def look(self, snapshot: ServerSnapshot, ended: Iterable[CompletedJob]) -> None:
        """Learn the jobs that ended since the last snapshot, and update the waiting and running jobs."""
        runtimes, waits = self.learnt.runtimes, self.learnt.waits
        now = snapshot.taken
        for job in ended:
            seen = self._seen.pop(_key(job.submission), None)
            if seen is None:
                # Submitted after the last snapshot.
                runtimes.submitted(job.submission, job.submission.submitted, compare=False)
            if job.start is not None and not (seen and seen.started):
                _started(runtimes, waits, job.submission, job.start, job.etime)
            teaches = job.state in self._teaching
            runtimes.ended(job, teaches=teaches)
            self.jobs += teaches
        before, self._seen = self._seen, {}
        for live in snapshot.jobs:
            seen = before.pop(_key(live.submission), None)
            if seen is None:
                runtimes.submitted(live.submission, now, compare=not live.occupies)
            if live.occupies and live.start is not None and not (seen and seen.started):
                _started(runtimes, waits, live.submission, live.start, live.etime or live.qtime)
            self._seen[_key(live.submission)] = _Seen(live.submission, live.occupies, now)
        for key, seen in before.items():
            if seen.started and now - seen.at < END_RECORD_TIMEOUT_S:
                # Its end record is not stored yet.
                self._seen[key] = seen
            else:
                runtimes.deleted(seen.submission, now)


def _key(submission: Submission) -> Key:
    return submission.job_id, submission.submitted
