"""Recognise the format of a file by its first bytes: accounting log, trace, or a format often given by mistake."""

import re
from collections.abc import Iterable

from softwalltime.accounting import sacct
from softwalltime.accounting.daily_files import BLOCK_BYTES, BOM
from softwalltime.accounting.log_file import OpenFile
from softwalltime.accounting.traces import TraceFormat, trace_formats
from softwalltime.core.errors import UnsuitableFileError

_START = 1 << 16
"""Bytes to examine at the start of a file."""
_RECORD = re.compile(rb"^\d\d/\d\d/\d{4} \d\d:\d\d:\d\d;[A-Za-z];", re.MULTILINE)
# Each line matches in one way only: many blank lines must not take exponential time.
_BEGINS_AS_LOG = re.compile(rb"(?:;[^\n]*\n|[^\S\n]*\n)*" + _RECORD.pattern.removeprefix(b"^"))
_PBS_LOGS = "give the accounting logs: PBS_HOME/server_priv/accounting"
_CONVERT = "convert it to Standard Workload Format"
_SACCT = f"a table of Slurm's sacct that lacks columns or its header: write it with {sacct.COMMAND}"
_SACCT_COLUMNS = frozenset(
    b"Submit Start End State User Partition Elapsed ElapsedRaw Timelimit TimelimitRaw Account Group NCPUS".split()
)
_SLURM_STATE = rb"COMPLETED|FAILED|TIMEOUT|CANCELLED[^|\n]*|NODE_FAIL|OUT_OF_MEMORY|PREEMPTED"
_SYSLOG_TIME = rb"(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S*)"
_FOREIGN: tuple[tuple[re.Pattern[bytes], str], ...] = (
    (
        re.compile(rb"\s*\d\d/\d\d/\d{4} \d\d:\d\d:\d\d(?:\.\d+)?;[0-9A-Fa-f]{4};"),
        f"a server_log of PBS, or a log of its scheduler, mom or comm: {_PBS_LOGS}",
    ),
    (re.compile(rb"\s*(?:<\d{1,3}>)?(?:1 )?%b \S+ [^\s:\[]+(?:\[\d+\])?[: ]" % _SYSLOG_TIME), f"a syslog: {_PBS_LOGS}"),
    (re.compile(rb"(?:[^\n]*\n)?[\d_.\[\]+a-z]+\|[^\n]*\|(?:%b)[|\n]" % _SLURM_STATE), _SACCT),
    (re.compile(rb"\s*JobId=\d+ UserId="), f"a job completion log of Slurm: {_CONVERT}"),
)
"""Patterns at the start of text files in other formats, and their descriptions."""
_PACKED: tuple[tuple[re.Pattern[bytes], str], ...] = (
    (re.compile(rb".{257}ustar", re.DOTALL), "a tar archive: unpack it first (tar -xf)"),
    (re.compile(rb"PAR1"), "Parquet: give it by itself, not its folder, with a name that ends in .parquet"),
    (re.compile(rb"PK\x03\x04"), "a zip archive: unpack it first"),
    (re.compile(rb"\x04\x22\x4d\x18|\x1f\x9d|7z\xbc\xaf"), "compressed by lz4, compress or 7z: decompress it first"),
    (re.compile(rb"\xff\xfe|\xfe\xff"), "UTF-16 text; convert it to UTF-8 first: iconv -f UTF-16 -t UTF-8"),
)
"""Patterns at the start of archives and other containers, and their descriptions."""


def trace_format(file: OpenFile) -> TraceFormat | None:
    """Return the format of a trace; ``None``: the file is an accounting log.  Rewinds the file.

    A log whose first bytes were lost may also begin with ``;``, as a trace in SWF does, but records follow.

    :raises SourceError: if the file cannot be read.
    :raises UnsuitableFileError: if it is neither log nor trace.
    """
    contents = file.contents
    start = contents.read(_START)
    records = _RECORD.search(start) is not None
    text = start.removeprefix(BOM)
    trace = None
    if not _BEGINS_AS_LOG.match(text):
        trace = next((each for each in trace_formats() if each.begins(text)), None)
    if reason := _reason(_PACKED, start) or (not trace and not records and _foreign(text)):
        raise UnsuitableFileError(file.path, reason)
    if not trace and not records and b"\0" in start:
        # After a crash of the host a log may begin with many zero bytes.
        while (more := contents.read(BLOCK_BYTES)) and not _RECORD.search(more):
            pass
        if not more:
            raise UnsuitableFileError(
                file.path, "a binary file (or UTF-16 text), neither an accounting log nor a trace"
            )
    contents.seek(0)
    return trace


def _foreign(start: bytes) -> str:
    """Return the format of a file with this start, and what to do; empty if it may be a log or trace."""
    names = set(re.split(rb"[|,\t ]+", start.lstrip().partition(b"\n")[0]))
    if names & {b"JobID", b"JobIDRaw"} and names & _SACCT_COLUMNS:
        return _SACCT
    return _reason(_FOREIGN, start)


def _reason(patterns: Iterable[tuple[re.Pattern[bytes], str]], start: bytes) -> str:
    return next((reason for pattern, reason in patterns if pattern.match(start)), "")


def require_log(file: OpenFile) -> None:
    """Require an accounting log with a record near its start; rewind the file.

    :raises SourceError: if the file cannot be read.
    :raises UnsuitableFileError: if it is something else.
    """
    if trace_format(file):
        raise UnsuitableFileError(file.path, "a trace: give it by itself, not its folder")
    if not _RECORD.search(file.contents.read(_START)):
        raise UnsuitableFileError(file.path, "no accounting record in it")
    file.contents.seek(0)
