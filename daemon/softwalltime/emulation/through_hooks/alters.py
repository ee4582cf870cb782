"""Alters of waiting and running jobs, from accounting logs: the 'a' records, which completed jobs do not show.

A record's own time stamp is local time without a zone.  How far that is from epoch seconds is seen from the records
around it that give a time in both ways (Q, S and E).
"""

from calendar import timegm
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from softwalltime.accounting import pbs_records
from softwalltime.accounting.fields import attributes
from softwalltime.accounting.files import blocks
from softwalltime.accounting.log_file import OpenFile, opened
from softwalltime.accounting.recognition import is_trace
from softwalltime.accounting.values import epoch
from softwalltime.errors import RecordError, SourceError

_ALTERED = b";a;"
_TIMED = {b";Q;": "qtime", b";S;": "start", b";E;": "end"}
_PREFIX = "Resource_List."
_QUARTER = 900
"""Time zones are off by whole quarters of an hour."""


@dataclass(frozen=True, slots=True)
class RecordedAlter:
    """That a job was altered, when (epoch seconds), and which of its resources became what; ``""``: taken away."""

    job_id: str
    time: int
    resources: dict[str, str]


def read_alters(paths: Iterable[Path]) -> list[RecordedAlter]:
    """The alters in these logs, in their order; none in traces, nor in what cannot be read.

    Alters of the soft walltime alone are left out: a hook or a manager made them, and here the hook does.
    """
    alters: list[RecordedAlter] = []
    for path in paths:
        try:
            with opened(path) as file:
                if not is_trace(file):
                    alters += _of_log(file)
        except SourceError:
            continue  # The reader of the jobs has reported it.
    return alters


def _of_log(file: OpenFile) -> Iterator[RecordedAlter]:
    timed = b""
    waiting: list[bytes] = []
    for block in blocks(file.contents):
        if not timed or _ALTERED in block.content:
            for line in block.lines:
                kind = line[19:22]
                if kind in _TIMED:
                    timed = line
                elif kind == _ALTERED:
                    waiting.append(line)
                if timed and waiting:
                    yield from _alters(waiting, timed)
                    waiting = []


def _alters(lines: list[bytes], timed: bytes) -> Iterator[RecordedAlter]:
    """Return the alters in these records, with the time zone of another record."""
    try:
        kind, _, message = pbs_records.split(timed)
        offset = epoch(attributes(message)[_TIMED[f";{kind};".encode()]]) - _stamp(timed)
    except (RecordError, KeyError, ValueError):
        return
    offset = round(offset / _QUARTER) * _QUARTER
    for line in lines:
        try:
            _, job_id, message = pbs_records.split(line)
            fields = attributes(message)
            time = _stamp(line) + offset
        except (RecordError, ValueError):
            continue
        soft = fields.pop(f"{_PREFIX}soft_walltime", None)
        resources = {name.removeprefix(_PREFIX): text for name, text in fields.items() if name.startswith(_PREFIX)}
        if fields or soft is None:
            yield RecordedAlter(job_id, time, resources)


def _stamp(line: bytes) -> int:
    """The time stamp of a record as if it were UTC."""
    month, day, year = map(int, line[:10].split(b"/"))
    hour, minute, second = map(int, line[11:19].split(b":"))
    return timegm((year, month, day, hour, minute, second))
