"""Answers requests from memory: the site's policy, the predictors, and nothing that could wait for anything."""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable
from heapq import heappop, heappush
from threading import Lock
from time import perf_counter, time
from typing import NamedTuple

from softwalltime.jobs import ColdStart, CompletedJob, Decision, Prediction, Submission
from softwalltime.policy import soft_walltime
from softwalltime.predictors.base import Predictor
from softwalltime.predictors.registry import make
from softwalltime.service.meter import Meter
from softwalltime.service.protocol import (
    ProtocolError,
    Request,
    answer,
    answer_error,
    answer_none,
    answer_set,
    read_request,
)
from softwalltime.service.site_policy import KEEP, WALLTIME, SitePolicy
from softwalltime.states import TEACHING, State

KEPT = 100_000
"""Decisions kept for the store while PostgreSQL is away; then the oldest are dropped, and counted."""


class Adviser:
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

    def fresh(self) -> "Adviser":
        """One with the same policy that has learnt nothing yet."""
        return Adviser(self.policy, self.teaching, self._clock)

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
        if mode == "off":
            return Advice(submission, now, mode, spec, "none", "the site's policy is off for this job")
        if spec == KEEP:
            basis = "the site's policy keeps a running job's soft walltime as it is"
            return Advice(submission, now, mode, spec, "none", basis)
        if not submission.walltime:
            return Advice(submission, now, mode, spec, "none", "the job has no walltime")
        if submission.shrink_to_fit:
            return Advice(submission, now, mode, spec, "none", "a shrink-to-fit job may have no soft walltime")
        if spec == WALLTIME:
            seconds, predicted, basis = None, None, "a running job is planned with its walltime"
        else:
            if not self.ready:
                return Advice(submission, now, mode, spec, "none", "the history is still being loaded")
            with self._lock:
                self._come_to(now)
                prediction = self._predictors[spec].predict(submission, now)
            basis = prediction.reason if isinstance(prediction, ColdStart) else prediction.basis
            predicted = prediction.seconds if isinstance(prediction, Prediction) else None
            seconds = soft_walltime(prediction, submission, minimum)
        had = request.soft_walltime
        if seconds is None and had is not None and had != submission.walltime:
            # PBS keeps the soft walltime that a job has: only the walltime itself takes it back.
            seconds = submission.walltime
        if seconds is None or seconds == had:
            return Advice(submission, now, mode, spec, "none", basis, seconds, predicted)
        return Advice(submission, now, mode, spec, "set" if mode == "on" else "shadow", basis, seconds, predicted)


class Advice(NamedTuple):
    """What to do about a job, in the terms of :class:`softwalltime.jobs.Decision`, which is made once it was sent."""

    submission: Submission
    at: int
    mode: str
    predictor: str
    action: str
    basis: str
    soft_walltime: int | None = None
    predicted: float | None = None

    def decision(self, request: Request, took: int = 0) -> Decision:
        """For the record.

        :param request: the one that was answered.
        :param took: microseconds that the answer took.
        """
        return Decision(
            self.at, request.event, self.submission, self.mode, self.predictor, self.predicted, self.soft_walltime,
            self.action, self.basis, took, request.timeouts, request.exchange_before,
        )  # fmt: skip


class Desk:
    """Where lines come in and go out: reads a request, has it decided, keeps the decision for the record."""

    def __init__(self, adviser: Adviser, status: Callable[[], dict[str, object]]) -> None:
        self.adviser = adviser
        self.decisions: deque[Decision] = deque(maxlen=KEPT)
        self.dropped = 0
        self.counts: Counter[str] = Counter()
        self.meter = Meter()
        self._status = status
        self._counted = ""
        self._sent: tuple[Request, Advice, int] | None = None

    def answer(self, line: bytes) -> bytes:
        """The answer to one line; never raises.  :meth:`note` is to be called once it was sent."""
        self.note()
        began = perf_counter()
        try:
            request = read_request(line)
            self._counted = request.operation
            if request.operation == "ping":
                return answer({"ready": self.adviser.ready})
            if request.operation == "status":
                self.note()
                return answer(self._status())
            advice = self.adviser.advise(request)
        except ProtocolError as error:
            self._counted = "refused"
            return answer_error(str(error))
        # A predictor of another package may fail in any way; the hook must get its answer, and others theirs.
        except Exception as error:
            self._counted = "failed"
            return answer_error(f"{type(error).__name__}: {error}")
        if request.operation == "explain":
            return _explained(advice)
        self._sent = request, advice, int((perf_counter() - began) * 1e6)
        if advice.action == "set" and advice.soft_walltime is not None:
            return answer_set(advice.soft_walltime, advice.basis)
        return answer_none(advice.basis)

    def note(self) -> None:
        """Count the last answer, and keep the decision for the record: the hook does not wait for this."""
        counted, sent = self._counted, self._sent
        self._counted, self._sent = "", None
        if counted:
            self.counts[counted] += 1
        if sent is not None:
            request, advice, took = sent
            decision = advice.decision(request, took)
            self.counts[f"{decision.event} {decision.action}"] += 1
            self.meter.note(decision)
            if len(self.decisions) == KEPT:
                self.dropped += 1
            self.decisions.append(decision)


def _explained(advice: Advice) -> bytes:
    """All of it, for a person who asks; nothing is recorded."""
    return answer(
        {
            "action": advice.action,
            "mode": advice.mode,
            "predictor": advice.predictor,
            "predicted": advice.predicted,
            "soft_walltime": advice.soft_walltime,
            "basis": advice.basis,
        }
    )
