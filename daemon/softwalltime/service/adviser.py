"""Answers requests from memory: the site's policy, the predictors, and nothing that could wait for anything."""

from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from threading import Lock
from time import perf_counter, time

from softwalltime.jobs import ColdStart, CompletedJob, Decision, Prediction
from softwalltime.policy import soft_walltime
from softwalltime.predictors.base import Predictor
from softwalltime.predictors.registry import make
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

KEPT = 100_000
"""Decisions kept for the store while PostgreSQL is away; then the oldest are dropped, and counted."""


class Adviser:
    """The predictors of a policy, taught and asked; safe to teach from one thread and to ask from another.

    A change of policy makes a new one, which is taught the history before it takes the old one's place.
    """

    def __init__(self, policy: SitePolicy, clock: Callable[[], float] = time) -> None:
        self.policy = policy
        self.ready = False
        self.learnt = 0
        self._clock = clock
        self._lock = Lock()
        self._predictors: dict[str, Predictor] = {spec: make(spec) for spec in sorted(policy.specs())}

    @property
    def predictors(self) -> tuple[Predictor, ...]:
        """All predictors that may be asked."""
        return tuple(self._predictors.values())

    def learn(self, jobs: Iterable[CompletedJob]) -> None:
        """Teach every predictor these jobs; a request waits for one job at most."""
        predictors = self.predictors
        for job in jobs:
            with self._lock:
                for predictor in predictors:
                    predictor.learn(job)
            self.learnt += 1

    def decide(self, request: Request) -> Decision:
        """What to do about the job of a request.

        :raises ProtocolError: if the request names no job.
        """
        submission = request.job
        if submission is None:
            raise ProtocolError("job: an object is expected")
        now = request.now or int(self._clock())
        terms = self.policy.terms(submission)
        spec = terms.running if request.event == "runjob" else terms.waiting

        def decision(action: str, basis: str, seconds: int | None = None, predicted: float | None = None) -> Decision:
            return Decision(now, request.event, submission, terms.mode, spec, predicted, seconds, action, basis)

        if terms.mode == "off":
            return decision("none", "the site's policy is off for this job")
        if spec == KEEP:
            return decision("none", "the site's policy keeps a running job's soft walltime as it is")
        if not submission.walltime:
            return decision("none", "the job has no walltime")
        if submission.shrink_to_fit:
            return decision("none", "a shrink-to-fit job may have no soft walltime")
        if spec == WALLTIME:
            seconds, predicted, basis = None, None, "a running job is planned with its walltime"
        else:
            if not self.ready:
                return decision("none", "the history is still being loaded")
            with self._lock:
                prediction = self._predictors[spec].predict(submission, now)
            basis = prediction.reason if isinstance(prediction, ColdStart) else prediction.basis
            predicted = prediction.seconds if isinstance(prediction, Prediction) else None
            seconds = soft_walltime(prediction, submission, terms.minimum)
        if seconds is None and request.soft_walltime is not None and request.soft_walltime != submission.walltime:
            # PBS keeps the soft walltime that a job has: only the walltime itself takes it back.
            seconds = submission.walltime
        if seconds is None or seconds == request.soft_walltime:
            return decision("none", basis, seconds, predicted)
        return decision("set" if terms.mode == "on" else "shadow", basis, seconds, predicted)


class Desk:
    """Where lines come in and go out: reads a request, has it decided, keeps the decision for the record."""

    def __init__(self, adviser: Adviser, status: Callable[[], dict[str, object]]) -> None:
        self.adviser = adviser
        self.decisions: deque[Decision] = deque(maxlen=KEPT)
        self.dropped = 0
        self.counts: Counter[str] = Counter()
        self._status = status

    def answer(self, line: bytes) -> bytes:
        """The answer to one line; never raises."""
        began = perf_counter()
        try:
            request = read_request(line)
            self.counts[request.operation] += 1
            if request.operation == "ping":
                return answer({"ready": self.adviser.ready})
            if request.operation == "status":
                return answer(self._status())
            decision = self.adviser.decide(request)
        except ProtocolError as error:
            self.counts["refused"] += 1
            return answer_error(str(error))
        # A predictor of another package may fail in any way; the hook must get its answer, and others theirs.
        except Exception as error:
            self.counts["failed"] += 1
            return answer_error(f"{type(error).__name__}: {error}")
        if request.operation == "explain":
            return _explained(decision)
        self.counts[f"{decision.event} {decision.action}"] += 1
        self._keep(decision, int((perf_counter() - began) * 1e6))
        if decision.action == "set" and decision.soft_walltime is not None:
            return answer_set(decision.soft_walltime, decision.basis)
        return answer_none(decision.basis)

    def _keep(self, decision: Decision, took: int) -> None:
        if len(self.decisions) == KEPT:
            self.dropped += 1
        self.decisions.append(replace(decision, took=took))


def _explained(decision: Decision) -> bytes:
    """All that is known of a decision, for a person who asks; nothing is recorded."""
    return answer(
        {
            "action": decision.action,
            "mode": decision.mode,
            "predictor": decision.predictor,
            "predicted": decision.predicted,
            "soft_walltime": decision.soft_walltime,
            "basis": decision.basis,
        }
    )
