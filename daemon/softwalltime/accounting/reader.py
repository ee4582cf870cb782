"""Completed jobs out of accounting logs and traces, a block of lines at a time, with a count of all that was met."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Self

from softwalltime.accounting import pbs, swf
from softwalltime.accounting.changes import ALTERED, COMES, GOES, Changes, Record
from softwalltime.accounting.files import LONGEST_LINE, Block, Opened, Unfinished, blocks, is_trace, opened
from softwalltime.errors import RecordError, SourceError
from softwalltime.jobs import OF_SUBMISSION, CompletedJob, Values, job_of, values_of

KEPT = 1000
"""How many malformed lines a tally keeps with their reasons; more are only counted."""
LINE_KEPT = 4096
"""Bytes kept of a malformed line: a file of many gigabytes may be a single one."""
DISAGREEMENT = 60
"""Seconds by which resources_used.walltime may differ from end - start before it is counted: PBS looks now and then."""
_ENDED = b";E;"
_RUNS = frozenset({_ENDED, b";R;"})
_TELLING = COMES | GOES | {ALTERED, _ENDED}
_START = OF_SUBMISSION + 1


@dataclass(frozen=True, slots=True)
class Malformed:
    """A line that could not be read, where it stands (``offset`` in bytes, ``line`` from 1) and why.

    ``content`` is its first ``LINE_KEPT`` bytes.
    """

    path: str
    offset: int
    line: int
    error: RecordError
    content: bytes

    @classmethod
    def of(cls, error: RecordError, path: str, offset: int, line: int, content: bytes) -> Self:
        """The line at this place, which gave this error."""
        error.file, error.line, error.value = path, line, error.value[:LINE_KEPT]
        # These would keep all that was read with it.
        error.__traceback__ = error.__context__ = None
        return cls(path, offset, line, error, content[:LINE_KEPT])

    def __str__(self) -> str:
        return str(self.error)


@dataclass(slots=True)
class Tally:
    """What was met while reading: how many lines of which kind, and those that could not be read."""

    files: int = 0
    lines: int = 0
    jobs: int = 0
    stored: int = 0
    """Jobs that were new to the store, where they are stored."""
    array_parents: int = 0
    interrupted: int = 0
    """Runs that were stopped for the job to be run again."""
    disagreeing: int = 0
    """Jobs whose resources_used.walltime is not what lies between their start and end, as after a suspension."""
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
        for count in _COUNTS:
            setattr(self, count, getattr(self, count) + getattr(other, count))
        self.other += other.other
        self.kept += other.kept[: KEPT - len(self.kept)]
        self.broken += other.broken

    def keep(self, malformed: Malformed) -> None:
        """Count a malformed line and keep it while there is room."""
        self.malformed += 1
        if len(self.kept) < KEPT:
            self.kept.append(malformed)


_COUNTS = (
    "files", "lines", "jobs", "stored", "array_parents", "interrupted", "disagreeing", "blank", "unfinished",
    "malformed",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Batch:
    """What one block of lines held, in file order; of completed jobs only their values.

    ``interrupted`` are the runs that were stopped for the job to be run again, ``changes`` the jobs that came and went.
    """

    jobs: list[Values]
    malformed: list[Malformed]
    interrupted: list[CompletedJob] = field(default_factory=list)
    changes: Changes = field(default_factory=Changes)


def pbs_batch(block: Block, path: str, tally: Tally, server: str = "") -> Batch:
    """Read a block of an accounting log."""
    batch = Batch([], [])
    if block.piece:
        return _piece(block, path, batch, tally)
    lines = block.lines
    # The stamp has 19 characters, so the type stands at a fixed place: most lines need no closer look.
    kinds = [line[19:22] for line in lines]
    counts = Counter(kinds)
    places = _Places(block, path, lines)
    completed: dict[bytes, int] = {}
    telling: list[tuple[bytes, int]] = []
    for index, kind in enumerate(kinds):
        if kind not in _TELLING and kind[:1] == b";" and kind[2:] == b";":
            continue
        line = lines[index]
        id_end = line.find(b";", 22) if kind in _TELLING else -1
        if id_end < 0:
            counts[kind] -= 1
        if id_end < 0 or kind in _RUNS:
            try:
                job = _pbs_job(kind if id_end >= 0 else b"", line, tally, server)
            except RecordError as error:
                batch.malformed.append(places.malformed(error, index))
                job = None
            if job is not None and kind == _ENDED:
                batch.jobs.append(job)
                completed[line[22:id_end]] = index
                continue
            if job is not None:
                batch.interrupted.append(job_of(job))
        if id_end >= 0:
            telling.append((line[22:id_end], index))
    _change(batch.changes, telling, completed, kinds, places)
    for kind, count in counts.items():
        if count and kind not in _RUNS:
            tally.other[pbs.decoded(kind[1:2])] += count
    tally.disagreeing += sum(map(_disagrees, batch.jobs))
    tally.interrupted += len(batch.interrupted)
    return _counted(batch, len(lines), tally)


def _change(
    changes: Changes,
    telling: Iterable[tuple[bytes, int]],
    completed: Mapping[bytes, int],
    kinds: Sequence[bytes],
    places: "_Places",
) -> None:
    """Take in the records that tell of jobs (id and index of the line), but those that are followed by the job's end,
    which nearly all are.
    """
    changes.complete(completed.keys())
    for job_id, index in telling:
        if completed.get(job_id, -1) > index:
            continue
        kind = kinds[index]
        if kind in COMES or kind == ALTERED:
            changes.note(job_id, places.record(kind, index))
        else:
            changes.gone(job_id)


class _Places:
    """Where the lines of a block stand."""

    def __init__(self, block: Block, path: str, lines: Sequence[bytes]) -> None:
        self._block = block
        self._path = path
        self._lines = lines

    @cached_property
    def _offsets(self) -> list[int]:
        # Only a few are ever asked for, but then many lines lie before them.
        return list(accumulate((len(line) + 1 for line in self._lines), initial=self._block.offset))

    def record(self, kind: bytes, index: int) -> Record:
        """The line with this index as a record of this type."""
        return Record(kind, self._path, self._block.line + index, self._offsets[index], self._lines[index])

    def malformed(self, error: RecordError, index: int) -> Malformed:
        """The line with this index, which gave this error."""
        return Malformed.of(error, self._path, self._offsets[index], self._block.line + index, self._lines[index])


def _piece(block: Block, path: str, batch: Batch, tally: Tally) -> Batch:
    if block.content:
        error = RecordError(f"a line longer than {LONGEST_LINE:,} bytes")
        batch.malformed.append(Malformed.of(error, path, block.offset, block.line, block.content))
    return _counted(batch, bool(block.content), tally)


def _disagrees(job: Values) -> bool:
    start, end, runtime = job[_START : _START + 3]
    return start is not None and abs(end - start - runtime) > DISAGREEMENT


def _pbs_job(kind: bytes, line: bytes, tally: Tally, server: str) -> Values | None:
    """The job of an E or R record (``kind``, between semicolons); of any other line what is wrong with it."""
    if not line.strip():
        tally.blank += 1
        return None
    if kind not in _RUNS:
        # However long it is.
        pbs.split(line[:LINE_KEPT])
        # It has all the parts of a record, but bytes in its stamp that are no characters.
        raise RecordError("not of the form MM/DD/YYYY HH:MM:SS", field="time stamp", value=pbs.decoded(line[:19]))
    letter, job_id, message = pbs.split(line)
    if pbs.is_array_parent(job_id):
        tally.array_parents += 1
        return None
    try:
        return pbs.completed_values(job_id, message, server)
    except RecordError as error:
        # TORQUE's R, and that of a job whose host is gone, tell nothing of the run that was in vain.
        if letter == "R" and error.reason == pbs.MISSING:
            tally.other[letter] += 1
            return None
        raise


def swf_batch(block: Block, path: str, tally: Tally, header: swf.Header, server: str = "") -> Batch:
    """Read a block of an SWF trace; header lines are taken in on the way."""
    jobs: list[Values] = []
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
                jobs.append(values_of(swf.completed_job(line, header, server)))
            except RecordError as error:
                malformed.append(Malformed.of(error, path, offset, number, line))
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
            yield from map(job_of, swf_batch(block, path, tally, header, server).jobs)
        else:
            yield from map(job_of, pbs_batch(block, path, tally, server).jobs)
        consumed = file.consumed()
        progress(consumed - told)
        told = consumed
        position, number = block.end, block.last_line + 1
    if rest := unfinished.content:
        if trace:
            last = Block(rest, position, number, position + len(rest))
            yield from map(job_of, swf_batch(last, path, tally, header, server).jobs)
        else:
            tally.unfinished += 1
