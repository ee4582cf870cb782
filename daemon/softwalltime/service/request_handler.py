"""From a request line to a response line: predictions from memory, without blocking I/O."""

from collections import Counter, deque
from collections.abc import Callable
from time import perf_counter

from softwalltime.jobs import DecisionRecord
from softwalltime.service.latency import LatencyMeter
from softwalltime.service.prediction_service import Advice, PredictionService
from softwalltime.service.protocol import (
    ProtocolError,
    Request,
    answer,
    answer_error,
    answer_none,
    answer_set,
    read_request,
)

KEPT = 100_000
"""Decisions kept for the store while PostgreSQL is away; then the oldest are dropped, and counted."""


class RequestHandler:
    """Where lines come in and go out: reads a request, has it decided, keeps the decision for the record."""

    def __init__(self, predictions: PredictionService, status: Callable[[], dict[str, object]]) -> None:
        self.predictions = predictions
        self.decisions: deque[DecisionRecord] = deque(maxlen=KEPT)
        self.dropped = 0
        self.counts: Counter[str] = Counter()
        self.meter = LatencyMeter()
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
                return answer({"ready": self.predictions.ready})
            if request.operation == "status":
                self.note()
                return answer(self._status())
            advice = self.predictions.advise(request)
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
            "reason": advice.reason,
            "basis": advice.basis,
        }
    )
