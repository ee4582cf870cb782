"""Store decisions and promised starts in a separate thread.

The worker's thread may load a long history or store a whole folder of logs for minutes.  Decisions are stored at the
same time, so that neither SIGTERM nor a full queue loses them.  The recorder also probes PostgreSQL while a long
statement of the worker runs.
"""

import json
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path

from sqlalchemy import Engine, text

from softwalltime.core.errors import SoftwalltimeError
from softwalltime.core.jobs import DecisionRecord
from softwalltime.service.background import BackgroundThread
from softwalltime.service.new_submissions import NewSubmissions
from softwalltime.service.promise_store import PromiseStore
from softwalltime.store.connections import StatementMonitor, rejects_data
from softwalltime.store.logs import MalformedLine, record_malformed
from softwalltime.store.predictions import add_decisions

MAX_BATCH_DECISIONS = 1000
"""Decisions in one transaction."""
INTERVAL = 0.5
"""Seconds between two transactions."""
RETRY_INTERVAL_S = 2.0
"""Seconds until a transaction that failed is tried again."""
PROBE_AFTER_S = 3.0
"""Seconds after which PostgreSQL is probed while a statement runs."""

log = logging.getLogger(__name__)


@dataclass(eq=False)
class DecisionRecorder(BackgroundThread):
    """The thread that stores decisions."""

    queue: deque[DecisionRecord]
    """Decisions, oldest first; another thread appends to it."""
    source: Path
    """Path of the socket that the requests came from, for rows that cannot be stored."""
    open_engine: Callable[[], AbstractContextManager[Engine]]
    """Opens the store; used at the end if the worker has not opened it."""
    monitor: StatementMonitor
    promises: PromiseStore

    def __post_init__(self) -> None:
        super().__init__("recorder")
        self.recorded = 0
        self.malformed = 0
        """Decisions that PostgreSQL refused; ``softwalltime.malformed_lines`` has them."""
        self.problem = ""
        self.engine: Engine | None = None
        """The store while it is usable; set by the worker."""
        self._new = NewSubmissions()

    def _run(self) -> None:
        last = False
        while not last:
            last = self._stopping.is_set()
            pause = INTERVAL
            try:
                if (engine := self.engine) is not None:
                    self._record(engine)
                    if self.monitor.waiting(patient=True) > PROBE_AFTER_S:
                        # A busy server answers a trivial statement while another one takes long, a hung one does not.
                        with engine.connect() as connection:
                            connection.execute(text("SELECT 1"))
                    self.problem = ""
                elif last and (self.queue or self.promises.changes):
                    # The worker may wait before its next attempt to open the store.
                    with self.open_engine() as own:
                        self._record(own)
            except SoftwalltimeError as error:
                if self.problem != str(error):
                    log.error("predictions cannot be stored, %d wait: %s", len(self.queue), error)
                self.problem, pause = str(error), RETRY_INTERVAL_S
            except Exception:
                log.exception("unexpected error while predictions were stored; trying again")
                self.problem, pause = "an unexpected error, see the log", RETRY_INTERVAL_S
            if not last:
                self._stopping.wait(pause)

    def _record(self, engine: Engine) -> None:
        """Store the queued decisions; a decision leaves the queue only when it is committed."""
        left = len(self.queue)
        while left > 0 and self.queue:
            # The other thread appends only.  It also drops from this end when the queue is full: then some decisions
            # are stored that would have been dropped.
            batch = [self.queue[index] for index in range(min(MAX_BATCH_DECISIONS, left, len(self.queue)))]
            self._store(engine, batch)
            for decision in batch:
                if self.queue and self.queue[0] is decision:
                    self.queue.popleft()
            left -= len(batch)
        self.promises.exchange(engine)
        self._new.resolve(engine)

    def _store(self, engine: Engine, batch: Sequence[DecisionRecord]) -> None:
        """Store a batch; where PostgreSQL refuses a value, store the others and set the refused row aside."""
        try:
            with engine.begin() as connection:
                add_decisions(connection, batch)
        except Exception as error:
            if not rejects_data(error):
                raise
            if len(batch) == 1:
                self._set_aside(engine, batch[0], error)
            else:
                middle = len(batch) // 2
                self._store(engine, batch[:middle])
                self._store(engine, batch[middle:])
        else:
            self.recorded += len(batch)
            self._new.note(batch)

    def _set_aside(self, engine: Engine, decision: DecisionRecord, error: Exception) -> None:
        self.malformed += 1
        reason = str(error).partition("\n")[0]
        log.error("a prediction of user %r cannot be stored and is set aside as malformed: %s",
                  decision.submission.user[:60], reason)  # fmt: skip
        line = json.dumps(asdict(decision), default=str).encode()
        row = MalformedLine("", str(self.source), 0, 0, f"prediction: {reason}", "", line)
        try:
            with engine.begin() as connection:
                record_malformed(connection, [row])
        except Exception as again:
            if not rejects_data(again):
                raise
            log.error("it cannot be stored as malformed either: %s", again)
