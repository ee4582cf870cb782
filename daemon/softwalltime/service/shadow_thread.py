"""The thread that asks the policy's shadow predictors, after a response was sent."""

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from queue import SimpleQueue

from softwalltime.events import Kind
from softwalltime.jobs import DecisionRecord
from softwalltime.service.background import BackgroundThread
from softwalltime.service.prediction_service import KINDS, PredictionService

BEHIND = 1000
"""Decisions that wait for the shadow predictors, above which decisions are stored without them."""
REST = 4
"""Seconds of rest for each second of work: the thread takes at most a fifth of one core from the answers."""
EVENTS = frozenset(event for event, kind in KINDS.items() if kind is not Kind.STARTED)
"""PBS's events about waiting jobs."""

log = logging.getLogger(__name__)


class ShadowThread(BackgroundThread):
    """Add the values of the shadow predictors to each decision on a waiting job, then pass it on.

    Decisions are passed on in their order.  Without shadow predictors they are passed on at once.

    :param predictions: returns the current prediction service.
    :param store: queues a decision to be stored; called from this thread or from that of :meth:`add`.
    """

    def __init__(self, predictions: Callable[[], PredictionService], store: Callable[[DecisionRecord], None]) -> None:
        self.skipped = 0
        """Decisions stored without the shadow predictors, because too many waited."""
        self._until: float | None = None
        """When no shadow predictor is asked any more, by the monotonic clock; ``None``: the thread is not to end."""
        self._predictions = predictions
        self._store = store
        self._queue: SimpleQueue[DecisionRecord | None] = SimpleQueue()
        super().__init__("shadows")

    def _tell(self, timeout: float) -> None:
        # Pass on the decisions that wait, without rest, and ask no shadow predictor after half of that time.
        self._until = time.monotonic() + timeout / 2
        self._queue.put(None)

    def add(self, record: DecisionRecord) -> None:
        """Take a decision; returns at once."""
        # Decisions that wait must be stored before this one.
        if self._predictions().shadows is None and self._queue.empty():
            self._store(record)
        else:
            self._queue.put(record)

    def _run(self) -> None:
        while (record := self._queue.get()) is not None:
            began = time.perf_counter()
            try:
                record = self._with_shadows(record)
            # The decision is stored in any case.
            except Exception:
                log.exception("unexpected error in the shadow predictors")
            self._store(record)
            if self._queue.qsize() <= BEHIND and self._until is None:
                time.sleep(REST * (time.perf_counter() - began))

    def _with_shadows(self, record: DecisionRecord) -> DecisionRecord:
        predictions = self._predictions()
        if predictions.shadows is None or not predictions.ready or record.mode == "off" or record.event not in EVENTS:
            return record
        late = self._until is not None and time.monotonic() > self._until
        if late or self._queue.qsize() > BEHIND:
            self.skipped += 1
            return record
        return replace(record, shadows=predictions.shadow_values(record.submission, record.at))
