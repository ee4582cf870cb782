"""Completed jobs out of accounting logs and traces, a block of lines at a time, with a count of all that was met."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from softwalltime.accounting import pbs, swf
from softwalltime.accounting.files import Block, Opened, Unfinished, blocks, is_trace, opened
from softwalltime.errors import RecordError, SourceError
from softwalltime.jobs import CompletedJob

KEPT = 1000
"""How many malformed lines a tally keeps with their reasons; more are only counted."""


@dataclass(frozen=True, slots=True)
class Malformed:
    """A line that could not be read, where it stands (``offset`` in bytes, ``line`` from 1) and why."""

    path: str
    offset: int
    line: int
    error: RecordError
    content: bytes

    def __str__(self) -> str:
        return str(self.error)


@dataclass(slots=True)
class Tally:
    """What was met while reading: how many lines of which kind, and those that could not be read."""

    files: int = 0
    lines: int = 0
    jobs: int = 0
    array_parents: int = 0
    blank: int = 0
    unfinished: int = 0
    malformed: int = 0
    other: Counter[str] = field(default_factory=Counter)
    """Records that tell of no completed job, by type."""
    kept: list[Malformed] = field(default_factory=list)
    broken: list[SourceError] = field(default_factory=list)
    """Files that could not be read, or not to their end."""

    @property
    def others(self) -> int:
        """Records that tell of no completed job."""
        return sum(self.other.values())

    def add(self, other: "Tally") -> None:
        """Add what was counted elsewhere."""
        for count in ("files", "lines", "jobs", "array_parents", "blank", "unfinished", "malformed"):
            setattr(self, count, getattr(self, count) + getattr(other, count))
        self.other += other.other
        self.kept += other.kept[: KEPT - len(self.kept)]
        self.broken += other.broken

    def keep(self, malformed: Malformed) -> None:
        """Count a malformed line and keep it while there is room."""
        self.malformed += 1
        if len(self.kept) < KEPT:
            self.kept.append(malformed)


@dataclass(frozen=True, slots=True)
class Batch:
    """What one block of lines held, in file order."""

    jobs: list[CompletedJob]
    malformed: list[Malformed]


def pbs_batch(block: Block, path: str, tally: Tally, server: str = "") -> Batch:
    """Read a block of an accounting log."""
    jobs: list[CompletedJob] = []
    malformed: list[Malformed] = []
    other: dict[bytes, int] = {}
    number, offset = block.line, block.offset
    lines = block.lines
    for line in lines:
        # The stamp has 19 characters, so the type stands at a fixed place: most lines need no closer look.
        kind = line[19:22]
        if kind == b";E;" or kind[:1] != b";" or kind[2:] != b";":
            try:
                job = _pbs_job(line, tally, server)
                if job is not None:
                    jobs.append(job)
            except RecordError as error:
                error.file, error.line = path, number
                malformed.append(Malformed(path, offset, number, error, line))
        else:
            other[kind] = other.get(kind, 0) + 1
        offset += len(line) + 1
        number += 1
    for kind, count in other.items():
        tally.other[pbs.decoded(kind[1:2])] += count
    return _counted(Batch(jobs, malformed), len(lines), tally)


def _pbs_job(line: bytes, tally: Tally, server: str) -> CompletedJob | None:
    if not line.strip():
        tally.blank += 1
        return None
    kind, job_id, message = pbs.split(line)
    if kind != "E":
        tally.other[kind] += 1
        return None
    if pbs.is_array_parent(job_id):
        tally.array_parents += 1
        return None
    return pbs.completed_job(job_id, message, server)


def swf_batch(block: Block, path: str, tally: Tally, header: swf.Header, server: str = "") -> Batch:
    """Read a block of an SWF trace; header lines are taken in on the way."""
    jobs: list[CompletedJob] = []
    malformed: list[Malformed] = []
    offset = block.offset
    lines = block.lines
    for number, line in enumerate(lines, block.line):
        if line[:1] == b";":
            header.read(line)
            tally.other["header"] += 1
        elif not line.strip():
            tally.blank += 1
        else:
            try:
                jobs.append(swf.completed_job(line, header, server))
            except RecordError as error:
                error.file, error.line = path, number
                malformed.append(Malformed(path, offset, number, error, line))
        offset += len(line) + 1
    return _counted(Batch(jobs, malformed), len(lines), tally)


def _counted(batch: Batch, lines: int, tally: Tally) -> Batch:
    tally.lines += lines
    tally.jobs += len(batch.jobs)
    for malformed in batch.malformed:
        tally.keep(malformed)
    return batch


def read_jobs(
    paths: Iterable[Path], tally: Tally, progress: Callable[[int], None] = lambda _: None, server: str = ""
) -> Iterator[CompletedJob]:
    """The completed jobs of accounting logs and traces, file by file, in the order in which they stand there.

    A file that cannot be read, or not to its end, is noted in the tally, and the next one goes on.  The last line of
    a trace counts also without a line end.  ``progress`` is told how many more bytes of the files on disk were read.
    """
    for path in paths:
        try:
            trace = is_trace(path)
            with opened(path) as file:
                tally.files += 1
                yield from _read_file(file, str(path), trace, tally, progress, server)
        except SourceError as error:
            tally.broken.append(error)


def _read_file(
    file: Opened, path: str, trace: bool, tally: Tally, progress: Callable[[int], None], server: str
) -> Iterator[CompletedJob]:
    unfinished = Unfinished()
    header = swf.Header()
    position, number, told = 0, 1, 0
    for block in blocks(file.contents, unfinished=unfinished):
        if trace:
            yield from swf_batch(block, path, tally, header, server).jobs
        else:
            yield from pbs_batch(block, path, tally, server).jobs
        consumed = file.consumed()
        progress(consumed - told)
        told = consumed
        position, number = block.end, block.last_line + 1
    if rest := unfinished.content:
        if trace:
            yield from swf_batch(Block(rest, position, number, position + len(rest)), path, tally, header, server).jobs
        else:
            tally.unfinished += 1
