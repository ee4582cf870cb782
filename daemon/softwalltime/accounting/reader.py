"""Read completed jobs from accounting logs and traces in blocks, and count lines by kind."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path

from softwalltime.accounting import pbs_records
from softwalltime.accounting.cut import whole_records
from softwalltime.accounting.daily_files import BOM, MAX_LOG_LINE_BYTES, Block, PartialLine, blocks
from softwalltime.accounting.log_file import OpenFile, opened
from softwalltime.accounting.queue_changes import ALTERED, COMES, GOES, Changes, Record
from softwalltime.accounting.recognition import trace_format
from softwalltime.accounting.tally import MAX_LINE_BYTES, Malformed, Tally
from softwalltime.accounting.traces import TraceFormat, TraceReader
from softwalltime.core.errors import RecordError, SourceError
from softwalltime.core.jobs import OF_SUBMISSION, CompletedJob, Values, job_of

MAX_RUNTIME_DIFFERENCE_S = 60
"""Maximum seconds between resources_used.walltime and end - start: PBS measures it at intervals."""
_ENDED = b";E;"
_RUNS = frozenset({_ENDED, b";R;"})
_CHANGING = COMES | GOES | {ALTERED, _ENDED}
_START = OF_SUBMISSION + 1
_CUT = "a line break in a value cuts this record"
PART_OF_CUT = "part of a record that a line break in a value cut"


@dataclass(frozen=True, slots=True)
class Batch:
    """Contents of one block of a log, in file order; completed jobs as tuples of values.

    ``interrupted`` are the runs that ended with a requeue, ``changes`` the jobs that arrived and left.
    """

    jobs: list[Values]
    malformed: list[Malformed]
    interrupted: list[CompletedJob] = field(default_factory=list)
    changes: Changes = field(default_factory=Changes)


def pbs_batch(block: Block, path: str, tally: Tally, server: str = "", *, with_changes: bool = True) -> Batch:
    """Read a block of an accounting log.

    :param with_changes: whether to fill ``changes``, which takes a tenth of the time.
    """
    batch = Batch([], [])
    if block.piece:
        return _piece(block, path, batch, tally)
    lines = block.lines
    skipped = _skip_bom(block, lines)
    if block.cut:
        return _cut(lines, _LinePositions(block, path, lines, skipped), batch, tally)
    # The type follows the stamp of 19 characters, so most lines need no parsing.
    kinds = [line[19:22] for line in lines]
    counts = Counter(kinds)
    positions = _LinePositions(block, path, lines, skipped)
    completed: dict[bytes, int] = {}
    changing: list[tuple[bytes, int]] = []
    for index, kind in enumerate(kinds):
        if kind not in _CHANGING and kind[:1] == b";" and kind[2:] == b";":
            continue
        line = lines[index]
        id_end = line.find(b";", 22) if kind in _CHANGING else -1
        if id_end < 0:
            counts[kind] -= 1
            kind = b""
        if not kind or kind in _RUNS:
            try:
                job = _pbs_job(kind, line, tally, server)
            except RecordError as error:
                batch.malformed.append(positions.malformed(error, index))
                job = None
            if job is not None and kind == _ENDED:
                batch.jobs.append(job)
                completed[line[22:id_end]] = index
                continue
            if job is not None:
                batch.interrupted.append(job_of(job))
        if kind:
            changing.append((line[22:id_end], index))
    if with_changes:
        _change(batch.changes, changing, completed, kinds, positions)
    for kind, count in counts.items():
        if count and kind not in _RUNS:
            tally.other[pbs_records.decoded(kind[1:2])] += count
    times = (job[_START : _START + 3] for job in batch.jobs)
    tally.disagreeing += sum(
        start is not None and abs(end - start - runtime) > MAX_RUNTIME_DIFFERENCE_S for start, end, runtime in times
    )
    tally.interrupted += len(batch.interrupted)
    return _counted(batch, len(lines), tally)


def _change(
    changes: Changes,
    changing: Iterable[tuple[bytes, int]],
    completed: Mapping[bytes, int],
    kinds: Sequence[bytes],
    positions: "_LinePositions",
) -> None:
    """Add the records (job id and index of the line) that change jobs.

    Skips the many records that precede the job's E record in the same block.
    """
    changes.complete(completed.keys())
    for job_id, index in changing:
        if completed.get(job_id, -1) <= index:
            changes.note(job_id, positions.record(kinds[index], index))


@dataclass(frozen=True)
class _LinePositions:
    _block: Block
    _path: str
    _lines: Sequence[bytes]
    _skipped: int

    @cached_property
    def _offsets(self) -> list[int]:
        # Computed at first use: few blocks need offsets.
        return list(accumulate((len(line) + 1 for line in self._lines), initial=self._block.offset + self._skipped))

    def record(self, kind: bytes, index: int) -> Record:
        return Record(kind, self._path, self._block.line + index, self._offsets[index], self._lines[index])

    def malformed(self, error: RecordError, index: int) -> Malformed:
        return Malformed.of(error, self._path, self._offsets[index], self._block.line + index, self._lines[index])


def _skip_bom(block: Block, lines: list[bytes]) -> int:
    """Remove the byte order mark from the first line of a file; return its length, 0 if there is none."""
    if block.offset or not lines[0].startswith(BOM):
        return 0
    lines[0] = lines[0].removeprefix(BOM)
    return len(BOM)


def _piece(block: Block, path: str, batch: Batch, tally: Tally) -> Batch:
    if block.content:
        error = RecordError(f"a line longer than {MAX_LOG_LINE_BYTES:,} bytes")
        batch.malformed.append(Malformed.of(error, path, block.offset, block.line, block.content))
    return _counted(batch, bool(block.content), tally)


def _cut(lines: Sequence[bytes], positions: "_LinePositions", batch: Batch, tally: Tally) -> Batch:
    for index, line in enumerate(lines):
        if line.strip():
            batch.malformed.append(positions.malformed(RecordError(PART_OF_CUT if index else _CUT), index))
        else:
            tally.blank += 1
    return _counted(batch, len(lines), tally)


def _counted(batch: Batch, lines: int, tally: Tally) -> Batch:
    tally.lines += lines
    tally.jobs += len(batch.jobs)
    for malformed in batch.malformed:
        tally.keep(malformed)
    return batch


def _pbs_job(kind: bytes, line: bytes, tally: Tally, server: str) -> Values | None:
    """Return the job of an E or R record; ``None`` for a record without a job, or a blank line.

    :param kind: the record type between semicolons; empty for a malformed line.
    :raises RecordError: if the line or a required field is malformed.
    """
    if not line.strip():
        tally.blank += 1
        return None
    if kind not in _RUNS:
        # The line may be very long.
        pbs_records.split(line[:MAX_LINE_BYTES])
        # split() accepts the record, but its stamp contains bytes that are not text.
        raise RecordError(
            "not of the form MM/DD/YYYY HH:MM:SS", field="time stamp", value=pbs_records.decoded(line[:19])
        )
    letter, job_id, message = pbs_records.split(line)
    # A job array has an E record but does not run itself.
    if "[]" in job_id:
        tally.array_parents += 1
        return None
    try:
        return pbs_records.completed_values(job_id, message, server, tally.left_out)
    except RecordError as error:
        # R records of TORQUE, and of a job whose host is down, lack the fields of the interrupted run.
        if letter == "R" and error.reason == pbs_records.MISSING:
            tally.other[letter] += 1
            return None
        raise


def _trace_jobs(block: Block, path: str, tally: Tally, reader: TraceReader) -> list[Values]:
    """Read a block of a trace."""
    jobs: list[Values] = []
    lines = block.lines
    offset = block.offset + _skip_bom(block, lines)
    for number, line in enumerate(lines, block.line):
        if line.strip():
            try:
                values = reader.values(line)
            except RecordError as error:
                tally.keep(Malformed.of(error, path, offset, number, line))
            else:
                if isinstance(values, str):
                    tally.other[values] += 1
                else:
                    jobs.append(values)
        else:
            tally.blank += 1
        offset += len(line) + 1
    tally.left_out += reader.left_out
    reader.left_out.clear()
    tally.lines += len(lines)
    tally.jobs += len(jobs)
    return jobs


def read_jobs(
    paths: Iterable[Path], tally: Tally, progress: Callable[[int], None] = lambda _: None
) -> Iterator[CompletedJob]:
    """Yield the completed jobs of accounting logs and traces, file by file, in file order.

    A file that cannot be read to its end is added to ``tally.broken``, and the next file is read.  The last line of a
    trace is read even without a line end.

    :param progress: called with the number of further bytes that were read from the files on disk.
    """
    return map(job_of, read_values(paths, tally, progress))


def read_values(
    paths: Iterable[Path], tally: Tally, progress: Callable[[int], None] = lambda _: None
) -> Iterator[Values]:
    """Yield the values of the jobs of :func:`read_jobs` as tuples, in half the time."""
    for path in paths:
        try:
            with opened(path) as file:
                tally.files += 1
                yield from _read_file(file, str(path), trace_format(file), tally, progress)
        except SourceError as error:
            tally.broken.append(error)


def _read_file(
    file: OpenFile, path: str, trace: TraceFormat | None, tally: Tally, progress: Callable[[int], None]
) -> Iterator[Values]:
    unfinished = PartialLine()
    reader = trace.reader() if trace else None
    position, number, reported = 0, 1, 0
    for block in (blocks if reader else whole_records)(file.contents, unfinished=unfinished):
        if reader:
            yield from _trace_jobs(block, path, tally, reader)
            tally.machine = reader.machine if tally.files == 1 else 0
        else:
            yield from pbs_batch(block, path, tally, with_changes=False).jobs
        consumed = file.consumed()
        progress(consumed - reported)
        reported = consumed
        position, number = block.end, block.last_line + 1
    if rest := unfinished.content:
        if reader:
            last = Block(rest, position, number, position + len(rest))
            yield from _trace_jobs(last, path, tally, reader)
        else:
            tally.unfinished.append(path)
