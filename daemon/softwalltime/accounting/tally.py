"""Count lines by type, and keep malformed lines with position and reason."""

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import Self

from softwalltime.core.errors import RecordError, SourceError

MAX_KEPT_LINES = 1000
"""Maximum number of malformed lines that a tally keeps with their reasons; further ones are only counted."""
MAX_LINE_BYTES = 4096
"""Maximum bytes kept of a malformed line: a file of many gigabytes may be a single line."""


@dataclass(frozen=True, slots=True)
class Malformed:
    """A malformed line, its position (``offset`` in bytes, ``line`` from 1) and the reason.

    ``content`` is its first ``MAX_LINE_BYTES`` bytes.
    """

    path: str
    offset: int
    line: int
    error: RecordError
    content: bytes

    @classmethod
    def of(cls, error: RecordError, path: str, offset: int, line: int, content: bytes) -> Self:
        error.file, error.line, error.value = path, line, error.value[:MAX_LINE_BYTES]
        # Drop the traceback, which would keep the whole block in memory.
        error.__traceback__ = error.__context__ = None
        return cls(path, offset, line, error, content[:MAX_LINE_BYTES])

    def __str__(self) -> str:
        return str(self.error)


@dataclass(slots=True)
class Tally:
    """Counters of lines and jobs read, and the malformed lines."""

    files: int = 0
    lines: int = 0
    jobs: int = 0
    stored: int = 0
    """Jobs that were new to the store, if jobs are stored."""
    array_parents: int = 0
    interrupted: int = 0
    """Runs that ended with a requeue."""
    disagreeing: int = 0
    """Jobs whose resources_used.walltime differs from end - start, for example after a suspension."""
    blank: int = 0
    unfinished: list[str] = field(default_factory=list)
    """Files whose last line has no line end, and is not read."""
    malformed: int = 0
    repeated: int = 0
    """Repeated records of the same run."""
    machine: int = 0
    """Processors of the machine in the trace's header, if the trace is the only file; 0: unknown."""
    other: Counter[str] = field(default_factory=Counter)
    """Records that are not of completed jobs, by type."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Malformed values of optional fields, by field; the records are read without them."""
    kept: list[Malformed] = field(default_factory=list)
    broken: list[SourceError] = field(default_factory=list)
    """Files that could not be read to their end."""
    left_out_files: list[SourceError] = field(default_factory=list)
    """Files and folders in a given folder that are not logs."""

    @property
    def others(self) -> int:
        return sum(self.other.values())

    def add(self, other: "Tally") -> None:
        for name in (field_.name for field_ in fields(self) if field_.name != "machine"):
            value = getattr(other, name)
            if name == "kept":
                value = value[: MAX_KEPT_LINES - len(self.kept)]
            setattr(self, name, getattr(self, name) + value)

    def keep(self, malformed: Malformed) -> None:
        """Count a malformed line; keep it if fewer than ``MAX_KEPT_LINES`` are kept."""
        self.malformed += 1
        if len(self.kept) < MAX_KEPT_LINES:
            self.kept.append(malformed)
