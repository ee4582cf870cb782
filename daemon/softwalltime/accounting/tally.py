"""What was met while records were read: how much of each kind, and what could not be read, where it stands and why."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Self

from softwalltime.errors import RecordError, SourceError

KEPT = 1000
"""How many malformed lines a tally keeps with their reasons; more are only counted."""
LINE_KEPT = 4096
"""Bytes kept of a malformed line: a file of many gigabytes may be a single one."""


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
    left_out: Counter[str] = field(default_factory=Counter)
    """Values of optional fields that could not be read, by field; the records count without them."""
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
        self.left_out += other.left_out
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
