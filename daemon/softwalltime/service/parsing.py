"""Parse blocks of accounting logs for the store, in several processes if the logs are long.

Parsing takes more time than the rest of ingesting, and Python runs one thread at a time.
"""

import gc
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context, parent_process
from threading import Event, Thread

from softwalltime.accounting.changes import Changes
from softwalltime.accounting.files import BLOCK, Block
from softwalltime.accounting.reader import pbs_batch
from softwalltime.accounting.tally import Malformed, Tally
from softwalltime.jobs import CompletedJob
from softwalltime.store.jobs import PreparedJobs, prepare_jobs
from softwalltime.store.logs import MalformedLine, Position

MIN_PARALLEL_BYTES = 8 << 20
"""Bytes of logs that must be parsed before further processes are started: starting them costs time too."""


@dataclass(frozen=True, slots=True)
class BlockPlace:
    """Where a block is in a log of some server, and what was read before.

    ``consumed`` are the bytes of the file on disk that were read up to its end.
    """

    named: bool
    """Whether the server's name was given, and is not taken from the job ids."""
    position: Position
    """Position of the log after this block."""
    since: Position | None
    """Stored position of the log before this block."""
    moves: bool
    """Whether to move the stored position; false if it is beyond this block."""
    known: bool
    """Whether this block was read before; then it does not change the jobs that wait and run now."""
    late: int | None
    """Epoch seconds if later records were read before, else ``None``: the block then says nothing about jobs that were
    submitted at this time or later."""
    consumed: int


@dataclass(frozen=True, slots=True)
class ParseTask:
    """A block to parse."""

    block: Block
    place: BlockPlace


@dataclass(frozen=True, slots=True)
class ParsedBlock:
    """Content of a block, prepared for the store."""

    jobs: PreparedJobs
    malformed: list[MalformedLine]
    interrupted: list[CompletedJob]
    changes: Changes
    tally: Tally
    place: BlockPlace


def parse(task: ParseTask) -> ParsedBlock:
    tally, place = Tally(), task.place
    server = place.position.server
    batch = pbs_batch(task.block, place.position.path, tally, server if place.named else "")
    malformed = [malformed_line(server, line) for line in batch.malformed]
    changes = Changes() if place.known else batch.changes
    return ParsedBlock(prepare_jobs(batch.jobs), malformed, batch.interrupted, changes, tally, place)


def malformed_line(server: str, malformed: Malformed) -> MalformedLine:
    """Convert a malformed line to its row in the store."""
    error = malformed.error
    return MalformedLine(
        server, malformed.path, malformed.line, malformed.offset, error.reason, error.field, malformed.content
    )


@contextmanager
def parser() -> Iterator[Callable[[Iterable[ParseTask]], Iterator[ParsedBlock]]]:
    """Yield a function that parses tasks and yields the results in the same order.

    Starts processes after :data:`MIN_PARALLEL_BYTES` bytes.
    """
    with ExitStack() as stack:
        yield partial(_in_order, stack, len(os.sched_getaffinity(0)))


def _in_order(stack: ExitStack, processes: int, tasks: Iterable[ParseTask]) -> Iterator[ParsedBlock]:
    """Keep about two blocks per process in progress, so that memory stays bounded."""
    pool: ProcessPoolExecutor | None = None
    ready = Event()
    waiting: deque[tuple[int, Future[ParsedBlock]]] = deque()
    parsed = under_way = 0
    for task in tasks:
        size = len(task.block.content)
        if pool is None and parsed >= MIN_PARALLEL_BYTES and processes > 1:
            pool = stack.enter_context(_pool(processes))
            Thread(target=_start, args=[pool, ready], daemon=True).start()
        if pool is None or not ready.is_set():
            parsed += size
            yield parse(task)
            continue
        waiting.append((size, pool.submit(parse, task)))
        under_way += size
        del task
        while len(waiting) > 1 and under_way > 2 * processes * BLOCK:
            size, result = waiting.popleft()
            under_way -= size
            yield result.result()
    while waiting:
        yield waiting.popleft()[1].result()


def _start(pool: ProcessPoolExecutor, ready: Event) -> None:
    """Start the pool, which takes as long as parsing many blocks."""
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
    """End this process when its parent is killed; without this it waits for tasks for ever."""
    # Parsing creates many plain values and no cycles; garbage collection takes 6% of the time.
    gc.set_threshold(1_000_000)

    def wait() -> None:
        parent = parent_process()
        if parent is not None:
            parent.join()
        os._exit(1)

    Thread(target=wait, daemon=True).start()
