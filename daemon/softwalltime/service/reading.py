"""Read new parts of accounting logs in blocks.

A log is identified by its first bytes, and reading continues at its stored position.  A log that arrives late, again or
as a partial copy is read too, and its missing jobs are stored.  Only the newest records show which jobs wait and run
now, so each block has a flag whether later records were read before.
"""

import gc
import os
import re
import time
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Event, Thread

from sqlalchemy import Engine

from softwalltime.accounting.cut import whole_records
from softwalltime.accounting.daily_files import BLOCK_BYTES, Block, PartialLine, log_day
from softwalltime.accounting.log_file import OpenFile, opened
from softwalltime.accounting.queue_changes import Changes
from softwalltime.accounting.reader import pbs_batch
from softwalltime.accounting.recognition import trace_format
from softwalltime.accounting.tally import Malformed, Tally
from softwalltime.core.errors import SourceError
from softwalltime.core.jobs import CompletedJob
from softwalltime.store.completed_jobs import PreparedJobs, prepare_jobs
from softwalltime.store.encoding import storable_text
from softwalltime.store.logs import (
    HEAD_BYTES,
    TAIL_BYTES,
    LogDigest,
    MalformedLine,
    OvertakenError,
    Position,
    confirm_position,
    read_positions,
)

_MAX_HOST_CHARS = 255
_SERVER = re.compile(rb"^[^;\n]{19};.;\d+(?:\[\d*\])?\.([^;\s]{1,%d});" % _MAX_HOST_CHARS, re.MULTILINE)

MIN_PARALLEL_BYTES = 8 << 20
"""Minimum bytes to parse before parallel processes are started."""


@dataclass(frozen=True, slots=True)
class BlockPlace:
    """Position of a block in a server's log, and what was read before it.

    ``consumed``: bytes of the file on disk since the last block.
    """

    named: bool
    """Whether the server's name was given by the caller, and not taken from the job ids."""
    position: Position
    """Position of the log after this block."""
    since: Position | None
    """Stored position of the log before this block."""
    moves: bool
    """Whether to advance the stored position; false if it is beyond this block."""
    known: bool
    """Whether this block was read before; then it does not update the current jobs."""
    late: int | None
    """Epoch seconds if later records were read before, else ``None``: the block then does not update current jobs that
    were submitted at this time or later."""
    consumed: int


@dataclass(frozen=True, slots=True)
class ParsedBlock:
    jobs: PreparedJobs
    malformed: list[MalformedLine]
    interrupted: list[CompletedJob]
    changes: Changes
    tally: Tally
    place: BlockPlace


@dataclass(frozen=True, slots=True)
class ReadStart:
    """Position at which to start reading a log, and its stored positions."""

    position: Position | None
    """End of the part that was read, under any name; ``None``: nothing was read, or the file is shorter now."""
    stored: Position | None
    """Position stored under this name, for this log or another one."""
    furthest: int
    """Bytes of the log that were read before, under any name."""
    late: bool
    """Whether a log of a later day was read before."""
    over: int
    """End of the log's day in every time zone, epoch seconds; 0 if the name is not a date."""


@dataclass(eq=False)
class KnownPositions:
    """Positions of the logs that were read before, queried once for each server.

    If another process reads the same logs, advancing a position fails.
    """

    engine: Engine
    again: bool = False
    """Whether to read logs from their start, once, even if the read is retried."""
    read: dict[str, Position] = field(default_factory=dict)
    """Positions that the current read has reached."""
    servers: "dict[str, _Positions]" = field(default_factory=dict)
    last: Position | None = None
    """The position that was committed last; before the first commit, that of the newest log."""
    lost: bool = False
    """Whether commits are lost: the stored position of a log is before the one that was committed."""

    def start_of(self, path: Path, server: str, first: bytes, size: int | None) -> ReadStart:
        """Return where to start reading this log.

        A gzipped, moved or copied log is the same log.  A log that is shorter than its position, or that has other
        first bytes, is read from its start.

        :param first: the log's first bytes; ``size`` is its size, if known.
        """
        name = storable_text(str(path))
        positions = self._positions(server)
        stored = positions.by_path.get(name)
        # The server of a log without jobs is unknown.
        own = stored if stored or not server else self._positions("").by_path.get(name)
        same = positions.like(first)
        furthest = max((candidate.offset for candidate in same), default=0)
        if own is not None and own.head.length and own.head.matches(first):
            furthest = max(furthest, own.offset)
            same = [own]
        position = max(
            (candidate for candidate in same if size is None or candidate.offset <= size),
            key=lambda each: each.offset,
            default=None,
        )
        day = _day(name)
        late = day < positions.newest if day else False
        positions.newest = max(positions.newest, day)
        return ReadStart(position, stored, furthest, late, _over(day))

    def moved(self, position: Position) -> None:
        self._positions(position.server).put(position)
        self.last = position

    def confirm(self) -> None:
        """Query the stored positions again if the last one committed is no longer there."""
        if self.last is None:
            return
        try:
            with self.engine.connect() as connection:
                confirm_position(connection, self.last)
        except OvertakenError:
            self.query_again(self.engine)

    def query_again(self, engine: Engine) -> None:
        """Query the stored positions again, because one is not where it was left, or through another engine."""
        fresh = KnownPositions(engine)
        for server, positions in self.servers.items():
            stored = fresh._positions(server).by_path
            before = positions.by_path.items()
            self.lost |= any(path not in stored or stored[path].offset < each.offset for path, each in before)
        self.engine, self.servers, self.last = engine, fresh.servers, fresh.last

    def _positions(self, server: str) -> "_Positions":
        if server not in self.servers:
            with self.engine.connect() as connection:
                stored = read_positions(connection, server)
            self.servers[server] = _Positions(stored)
            self.last = self.last or max(stored, key=lambda each: _day(each.path), default=None)
        return self.servers[server]


class _Positions:
    """Positions in one server's logs, and the day of the newest log that was read.

    Heads are indexed by digest: the time that one log takes does not depend on the number of logs.
    """

    def __init__(self, positions: Sequence[Position]) -> None:
        self.by_path: dict[str, Position] = {}
        self.newest = ""
        self._by_digest: defaultdict[bytes, dict[str, Position]] = defaultdict(dict)
        self._lengths: set[int] = set()
        for position in positions:
            self.put(position)

    def put(self, position: Position) -> None:
        path = storable_text(position.path)
        if (before := self.by_path.get(path)) is not None:
            del self._by_digest[before.head.digest][path]
        self.by_path[path] = self._by_digest[position.head.digest][path] = position
        self.newest = max(self.newest, _day(path))
        self._lengths.add(position.head.length)

    def like(self, first: bytes) -> list[Position]:
        """Return the positions in logs that begin with these bytes, at any of the lengths that heads have."""
        positions: list[Position] = []
        hashed, begin = sha256(), 0
        for length in sorted(self._lengths):
            if not 0 < length <= len(first):
                continue
            # One pass over the bytes however many lengths there are: each digest continues the one before.
            hashed.update(first[begin:length])
            begin = length
            positions += self._by_digest.get(hashed.copy().digest(), {}).values()
        return positions


def new_blocks(
    known: KnownPositions, files: Sequence[Path], tally: Tally, server: str, progress: Callable[[int], None]
) -> Generator[tuple[Block, BlockPlace]]:
    """Yield the new blocks of the logs.

    :param tally: counts the files, and those that cannot be read.
    :param server: the PBS server's name; empty for the host part of the job ids.
    """
    for path in files:
        try:
            yield from _of_log(known, path, tally, server, progress)
        except SourceError as error:
            error.path, error.__traceback__ = path, None
            tally.broken.append(error)


def _of_log(
    known: KnownPositions, path: Path, tally: Tally, server: str, progress: Callable[[int], None]
) -> Iterator[tuple[Block, BlockPlace]]:
    with opened(path) as file:
        if trace_format(file):
            raise SourceError(f"{path}: a trace, not an accounting log; write it as logs first: softwalltime convert")
        tally.files += 1
        first = file.contents.read(HEAD_BYTES)
        name = server or _server(first)
        if not first:
            # An empty log has no first bytes to recognise it by: it is read at the next poll.
            return
        begin = known.start_of(path, name, first, _size(file) if file.plain else None)
        position = begin.position
        if position is not None and not known.again and file.ends_at(position.offset):
            progress(_size(file))
            return
        if position is not None:
            file.contents.seek(position.offset - position.tail.length)
            # The last bytes that were read differ if the log was truncated and continued.
            if not position.tail.matches(file.contents.read(position.tail.length)):
                position = None
        head = LogDigest.of(first)
        known_to = position.offset if position else 0
        start = known.read.get(str(path)) if known.again else position
        offset, line = (start.offset, start.line_number + 1) if start else (0, 1)
        since, consumed = begin.stored, 0
        unfinished = PartialLine()
        for block in whole_records(file.contents, offset, line, unfinished, live=file.live()):
            read_before = block.end <= begin.furthest
            moves = not (known.again and read_before)
            reached = Position(name, str(path), block.end, block.last_line, head, LogDigest.of(block.tail(TAIL_BYTES)))
            late = begin.over if begin.late or read_before else None
            before, consumed = consumed, file.consumed()
            yield block, BlockPlace(bool(server), reached, since, moves, block.end <= known_to, late, consumed - before)
            since = reached if moves else since
        progress(max(0, _size(file) - consumed))
        if unfinished.content:
            tally.unfinished.append(str(path))


def _size(file: OpenFile) -> int:
    """Return the size on disk of an open file."""
    return os.fstat(file.on_disk.fileno()).st_size


def _server(first: bytes) -> str:
    """Return the server of a log from the first job id in it; empty if there is none."""
    match = _SERVER.search(first)
    return match.group(1).decode("utf-8", "backslashreplace") if match else ""


def _day(path: str) -> str:
    """Return the day in a log's name, as YYYYMMDD; empty if there is none, or it is in the future (a wrong clock)."""
    day = log_day(path.rpartition("/")[2])
    # Local days of two hosts differ by one at most.
    return day if day <= time.strftime("%Y%m%d", time.localtime(time.time() + 86400)) else ""


def _over(day: str) -> int:
    """Return the end of this day in every time zone, epoch seconds; 0 if there is no such day."""
    try:
        return int((datetime.strptime(day, "%Y%m%d").replace(tzinfo=UTC) + timedelta(days=2)).timestamp())
    except (ValueError, OverflowError):
        return 0


def parse(block: Block, place: BlockPlace) -> ParsedBlock:
    tally, server = Tally(), place.position.server
    batch = pbs_batch(block, place.position.path, tally, server if place.named else "")
    malformed = [malformed_line(server, line) for line in batch.malformed]
    changes = Changes() if place.known else batch.changes
    return ParsedBlock(prepare_jobs(batch.jobs), malformed, batch.interrupted, changes, tally, place)


def malformed_line(server: str, malformed: Malformed) -> MalformedLine:
    """Convert a malformed line to its row in the store."""
    error = malformed.error
    return MalformedLine(
        server, malformed.path, malformed.line, malformed.offset, error.reason, error.field, malformed.content
    )


def parsed_blocks(blocks: Iterable[tuple[Block, BlockPlace]]) -> Generator[ParsedBlock]:
    """Parse blocks and yield the results in the same order.

    Starts processes after :data:`MIN_PARALLEL_BYTES` bytes: parsing takes more time than the rest of ingesting, and
    Python runs one thread at a time.  About two blocks per process are in progress, so that memory stays bounded.
    """
    processes = len(os.sched_getaffinity(0))
    pool: ProcessPoolExecutor | None = None
    ready = Event()
    waiting: deque[tuple[int, Future[ParsedBlock]]] = deque()
    parsed = under_way = 0
    with ExitStack() as stack:
        for block, place in blocks:
            size = len(block.content)
            if pool is None and parsed >= MIN_PARALLEL_BYTES and processes > 1:
                pool = stack.enter_context(_pool(processes))
                Thread(target=_start, args=[pool, ready], daemon=True).start()
            if pool is None or not ready.is_set():
                parsed += size
                yield parse(block, place)
                continue
            waiting.append((size, pool.submit(parse, block, place)))
            under_way += size
            del block
            while len(waiting) > 1 and under_way > 2 * processes * BLOCK_BYTES:
                size, result = waiting.popleft()
                under_way -= size
                yield result.result()
        while waiting:
            yield waiting.popleft()[1].result()


def _start(pool: ProcessPoolExecutor, ready: Event) -> None:
    """Start the pool in the background; this takes as long as parsing many blocks."""
    # If it cannot be started, submitting a task raises the error; it may be closed already.
    with suppress(Exception):
        pool.submit(os.getpid).result()
    ready.set()


def _pool(processes: int) -> ProcessPoolExecutor:
    # forkserver: children are forked from a process without threads, which has imported this module once.
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return ProcessPoolExecutor(processes, context, initializer=_begin)


def _begin() -> None:
    """End this process when its parent is killed; otherwise it waits for tasks forever."""
    # Parsing creates many plain values and no cycles; garbage collection takes 6% of the time.
    gc.set_threshold(1_000_000)

    def wait() -> None:
        parent = parent_process()
        if parent is not None:
            parent.join()
        os._exit(1)

    Thread(target=wait, daemon=True).start()
