"""Formats of traces: files with at most one completed job a line, from any scheduler.  They are for measuring only.

Another package adds a format under the entry point group ``softwalltime.accounting.traces``: an object with the
attributes of :class:`TraceFormat`.
"""

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Protocol

from softwalltime.accounting import sacct, swf
from softwalltime.core.jobs import Values

log = logging.getLogger(__name__)

ENTRY_POINT_GROUP = "softwalltime.accounting.traces"


class TraceReader(Protocol):
    """Reads the lines of one file, in their order."""

    left_out: Counter[str]
    """Malformed values of optional columns since the caller last cleared it, by column."""

    @property
    def machine(self) -> int:
        """Processors of the machine, if the lines read so far say it; 0: unknown."""
        ...

    def values(self, line: bytes) -> Values | str:
        """Return a completed job (:func:`softwalltime.core.jobs.values_of`); of another line what it is, in a word.

        :raises RecordError: if the line is malformed; names the column and its value.
        """
        ...


@dataclass(frozen=True, slots=True)
class TraceFormat:
    """A format.  ``begins`` tells whether a file is one, by its first 64 KiB; ``reader`` makes a reader for it."""

    begins: Callable[[bytes], bool]
    reader: Callable[[], TraceReader]


OWN = (TraceFormat(swf.begins, swf.Header), TraceFormat(sacct.begins, sacct.SacctTable))


@cache
def trace_formats() -> tuple[TraceFormat, ...]:
    """Return the formats of this package, then those of others; one that cannot be loaded is left out."""
    formats = [*OWN]
    for point in entry_points(group=ENTRY_POINT_GROUP):
        try:
            formats.append(point.load())
        # Another package may raise any exception; logs must be read all the same.
        except Exception as error:
            log.warning("the trace format %s (%s) cannot be loaded: %s; ask its author", point.name, point.value, error)
    return tuple(formats)
