"""What the daemon does beside answering: load the history, follow the accounting log, learn, record what it predicted.

All of it happens in one thread that may wait for PostgreSQL as long as it takes; the thread that answers never waits
for this one but for the moment in which one job is learnt.  PostgreSQL is the record: jobs are learnt from it once
they are committed, in the order in which they were, so a daemon that was killed at any moment knows the same again.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Event, Thread

from sqlalchemy import Engine

from softwalltime.accounting.files import log_files
from softwalltime.accounting.reader import Tally
from softwalltime.errors import SoftwalltimeError, SourceError
from softwalltime.jobs import CompletedJob
from softwalltime.predictors.base import EVERYTHING, History
from softwalltime.service.adviser import Adviser, Desk
from softwalltime.service.ingest import ingest_logs
from softwalltime.service.site_policy import SitePolicy
from softwalltime.store import add_decisions, last_id, read_history, read_new, take_stock

INTERVAL = 0.5
"""Seconds between two looks at the log."""
LONGEST_PAUSE = 30.0
"""Seconds between two tries to reach PostgreSQL at most."""
RECORDED_AT_ONCE = 1000
MANY = 10_000
"""New jobs at once, as at the first start, after which PostgreSQL is told what its tables look like now."""
FUTURE = 86400
"""Seconds by which a job's end may lie in the future; beyond that a clock was wrong, and it is not learnt."""

log = logging.getLogger(__name__)


class Worker:
    """The daemon's thread for everything that may take time.

    :param open_engine: opens the store; tried again and again while it fails.
    :param accounting: the folder, or file, to follow; ``None`` where another process ingests.
    """

    def __init__(
        self,
        desk: Desk,
        open_engine: Callable[[], AbstractContextManager[Engine]],
        accounting: Path | None,
        server: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.tally = Tally()
        self.stored = 0
        self.recorded = 0
        self.from_the_future = 0
        self.problem = "not reached yet"
        self._desk = desk
        self._open_engine = open_engine
        self._accounting = accounting
        self._server = server
        self._clock = clock
        self._seen: dict[Path, tuple[int, int, int]] = {}
        self._last_id = 0
        self._policy: SitePolicy | None = None
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="worker", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, timeout: float) -> bool:
        """End after what is under way; whether that was within ``timeout`` seconds."""
        self._stopping.set()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def change_policy(self, policy: SitePolicy) -> None:
        """Load the history for another policy, and let it take over then; the old one answers meanwhile."""
        self._policy = policy

    def _run(self) -> None:
        pause = 1.0
        while not self._stopping.is_set():
            try:
                with self._open_engine() as engine:
                    pause = 1.0
                    self._work(engine)
            except SoftwalltimeError as error:
                if self.problem != str(error):
                    log.error("the store cannot be used, predictions go on from memory: %s", error)
                self.problem = str(error)
            # Whatever it is, the daemon goes on answering, and tries again.
            except Exception:
                log.exception("unexpected error; trying again")
                self.problem = "an unexpected error, see the log"
            if not self._stopping.wait(pause):
                pause = min(2 * pause, LONGEST_PAUSE)

    def _work(self, engine: Engine) -> None:
        last = False
        while not last:
            # One more round after the signal to stop, so that nothing decided is left unrecorded.
            last = self._stopping.is_set()
            if not self._desk.adviser.ready:
                self._load(engine, self._desk.adviser)
            policy, self._policy = self._policy, None
            if policy is not None:
                adviser = Adviser(policy, self._clock)
                self._load(engine, adviser)
                self._desk.adviser = adviser
            if self._accounting is not None:
                self._follow(engine, self._accounting)
            self._learn(engine)
            self._record(engine)
            if self.problem:
                log.info("the store is in use")
                self.problem = ""
            self._stopping.wait(INTERVAL)

    def _load(self, engine: Engine, adviser: Adviser) -> None:
        """Teach an adviser the history that its predictors ask for."""
        begin = time.monotonic()
        history = together(predictor.history for predictor in adviser.predictors)
        since = int(self._clock()) - history.seconds if history.seconds else None
        with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
            newest = last_id(connection)
            adviser.learn(self._believable(read_history(connection, history.per_user, since)))
        self._last_id = newest
        adviser.ready = True
        log.info("learnt %d jobs of the history in %.1f s", adviser.learnt, time.monotonic() - begin)

    def _follow(self, engine: Engine, accounting: Path) -> None:
        """Store what is new in the logs that have changed since the last look."""
        try:
            changed = {path: state for path, state in _states(accounting) if self._seen.get(path) != state}
            if not changed:
                return
            tally = Tally()
            stored, _ = ingest_logs(engine, list(changed), tally, self._server)
        except SourceError as error:
            if [str(each) for each in self.tally.broken] != [str(error)]:
                log.error("%s", error)
            self.tally.broken = [error]
            return
        self._seen.update(changed)
        self.stored += stored
        if stored > MANY:
            take_stock(engine)
        for malformed in tally.kept:
            log.warning("malformed: %s", malformed)
        for broken in tally.broken:
            log.error("%s", broken)
        self.tally.add(tally)
        self.tally.broken = tally.broken

    def _learn(self, engine: Engine) -> None:
        """Teach what has become known since, whoever stored it."""
        with engine.connect() as connection:
            for number, job in read_new(connection, self._last_id):
                self._desk.adviser.learn(self._believable([job]))
                self._last_id = number

    def _record(self, engine: Engine) -> None:
        """Store the decisions that were taken; one leaves the queue only when it is committed."""
        waiting = self._desk.decisions
        while waiting:
            # The other thread only appends, and drops from this end when the queue is full: then some are recorded
            # that would have been dropped.
            some = [waiting[index] for index in range(min(RECORDED_AT_ONCE, len(waiting)))]
            with engine.begin() as connection:
                add_decisions(connection, some)
            for decision in some:
                if waiting and waiting[0] is decision:
                    waiting.popleft()
            self.recorded += len(some)

    def _believable(self, jobs: Iterable[CompletedJob]) -> Iterator[CompletedJob]:
        """Those that did not end in the future, which would make predictors forget the present."""
        latest = self._clock() + FUTURE
        for job in jobs:
            if job.end <= latest:
                yield job
            else:
                self.from_the_future += 1
                if self.from_the_future == 1:
                    log.warning("job %s ended in the future (%d): not learnt", job.submission.job_id, job.end)


def together(histories: Iterator[History]) -> History:
    """The history that suffices for all of them."""
    per_user = seconds = 0
    for history in histories:
        if history.per_user is None or history.seconds is None:
            return EVERYTHING
        per_user = max(per_user, history.per_user)
        seconds = max(seconds, history.seconds)
    return History(per_user, seconds)


def _states(accounting: Path) -> Iterator[tuple[Path, tuple[int, int, int]]]:
    """The logs with what changes when they do: size, time of the last change, inode."""
    for path in log_files(accounting):
        try:
            found = path.stat()
        except FileNotFoundError:
            continue  # rotated away since the folder was read
        yield path, (found.st_size, found.st_mtime_ns, found.st_ino)
