"""Blocks of accounting logs made ready for the store, in processes of their own where there is much to read.

Parsing takes more time than all the rest of ingesting, and Python does one thing at a time in one process.
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

LEAST = 8 << 20
"""Bytes of logs below which starting processes takes longer than it saves."""


@dataclass(frozen=True, slots=True)
class ParseTask:
    """A block to parse, of a log of some server.

    ``consumed`` are the bytes of the file on disk that were read up to its end.
    """

    block: Block
    named: bool
    """Whether jobs are of this server whatever their ids say."""
    position: Position
    """What reading it brings the log to."""
    since: Position | None
    """The log's position in the store until then."""
    moves: bool
    """Whether the position is to be moved; not where it stands further on."""
    known: bool
    """Whether it was read before, and tells nothing of what waits or runs now."""
    late: int | None
    """If what followed it was read before, it tells little of that, and nothing of jobs that were submitted at this
    time (epoch seconds) or later."""
    consumed: int


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a block held, ready for the store."""

    jobs: PreparedJobs
    malformed: list[MalformedLine]
    interrupted: list[CompletedJob]
    changes: Changes
    tally: Tally
    position: Position
    since: Position | None
    moves: bool
    late: int | None
    consumed: int


def parse(task: ParseTask) -> Parsed:
    """Parse one block."""
    tally = Tally()
    server, path = task.position.server, task.position.path
    batch = pbs_batch(task.block, path, tally, server if task.named else "")
    return Parsed(
        prepare_jobs(batch.jobs),
        [malformed_line(server, malformed) for malformed in batch.malformed],
        batch.interrupted,
        Changes() if task.known else batch.changes,
        tally,
        task.position,
        task.since,
        task.moves,
        task.late,
        task.consumed,
    )


def malformed_line(server: str, malformed: Malformed) -> MalformedLine:
    """A line that cannot be read, as the store keeps it."""
    error = malformed.error
    return MalformedLine(
        server, malformed.path, malformed.line, malformed.offset, error.reason, error.field, malformed.content
    )


@contextmanager
def parser() -> Iterator[Callable[[Iterable[ParseTask]], Iterator[Parsed]]]:
    """A function that parses tasks and gives the results in the same order.

    Processes are started once so much was parsed that they are worth their start.
    """
    with ExitStack() as stack:
        yield partial(_in_order, stack, len(os.sched_getaffinity(0)))


def _in_order(stack: ExitStack, processes: int, tasks: Iterable[ParseTask]) -> Iterator[Parsed]:
    """Keep about two blocks for each process under way, and no more: what was read must not pile up in memory."""
    pool: ProcessPoolExecutor | None = None
    ready = Event()
    waiting: deque[tuple[int, Future[Parsed]]] = deque()
    parsed = under_way = 0
    for task in tasks:
        size = len(task.block.content)
        if pool is None and parsed >= LEAST and processes > 1:
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
    # If it cannot be started, whoever gives it something to do is told why; it may be closed again already.
    with suppress(Exception):
        pool.submit(os.getpid).result()
    ready.set()


def _pool(processes: int) -> ProcessPoolExecutor:
    # A server that forks its children before any thread is started; what they need is imported once.
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return ProcessPoolExecutor(processes, context, initializer=_begin)


def _begin() -> None:
    """Let this process end when the one that started it is killed: it would wait for tasks for ever."""
    # What it makes are tens of thousands of plain values at once, and no cycles: looking for some takes 6% of its time.
    gc.set_threshold(1_000_000)

    def wait() -> None:
        parent = parent_process()
        if parent is not None:
            parent.join()
        os._exit(1)

    Thread(target=wait, daemon=True).start()
