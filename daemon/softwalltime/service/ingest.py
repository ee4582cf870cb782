"""Ingest accounting logs into the store: each completed job once, however often its log is read.

Several processes may ingest the same logs at once: jobs have a natural key, and a position moves only if it is still
where its reader started.  A process that was overtaken continues from the other one's position.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

from sqlalchemy import Connection, Engine

from softwalltime.accounting.queue_changes import Changes
from softwalltime.accounting.tally import Malformed, Tally
from softwalltime.core.jobs import CompletedJob
from softwalltime.service.reading import (
    KnownPositions,
    ParsedBlock,
    malformed_line,
    new_blocks,
    parsed_blocks,
)
from softwalltime.store.completed_jobs import PreparedJobs, add_interrupted, add_prepared_jobs
from softwalltime.store.connections import lock
from softwalltime.store.current import alter_current, delete_completed, delete_current, requeue_current, set_current
from softwalltime.store.learning_jobs import last_id
from softwalltime.store.logs import (
    MalformedLine,
    OvertakenError,
    Position,
    confirm_position,
    move_positions,
    record_malformed,
)

MAX_BATCH_ROWS = 10_000
"""Approximate number of jobs or malformed lines in one transaction."""
MAX_BATCH_LINES = 50_000
"""Approximate number of lines of any kind in one transaction."""
OVERTAKEN_PAUSE_S = 0.2
"""Seconds to wait after another process has read the same logs, before continuing from its position."""


@dataclass(slots=True)
class _Transaction:
    """Rows and log positions that are committed together."""

    server: str
    """The server of all jobs; empty if it is taken from the job ids."""
    tally: Tally = field(default_factory=Tally)
    jobs: list[PreparedJobs] = field(default_factory=list)
    rows: int = 0
    """Number of jobs and malformed lines."""
    malformed: list[MalformedLine] = field(default_factory=list)
    interrupted: list[CompletedJob] = field(default_factory=list)
    changes: Changes = field(default_factory=Changes)
    late: dict[int, Changes] = field(default_factory=dict)
    read: dict[str, Position] = field(default_factory=dict)
    """New position of each log."""
    since: dict[str, Position | None] = field(default_factory=dict)
    """Stored positions that are moved, before the transaction."""

    def add(self, parsed: ParsedBlock) -> None:
        self.tally.add(parsed.tally)
        self.jobs.append(parsed.jobs)
        self.rows += parsed.jobs.number + len(parsed.malformed)
        self.malformed += parsed.malformed
        self.interrupted += parsed.interrupted
        place, path = parsed.place, parsed.place.position.path
        changes = self.changes if place.late is None else self.late.setdefault(place.late, Changes())
        changes.add(parsed.changes)
        self.read[path] = place.position
        if place.moves:
            self.since.setdefault(path, place.since)

    @property
    def full(self) -> bool:
        return self.rows >= MAX_BATCH_ROWS or self.tally.lines >= MAX_BATCH_LINES

    def commit(self, engine: Engine, last: Position | None) -> int:
        """Store all rows and positions or none; return the number of new jobs.

        :param last: the position that was committed last, if any.
        :raises OvertakenError: if another process has read the same logs in the meantime, or that commit is lost.
        """
        if not self.tally.lines:
            return 0
        with engine.begin() as connection:
            lock(connection)
            if last is not None and last.path not in self.since:
                confirm_position(connection, last)
            move_positions(connection, ((since, self.read[path]) for path, since in self.since.items()))
            newest = last_id(connection)
            stored = add_prepared_jobs(connection, self.jobs)
            add_interrupted(connection, self.interrupted)
            self._change(connection)
            if stored:
                delete_completed(connection, newest)
            record_malformed(connection, self.malformed)
        return stored

    def _change(self, connection: Connection) -> None:
        for over, changes in self.late.items():
            then = changes.outcome(self.server)
            delete_current(connection, then.removed, over)
            set_current(connection, then.current, late=True)
        now = self.changes.outcome(self.server)
        delete_current(connection, now.removed)
        set_current(connection, now.current)
        requeue_current(connection, now.requeued)
        alter_current(connection, now.altered)
        for record, error in now.malformed:
            # The parser has counted the record under its type.
            self.tally.other[record.kind[1:2].decode()] -= 1
            malformed = Malformed.of(error, record.path, record.offset, record.number, record.line)
            self.tally.keep(malformed)
            self.malformed.append(malformed_line(self.read[record.path].server, malformed))


def _store(
    parsed: Iterable[ParsedBlock], engine: Engine, server: str, tally: Tally, progress: Callable[[int], None],
    known: KnownPositions,
) -> None:  # fmt: skip
    def finish(committing: tuple[_Transaction, Future[int]] | None) -> None:
        if committing is not None:
            transaction, commit = committing
            transaction.tally.stored = commit.result()
            tally.add(transaction.tally)
            if known.again:
                known.read |= transaction.read
            for path in transaction.since:
                known.moved(transaction.read[path])

    transaction = _Transaction(server)
    committing: tuple[_Transaction, Future[int]] | None = None
    for block in parsed:
        progress(block.place.consumed)
        transaction.add(block)
        if transaction.full:
            finish(committing)
            committing = transaction, _begin(transaction, engine, known.last)
            transaction = _Transaction(server)
    finish(committing)
    finish((transaction, _begin(transaction, engine, known.last)))


def _begin(transaction: _Transaction, engine: Engine, last: Position | None) -> Future[int]:
    """Commit a transaction in a thread while the next one is filled.

    No thread pool: Python waits for its threads at exit, and PostgreSQL may hang forever.
    """
    result: Future[int] = Future()

    def run() -> None:
        try:
            result.set_result(transaction.commit(engine, last))
        except BaseException as error:
            result.set_exception(error)

    Thread(target=run, name="commit", daemon=True).start()
    return result


def ingest_logs(
    engine: Engine,
    files: Sequence[Path],
    tally: Tally,
    server: str = "",
    progress: Callable[[int], None] = lambda _: None,
    *,
    again: bool = False,
    known: KnownPositions | None = None,
) -> tuple[int, int]:
    """Store the new records of these logs; return the number of jobs stored and of jobs already known.

    Rows and positions are committed together, so a run that was killed continues from its last commit.  One batch is
    parsed while PostgreSQL stores the one before.  A file that cannot be read is counted in the tally and skipped.  The
    last line of a log is read once it ends with a line break.

    :param tally: counts what is committed.
    :param server: the PBS server's name; empty for the host part of the job ids.
    :param progress: called with the number of further bytes of the files that were processed.
    :param again: read the logs from their start, for example after a malformed line was corrected.
    :param known: positions of an earlier call, to reuse.
    :raises OvertakenError: if the store lacks commits that were made; the logs must be read again, the oldest first.
    :raises StoreError: if the store fails; earlier commits stay.
    """
    known = known or KnownPositions(engine, again=again)
    jobs, stored = tally.jobs, tally.stored
    while True:
        of_files = Tally()
        with closing(new_blocks(known, files, of_files, server, progress)) as blocks:
            try:
                with closing(parsed_blocks(blocks)) as parsed:
                    _store(parsed, engine, server, tally, progress, known)
            except OvertakenError:
                known.query_again(engine)
                if known.lost:
                    raise
                time.sleep(OVERTAKEN_PAUSE_S)
                continue
        tally.add(of_files)
        stored = tally.stored - stored
        return stored, tally.jobs - jobs - stored
