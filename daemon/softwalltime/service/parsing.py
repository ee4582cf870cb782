"""Blocks of accounting logs made ready for the store, in processes of their own where there is much to read.

Parsing takes more time than all the rest of ingesting, and Python does one thing at a time in one process.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context

from softwalltime.accounting.files import Block
from softwalltime.accounting.reader import Tally, pbs_batch
from softwalltime.store import MalformedLine, Position, PreparedJobs, prepare_jobs

LEAST = 32 << 20
"""Bytes of logs below which starting processes takes longer than it saves."""


@dataclass(frozen=True, slots=True)
class Task:
    """A block to parse: of which file of which server, and the position that it brings the reader to."""

    block: Block
    path: str
    server: str
    named: bool
    """Whether jobs are of ``server`` whatever their ids say."""
    position: Position
    consumed: int
    """Bytes of the file on disk that reading the block took."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a block held, ready for the store."""

    jobs: PreparedJobs
    malformed: list[MalformedLine]
    tally: Tally
    position: Position
    consumed: int


def parse(task: Task) -> Parsed:
    """Parse one block."""
    tally = Tally()
    batch = pbs_batch(task.block, task.path, tally, task.server if task.named else "")
    malformed = [
        MalformedLine(task.server, line.path, line.line, line.offset, line.error.reason, line.error.field, line.content)
        for line in batch.malformed
    ]
    return Parsed(prepare_jobs(batch.jobs), malformed, tally, task.position, task.consumed)


@contextmanager
def parser(size: int) -> Iterator[Callable[[Iterable[Task]], Iterator[Parsed]]]:
    """A function that parses tasks and gives the results in the same order.

    :param size: bytes that there are to read in all, by which it is decided whether processes are worth their start.
    """
    processes = len(os.sched_getaffinity(0))
    if size < LEAST or processes < 2:
        yield lambda tasks: map(parse, tasks)
        return
    # A server that forks its children before any thread is started; what they need is imported once.
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with ProcessPoolExecutor(processes, context) as pool:
        yield lambda tasks: _in_order(pool, tasks, 2 * processes)


def _in_order(pool: ProcessPoolExecutor, tasks: Iterable[Task], ahead: int) -> Iterator[Parsed]:
    """Keep ``ahead`` tasks under way, and no more: what was read must not pile up in memory."""
    waiting: deque[Future[Parsed]] = deque()
    for task in tasks:
        waiting.append(pool.submit(parse, task))
        if len(waiting) > ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
