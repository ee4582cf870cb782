"""Every error that this package raises on purpose; the message is for the person who must act.

::

    SoftwalltimeError            something in the world is not as it should be
    ├── UsageError               the command was called wrongly
    │   ├── OptionError          a predictor was asked for with options that it does not take
    │   └── SourceError          a file or folder cannot be read, or not be written
    ├── RecordError              one line of a log or a trace cannot be read: file, line, field and value
    └── StoreError               PostgreSQL cannot be reached, or its tables are not as this version needs them

No other exception leaves the package on account of its input, and none of these ends in a traceback for a user: a
command that meets one prints the message in one line and ends with ``exit_status``.
"""

from pathlib import Path
from typing import ClassVar


class SoftwalltimeError(Exception):
    """Root of all errors raised on purpose; the message says what is wrong and what to do."""

    exit_status: ClassVar[int] = 1


class UsageError(SoftwalltimeError):
    """The command line or a configuration value is wrong; nothing was done."""

    exit_status: ClassVar[int] = 2


class OptionError(UsageError):
    """A predictor's options are wrong."""


class SourceError(UsageError):
    """A file or folder cannot be read, or not be written; ``path`` is filled in by whoever goes on without it."""

    path: Path | None = None


class StoreError(SoftwalltimeError):
    """PostgreSQL cannot be reached, or what it holds is not what this version needs."""


class RecordError(SoftwalltimeError):
    """One line of a log or a trace cannot be read.

    ``reason`` says why in words that hold no user's text, so that lines can be counted by reason; ``field`` and
    ``value`` name the culprit where there is one.  ``file`` and ``line`` (counted from 1) are filled in by whoever
    knows them.
    """

    def __init__(
        self, reason: str, *, field: str = "", value: str = "", file: str = "", line: int | None = None
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.field = field
        self.value = value
        self.file = file
        self.line = line

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: " if self.file else ""
        what = f"{self.field}: " if self.field else ""
        shown = self.value if len(self.value) <= 60 else self.value[:57] + "..."
        value = f" ({shown!r})" if self.value else ""
        return f"{where}{what}{self.reason}{value}"
