"""Read Standard Workload Format traces (Chapin et al. 1999, version 2.2) as completed jobs.

One line is one job in 18 columns, -1 where unknown; header lines begin with a semicolon.  The user is ``user7``, the
project is the group, the job name is the executable, the queue is the queue number; a job ends at submission + wait +
runtime, with an unknown wait taken as none.

Traces of the simulator Alea, such as MetaCentrum's, have up to three columns more (``WorkloadReaderSWF.java`` there):
the 20th is the name of the queue, the 21st the node specification, the 19th is not read.  In any trace users, groups,
executables and queues may have names in place of numbers.  The first job determines the number of columns.
"""

import re
from collections import Counter
from dataclasses import dataclass, field
from sys import intern

from softwalltime.core.errors import RecordError
from softwalltime.core.jobs import MAX_WALLTIME, Values

COLUMNS = (
    "job number", "submit time", "wait time", "run time", "allocated processors", "average CPU time used",
    "used memory", "requested processors", "requested time", "requested memory", "status", "user ID", "group ID",
    "executable number", "queue number", "partition number", "preceding job number", "think time",
)  # fmt: skip
MORE_COLUMNS = ("unused", "queue name", "node specification")
_NUMBERS = 11
"""Number of first columns that are numbers; names may follow."""
_NAMED = frozenset({"user ID", "group ID", "executable number", "queue number"})
_OPTIONAL = frozenset(COLUMNS[4:_NUMBERS]) - {"requested time"}
COMPLETED, CANCELLED = 1, 5
KILLED_BY_DELETION = 271
"""Exit_status of a job that was deleted while it ran."""
_UNIX_START = re.compile(rb";\s*UnixStartTime:\s*(\d{1,12})")
_PROCESSORS = re.compile(rb";\s*Max(Procs|Nodes):\s*(\d{1,9})(?![\d,.])")
_MAX_NUMBER = 10**12
_MAX_PROCESSORS = 2**31 - 1
_MAX_BYTES = 2**63 - 1
MAX_MEMORY = 2**30
"""Maximum kilobytes of memory per processor, 1 TiB: greater numbers are probably bytes, or for the whole job."""
_UNIT = f"above {MAX_MEMORY:,}, in kilobytes per processor"
_NUMBER = re.compile(rb"[-+]?[0-9]+(\.[0-9]*)?")


@dataclass(slots=True)
class Header:
    """Properties of a trace: the epoch time of its second 0, its number of columns, and the size of the machine.

    ``columns`` is 0 until the first job is read.  ``processors`` and ``nodes`` are 0 where the header does not have
    them.
    """

    start: int = 0
    columns: int = 0
    processors: int = 0
    nodes: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    """Number of malformed values of optional columns, by column."""

    def read(self, line: bytes) -> None:
        match = _UNIX_START.match(line)
        if match is not None:
            self.start = int(match.group(1))
        elif size := _PROCESSORS.match(line):
            if size[1] == b"Procs":
                self.processors = self.processors or int(size[2])
            else:
                self.nodes = self.nodes or int(size[2])

    def values(self, line: bytes) -> Values | str:
        """Return the values of the job of a line; of a line of the header that it is one.

        :raises RecordError: names the column and its value.
        """
        if line[:1] != b";":
            return completed_values(line, self)
        self.read(line)
        return "header"

    @property
    def machine(self) -> int:
        """The machine's number of processors, or of nodes if the header has only that; 0: unknown."""
        return self.processors or self.nodes


def begins(start: bytes) -> bool:
    """Return whether a file begins as a trace: with header lines, or with a job."""
    lines = (line for line in start.split(b"\n") if line.strip())
    first = next(lines, b"")
    return first.startswith(b";") or columns(first) > 0


def columns(line: bytes) -> int:
    """Return the number of columns of a trace with this first line; 0 if the line is not a job of a trace."""
    parts = line.split(None, 22)
    numbers = [*parts[:_NUMBERS], *parts[15:18]]
    fits = 18 <= len(parts) <= 18 + len(MORE_COLUMNS) and all(map(_NUMBER.fullmatch, numbers))
    return len(parts) if fits else 0


def completed_values(line: bytes, header: Header) -> Values:
    """Return the values of the job of one line.

    :raises RecordError: names the column and its value.
    """
    parts = line.split()
    if len(parts) != header.columns:
        if header.columns or not columns(line):
            expected = (*COLUMNS, *MORE_COLUMNS)[: header.columns or 18]
            reason = f"not a line of {len(expected)} columns ({', '.join(expected)})"
            raise RecordError(reason, value=line[:60].decode("utf-8", "backslashreplace"))
        header.columns = len(parts)
    names: dict[str, str] = {}
    try:
        values = list(map(int, parts[:15]))
    except ValueError:
        values = []
        for part, name in zip(parts[:15], COLUMNS, strict=False):
            if name in _NAMED and not _NUMBER.fullmatch(part):
                names[name] = intern(part.decode("utf-8", "backslashreplace").replace("\0", "\\x00"))
                values.append(-1)
            else:
                values.append(_number(part, name, header))
    number, submit, wait, run, allocated, cpu, used, processors = values[:8]
    walltime, memory, status, user, group, app, queue = values[8:]
    if not (-1 <= submit < _MAX_NUMBER and wait < _MAX_NUMBER and run < _MAX_NUMBER):
        raise RecordError("time out of range", value=line[:60].decode("ascii", "backslashreplace"))
    if processors <= 0:
        processors = allocated
    ncpus = processors if 0 < processors <= _MAX_PROCESSORS else None
    submitted = header.start + submit
    start = submitted + wait if wait > 0 else submitted
    # A runtime of -1: never started, or not measured; predictors learn from neither.
    runtime = max(run, 0)
    never_ran = run < 0 or (run == 0 and status == CANCELLED)
    user_name = names.get("user ID") or (intern(f"user{user}") if user >= 0 else "")
    group_name = names.get("group ID") or (intern(f"group{group}") if group >= 0 else "")
    queue_name = names.get("queue number") or (intern(f"queue{queue}") if queue >= 0 else "")
    select = ""
    if header.columns > 18:
        queue_name, select = _more(parts, queue_name)
    # In the order of the fields of Submission, then of CompletedJob.
    return (
        str(number), user_name, submitted, min(walltime, MAX_WALLTIME) if walltime > 0 else None, group_name,
        group_name, "", names.get("executable number") or (intern(f"app{app}") if app >= 0 else ""), queue_name, None,
        None, ncpus, None, None, _bytes(memory, ncpus, "requested memory", header), select, "", None, "",
        "", None if never_ran else start, start + runtime, runtime, submitted, submitted, None,
        0 if status == COMPLETED else KILLED_BY_DELETION if status == CANCELLED else 1, 0 if never_ran else 1,
        min(cpu * ncpus, _MAX_NUMBER) if 0 <= cpu < _MAX_NUMBER and ncpus else None,
        _bytes(used, ncpus, "used memory", header),
    )  # fmt: skip


def _bytes(kilobytes: int, ncpus: int | None, column: str, header: Header) -> int | None:
    """Return the job's memory in bytes; ``None`` if it is unknown, or implausible, which is counted."""
    if kilobytes <= 0 or ncpus is None:
        return None
    if kilobytes > MAX_MEMORY:
        header.left_out[f"{column} ({_UNIT})"] += 1
        return None
    return min(kilobytes * 1024 * ncpus, _MAX_BYTES)


def _more(parts: list[bytes], queue: str) -> tuple[str, str]:
    """Return queue and node specification from the columns after the 18th."""
    texts = ["" if part == b"-1" else part.decode("utf-8", "backslashreplace") for part in parts[19:21]]
    name, select = (*texts, "", "")[:2]
    return intern(name.replace("\0", "\\x00")) or queue, intern(select.replace("\0", "\\x00"))


def _number(part: bytes, column: str, header: Header) -> int:
    try:
        # Averages may have a fraction.
        return int(float(part))
    except (ValueError, OverflowError):
        if column in _OPTIONAL:
            header.left_out[column] += 1
            return -1
        raise RecordError("not a number", field=column, value=part.decode("ascii", "backslashreplace")) from None
