"""The predictors of a policy in memory, safe to teach from one thread and to ask from another."""

from collections.abc import Callable, Collection, Iterable
from heapq import heappop, heappush
from threading import Lock
from time import time
from typing import NamedTuple

from softwalltime.jobs import ColdStart, CompletedJob, DecisionRecord, Submission
from softwalltime.policy.clamp import soft_walltime
from softwalltime.policy.site import KEEP, WALLTIME, SitePolicy
from softwalltime.predictors.base import Predictor
from softwalltime.predictors.registry import make
from softwalltime.reasons import Reason, sentence
from softwalltime.service.protocol import (
    ProtocolError,
    Request,
)
from softwalltime.states import TEACHING, State


class PredictionService:
    """The predictors of a policy, taught and asked; safe to teach from one thread and to ask from another.

    A change of policy makes a new one, which is taught the history before it takes the old one's place.

    A job that ended in the future is learnt when its time has come, by the clock or by that of a request: what is
    predicted then rests on what was known then, and a record with a wrong clock does no harm.

    :param teaching: how jobs must have ended to be learnt.
    """

    def __init__(
        self, policy: SitePolicy, teaching: Collection[State] = TEACHING, clock: Callable[[], float] = time
    ) -> None:
        self.policy = policy
        self.teaching = frozenset(teaching)
        self.ready = False
        self.learnt = 0
        self._clock = clock
        self._lock = Lock()
        self._future: list[tuple[int, int, CompletedJob]] = []
        self._taken = 0
        self._predictors: dict[str, Predictor] = {spec: make(spec) for spec in sorted(policy.specs())}

    def fresh(self) -> "PredictionService":
        """One with the same policy that has learnt nothing yet."""
        return PredictionService(self.policy, self.teaching, self._clock)

    @property
    def predictors(self) -> tuple[Predictor, ...]:
        """All predictors that may be asked."""
        return tuple(self._predictors.values())

    @property
    def from_the_future(self) -> int:
        """How many jobs wait to be learnt until the time at which they ended has come."""
        return len(self._future)

    def learn(self, jobs: Iterable[CompletedJob]) -> None:
        """Teach every predictor these jobs, but for those that do not teach; a request waits for one job at most."""
        now = int(self._clock())
        with self._lock:
            self._come_to(now)
        for job in jobs:
            if job.state not in self.teaching:
                continue
            with self._lock:
                if job.end > now:
                    self._taken += 1
                    heappush(self._future, (job.end, self._taken, job))
                else:
                    self._teach(job)

    def _come_to(self, now: int) -> None:
        while self._future and self._future[0][0] <= now:
            self._teach(heappop(self._future)[2])

    def _teach(self, job: CompletedJob) -> None:
        for predictor in self._predictors.values():
            predictor.learn(job)
        self.learnt += 1

    def advise(self, request: Request) -> "Advice":
        """What to do about the job of a request.

        :raises ProtocolError: if the request names no job.
        """
        submission = request.job
        if submission is None:
            raise ProtocolError("job: an object is expected")
        now = request.now or int(self._clock())
        mode, waiting, running, minimum = self.policy.terms(submission)
        spec = running if request.event == "runjob" else waiting
        reason = None
        if mode == "off":
            reason = Reason.POLICY_OFF
        elif spec == KEEP:
            reason = Reason.POLICY_KEEP
        elif not submission.walltime:
            reason = Reason.NO_WALLTIME
        elif submission.shrink_to_fit:
            reason = Reason.SHRINK_TO_FIT
        elif spec != WALLTIME and not self.ready:
            reason = Reason.HISTORY_LOADING
        if reason is not None:
            return Advice(submission, now, mode, spec, "none", sentence(reason), reason)
        if spec == WALLTIME:
            reason = Reason.POLICY_WALLTIME
            seconds, predicted, basis = None, None, sentence(reason)
        else:
            with self._lock:
                self._come_to(now)
                prediction = self._predictors[spec].predict(submission, now)
            basis = prediction.basis
            seconds = soft_walltime(prediction, submission, minimum)
            if isinstance(prediction, ColdStart):
                reason, predicted = prediction.reason, None
            else:
                reason = Reason.NOT_BELOW_WALLTIME if seconds is None else Reason.PREDICTED
                predicted = prediction.seconds
        had = request.soft_walltime
        if seconds is None and had is not None and had != submission.walltime:
            # PBS keeps the soft walltime that a job has: only the walltime itself takes it back.
            seconds = submission.walltime
        if seconds is None or seconds == had:
            return Advice(submission, now, mode, spec, "none", basis, reason, seconds, predicted)
        action = "set" if mode == "on" else "shadow"
        return Advice(submission, now, mode, spec, action, basis, reason, seconds, predicted)


class Advice(NamedTuple):
    """What to do about a job, in the terms of :class:`softwalltime.jobs.DecisionRecord`."""

    submission: Submission
    at: int
    mode: str
    predictor: str
    action: str
    basis: str
    reason: Reason
    soft_walltime: int | None = None
    predicted: float | None = None

    def decision(self, request: Request, took: int = 0) -> DecisionRecord:
        """For the record.

        :param request: the one that was answered.
        :param took: microseconds that the answer took.
        """
        return DecisionRecord(
            self.at, request.event, self.submission, self.mode, self.predictor, self.predicted, self.soft_walltime,
            self.action, self.basis, took, request.timeouts, request.exchange_before,
            self.reason,
        )  # fmt: skip
