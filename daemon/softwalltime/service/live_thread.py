"""The thread of live values: poll PBS's queue, less often while PBS does not answer."""

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from softwalltime.core.jobs import DecisionRecord
from softwalltime.service.background import BackgroundThread
from softwalltime.service.live.connection import PbsConnection
from softwalltime.service.live.ifl import IflError
from softwalltime.service.live.live_options import LiveOptions, without_live
from softwalltime.service.live_values import LiveValues
from softwalltime.service.prediction_service import PredictionService
from softwalltime.service.promise_store import PromiseStore
from softwalltime.service.promise_watch import PromiseWatch
from softwalltime.service.status import LiveStatus

MAX_RETRY_PAUSE_S = 600.0
"""Maximum seconds between two attempts while PBS refuses or cannot be reached."""
RESTORE_TIMEOUT_S = 30.0
"""Seconds that the first poll waits for the store to restore the promises of the previous daemon process."""

log = logging.getLogger(__name__)


class LiveThread(BackgroundThread):
    """Update soft walltimes in PBS while the daemon runs; do nothing in mode off.

    :param predictions: returns the prediction service in use.
    :param record: queues a decision for the store.
    :param store: keeps promises across restarts.
    :param connect: opens a connection to a server by name, through the agent at this socket.
    :param clock: the time, epoch seconds.
    """

    def __init__(
        self,
        options: LiveOptions,
        predictions: Callable[[], PredictionService],
        record: Callable[[DecisionRecord], None],
        store: PromiseStore,
        connect: Callable[[str, Path | None], PbsConnection] = PbsConnection,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__("live")
        self.options = options
        self.counts = LiveStatus()
        self.problem = ""
        self.promises = PromiseWatch(store)
        self._predictions = predictions
        self._record = record
        self._connect = connect
        self._clock = clock

    def change(self, options: LiveOptions) -> None:
        if options == self.options:
            return
        self.options = options
        self._wake()

    def status(self) -> LiveStatus:
        """Return state and counters; safe from any thread."""
        options, promises = self.options, self.promises
        return replace(
            self.counts, mode=options.mode, problem=self.problem, guard=options.guard, promises=dict(promises.counts),
            late_job=promises.late_job if options.mode != "off" else "",
            unmet=without_live(self._predictions().policy, options),
        )  # fmt: skip

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._changed.clear()
            options = self.options
            if options.mode == "off":
                self._guard_off()
                self.problem = ""
                if not self._stopping.is_set():
                    self._changed.wait()
                continue
            connection = self._connect(options.server, options.agent)
            try:
                self._work(options, connection)
            except Exception:
                log.exception("live values: unexpected error; trying again")
                self.problem = "an unexpected error, see the log"
                self._guard_off()
                self._changed.wait(MAX_RETRY_PAUSE_S)
            finally:
                connection.close()

    def _work(self, options: LiveOptions, connection: PbsConnection) -> None:
        """Read the queue periodically until the options change."""
        self._wait_for_the_store()
        values = LiveValues(options, connection, self._predictions, self._record, self.counts, self.promises)
        pause = float(options.every)
        while not self._changed.is_set() and not self._stopping.is_set():
            begin = time.monotonic()
            try:
                values.look(int(self._clock()), stopping=self._changed.is_set)
            except IflError as error:
                if self.problem != str(error):
                    log.error("live values: %s; trying again", error)
                self.problem = str(error)
                # Without the queue it is unknown whether the top job is late.
                self._guard_off()
                pause = min(2 * pause, MAX_RETRY_PAUSE_S)
            else:
                if self.problem:
                    log.info("live values: PBS answers again")
                self.problem, pause = "", float(options.every)
            self._changed.wait(max(0.0, pause - (time.monotonic() - begin)))

    def _wait_for_the_store(self) -> None:
        deadline = time.monotonic() + RESTORE_TIMEOUT_S
        while not self.promises.store.restored.is_set() and time.monotonic() < deadline:
            if self._changed.wait(0.1):
                return

    def _guard_off(self) -> None:
        self.promises.guard_off(int(self._clock()))
        self._predictions().guarded = False
