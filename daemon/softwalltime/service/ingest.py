"""Accounting logs into the store: every completed job once, whatever was read before."""

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Engine

from softwalltime.accounting.files import Unfinished, blocks, is_trace, opened
from softwalltime.accounting.reader import Tally
from softwalltime.errors import SourceError
from softwalltime.service.parsing import Parsed, Task, parser
from softwalltime.store import (
    Head,
    MalformedLine,
    Position,
    PreparedJobs,
    add_prepared_jobs,
    read_positions,
    record_malformed,
    save_position,
)
from softwalltime.store.positions import HEAD_BYTES

BATCH = 10_000
"""Jobs or malformed lines in one transaction, about."""
_SERVER = re.compile(rb"^[^;\n]{19};.;\d+(?:\[\d*\])?\.([^;\s]+);", re.MULTILINE)


@dataclass(slots=True)
class _Transaction:
    """What is committed together: rows, and how far the logs were read to get them."""

    jobs: list[PreparedJobs] = field(default_factory=list)
    malformed: list[MalformedLine] = field(default_factory=list)
    positions: dict[str, Position] = field(default_factory=dict)

    def add(self, parsed: Parsed) -> None:
        """Add one block."""
        self.jobs.append(parsed.jobs)
        self.malformed += parsed.malformed
        self.positions[parsed.position.path] = parsed.position

    @property
    def full(self) -> bool:
        """Whether it is time to commit."""
        return sum(jobs.count for jobs in self.jobs) + len(self.malformed) >= BATCH

    def commit(self, engine: Engine) -> int:
        """Store all of it or nothing; returns how many jobs were new."""
        with engine.begin() as connection:
            stored = add_prepared_jobs(connection, self.jobs)
            if self.malformed:
                record_malformed(connection, self.malformed)
            for position in self.positions.values():
                save_position(connection, position)
        return stored


def ingest_logs(
    engine: Engine,
    files: Sequence[Path],
    tally: Tally,
    server: str = "",
    progress: Callable[[int], None] = lambda _: None,
    *,
    again: bool = False,
) -> tuple[int, int]:
    """Read what is new in these logs into the store; returns how many jobs were stored and how many already known.

    Rows and positions are committed together, so a run that was killed goes on where its last commit was.  While
    PostgreSQL takes in one batch the next is parsed.  A file that cannot be read is noted in the tally, and the next
    goes on; the last line of a log counts only once it has its line end.

    :param server: the PBS server's name; empty for the host part of the job ids.
    :param progress: told how many more bytes of the files on disk were dealt with.
    :param again: read the logs from their start, as after a malformed line in them was mended.
    :raises StoreError: if the store fails; all that was committed before stays.
    """
    stored, before = 0, tally.jobs
    size = sum(path.stat().st_size for path in files if path.exists())
    with parser(size) as parse, ThreadPoolExecutor(1, "ingest") as writer:
        pending: Future[int] | None = None
        transaction = _Transaction()
        for parsed in parse(_tasks(_Known(engine, again), files, tally, server, progress)):
            tally.add(parsed.tally)
            progress(parsed.consumed)
            transaction.add(parsed)
            if transaction.full:
                stored += pending.result() if pending else 0
                pending = writer.submit(transaction.commit, engine)
                transaction = _Transaction()
        stored += pending.result() if pending else 0
        stored += transaction.commit(engine)
    return stored, tally.jobs - before - stored


def _tasks(
    known: "_Known", files: Sequence[Path], tally: Tally, server: str, progress: Callable[[int], None]
) -> Iterator[Task]:
    """What is new in the logs, block by block."""
    for path in files:
        try:
            yield from _tasks_of_log(known, path, tally, server, progress)
        except SourceError as error:
            tally.broken.append(error)


def _tasks_of_log(
    known: "_Known", path: Path, tally: Tally, server: str, progress: Callable[[int], None]
) -> Iterator[Task]:
    if is_trace(path):
        raise SourceError(f"{path}: a trace, not an accounting log; write it as logs first: softwalltime convert")
    with opened(path) as file:
        tally.files += 1
        first = file.contents.read(HEAD_BYTES)
        name = server or _server(first)
        position = known.position(path, name, first, path.stat().st_size if file.plain else None)
        head = Head.of(first)
        offset, line = (position.offset, position.line_number + 1) if position else (0, 1)
        told = 0
        unfinished = Unfinished()
        for block in blocks(file.contents, offset, line, unfinished):
            reached = Position(name, str(path), block.end, block.last_line, head)
            consumed = file.consumed()
            yield Task(block, str(path), name, bool(server), reached, consumed - told)
            told = consumed
        progress(path.stat().st_size - told)
        tally.unfinished += bool(unfinished.content)


def _server(first: bytes) -> str:
    """The server whose log begins like this, by the first job id in it."""
    match = _SERVER.search(first)
    return match.group(1).decode("utf-8", "backslashreplace") if match else ""


class _Known:
    """How far logs were read before this run, asked of the store once for each server."""

    def __init__(self, engine: Engine, again: bool) -> None:
        self._engine = engine
        self._again = again
        self._of_server: dict[str, dict[str, Position]] = {}

    def position(self, path: Path, server: str, first: bytes, size: int | None) -> Position | None:
        """How far this log was read, also under another name: a gzipped, moved or copied log is the same log.

        A log that is shorter than what was read of it, or begins differently, is a new one.

        :param first: the log's first bytes; ``size`` is its size, where that is known.
        """
        if self._again:
            return None
        if server not in self._of_server:
            with self._engine.connect() as connection:
                found = read_positions(connection, server)
            self._of_server[server] = {position.path: position for position in found}
        positions = self._of_server[server]
        same = [positions[str(path)]] if str(path) in positions else positions.values()
        return max(
            (each for each in same if each.head.length and each.head.matches(first) and not _shorter(size, each)),
            key=lambda each: each.offset,
            default=None,
        )


def _shorter(size: int | None, position: Position) -> bool:
    return size is not None and size < position.offset
