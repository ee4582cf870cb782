"""The errors of this package.  Messages are for the person who must fix them.

Input causes no other exception.  A command prints the message in one line, without a traceback, and exits with
``exit_status``.
"""

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import ClassVar


class SoftwalltimeError(Exception):
    """Base class: the message says what happened, where, and what to do."""

    exit_status: ClassVar[int] = 1


class UsageError(SoftwalltimeError):
    """A command line or a setting is wrong; nothing was done."""

    exit_status: ClassVar[int] = 2


class OptionError(UsageError):
    """Options of a predictor are wrong."""


class SourceError(UsageError):
    """A file or folder cannot be read or written; ``path`` is set where the caller continues without it."""

    path: Path | None = None


class UnsuitableFileError(SourceError):
    """A file has an unsupported format; ``reason`` says which one and what to do, without the file's name."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


def summary(errors: Iterable[SourceError]) -> Iterator[str]:
    """Yield a line for each error; files that are unsuitable for the same reason share a line with their number."""
    unsuitable: dict[str, list[Path]] = {}
    for error in errors:
        if isinstance(error, UnsuitableFileError) and error.path is not None:
            unsuitable.setdefault(error.reason, []).append(error.path)
        else:
            yield str(error)
    for reason, paths in unsuitable.items():
        others = f" and {len(paths) - 1:,} other file{'s' * (len(paths) > 2)}" if len(paths) > 1 else ""
        yield f"{paths[0]}{others}: {reason}"


class StoreError(SoftwalltimeError):
    """PostgreSQL is unreachable, or its tables have another revision."""


class RecordError(SoftwalltimeError):
    """A malformed line of a log or trace.

    ``reason`` contains no text from the line, so lines can be counted by reason.  ``field`` and ``value`` name the
    wrong field, if it is known.  The reader of the file sets ``file`` and ``line`` (from 1).
    """

    def __init__(self, reason: str, *, field: str = "", value: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.field = field
        self.value = value
        self.file = ""
        self.line: int | None = None

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: " if self.file else ""
        what = f"{self.field}: " if self.field else ""
        shown = self.value if len(self.value) <= 60 else self.value[:57] + "..."
        value = f" ({shown!r})" if self.value else ""
        return f"{where}{what}{self.reason}{value}"


def meant(name: str, known: Iterable[str]) -> str:
    """Return a question with the known name most similar to a wrong one; empty if none is similar.

    >>> meant("percentil", ["percentile", "last2"]), meant("x", ["percentile"])
    ('is percentile meant?', '')
    """
    near = get_close_matches(name, list(known), n=1)
    return f"is {near[0]} meant?" if near else ""
