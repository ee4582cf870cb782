"""Answer a request line with a response line, from memory and without blocking I/O."""

from collections import Counter, deque
from collections.abc import Callable, Mapping
from time import perf_counter

from softwalltime.core.jobs import DecisionRecord
from softwalltime.predict.policy.decide import Decision
from softwalltime.service.new_submissions import RecentScripts
from softwalltime.service.prediction_service import PredictionService
from softwalltime.service.protocol import (
    JobValueError,
    ProtocolError,
    Request,
    answer,
    answer_error,
    answer_none,
    answer_set,
    read_request,
)
from softwalltime.service.status import RequestMetrics

MAX_WAITING_DECISIONS = 100_000
"""Maximum number of decisions queued for the store; beyond it the oldest are dropped and counted."""


class RequestHandler:
    """Read a request line, decide, return the response line, and queue the decision for the store."""

    def __init__(self, predictions: PredictionService, status: Callable[[], Mapping[str, object]]) -> None:
        self.predictions = predictions
        self.decisions: deque[DecisionRecord] = deque(maxlen=MAX_WAITING_DECISIONS)
        self.dropped = 0
        self.unusable = ""
        """Value outside the limits in the last job refused for that reason."""
        self.counts: Counter[str] = Counter()
        self.metrics = RequestMetrics()
        self.scripts = RecentScripts()
        self._status = status
        self._counted = ""
        self._keep = False
        self._sent: tuple[Request, int, Decision, str, int] | None = None

    def answer(self, line: bytes) -> bytes:
        """Return the response to one line; never raises.  Call :meth:`note` after it was sent."""
        self.note()
        self._keep = False
        began = perf_counter()
        try:
            request = read_request(line)
            self._keep = request.keep
            self._counted = request.operation
            if request.operation == "ping":
                return answer({"ready": self.predictions.ready})
            if request.operation == "status":
                self.note()
                return answer(self._status())
            at, decision = self.predictions.decide(request)
            basis = decision.basis
        except JobValueError as error:
            self._counted, self.unusable = "unusable", str(error)
            return answer_error(str(error))
        except ProtocolError as error:
            self._counted = "refused"
            return answer_error(str(error))
        # A predictor of another package may raise any exception; the hook must get its response.
        except Exception as error:
            self._counted = "failed"
            return answer_error(f"{type(error).__name__}: {error}")
        if request.operation == "explain":
            return _explained(decision, basis)
        self._sent = request, at, decision, basis, int((perf_counter() - began) * 1e6)
        ordering = decision.ordering_seconds if decision.mode == "on" else None
        if decision.action == "set" and decision.soft_walltime is not None:
            return answer_set(decision.soft_walltime, basis, ordering)
        return answer_none(basis, ordering)

    def keeps(self) -> bool:
        return self._keep

    def note(self, delivered: bool = True) -> None:
        """Count the last response and queue its decision, after the hook has its response.

        :param delivered: whether the hook received the response.
        """
        counted, sent = self._counted, self._sent
        self._counted, self._sent = "", None
        if counted:
            self.counts[counted] += 1
        if sent is not None:
            record = _record(*sent, delivered)
            self.metrics.add(record)
            self.scripts.note(record.submission)
            self.queue(record)

    def queue(self, record: DecisionRecord) -> None:
        """Queue a decision to be stored; safe from any thread."""
        if len(self.decisions) == MAX_WAITING_DECISIONS:
            self.dropped += 1
        self.decisions.append(record)


def _record(request: Request, at: int, decision: Decision, basis: str, took: int, delivered: bool) -> DecisionRecord:
    """Return the decision on a request as it is stored; ``took``: microseconds for the answer."""
    action = "late" if decision.action == "set" and not delivered else decision.action
    # At queuejob the job has no soft walltime that PBS has accepted.
    had = None if request.event == "queuejob" else request.soft_walltime or 0
    return DecisionRecord(
        at, request.event, request.job, decision.mode, decision.spec, decision.predicted, decision.soft_walltime,
        action, basis, took, request.timeouts, request.exchange_before, decision.reason, had,
        decision.ordering_seconds,
    )  # fmt: skip


def _explained(decision: Decision, basis: str) -> bytes:
    """Return the whole decision, for ``explain``; nothing is recorded."""
    return answer(
        {
            "action": decision.action,
            "mode": decision.mode,
            "predictor": decision.spec,
            "predicted": decision.predicted,
            "soft_walltime": decision.soft_walltime,
            "ordering": decision.ordering_seconds,
            "reason": decision.reason,
            "missing_jobs": decision.missing_jobs,
            "basis": basis,
        }
    )
