"""Changes that ``install``, ``uninstall`` and ``policy set`` make or need: printed at once, or as a document."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields

import click

from softwalltime.cli.output import Output

_STATES = ("done", "to do", "stays", "written", "to write", "removed", "to remove", "note")


@dataclass(frozen=True, slots=True)
class ChangeDocument:
    """A change in PBS, a file or the daemon, or a note."""

    state: str
    """done, written and removed: it was made; to do, to write and to remove: it is needed; stays: it could not be made;
    note: it is no change."""
    text: str
    """The change: a statement for qmgr, a setting before and after, a file; or the note."""
    why: str
    """Its reason; empty: none is given."""

    @classmethod
    def of(cls, line: str) -> "ChangeDocument":
        """Read a printed line: ``state: text  # why``, or only a note.

        >>> ChangeDocument.of("done: import hook softwalltime  # it is new")
        ChangeDocument(state='done', text='import hook softwalltime', why='it is new')
        """
        state, _, rest = line.partition(": ")
        if state not in _STATES:
            return cls("note", line, "")
        text, _, why = rest.partition("  # ")
        return cls(state, text, why)


COLUMNS = tuple(field.name for field in fields(ChangeDocument))
"""Columns of CSV: a row for each change or note."""


@dataclass(frozen=True, slots=True)
class ChangesDocument:
    """The changes that a command made, or that are needed."""

    complete: bool
    """Whether the command came to its end; false: an error stopped it after these changes."""
    changes: tuple[ChangeDocument, ...]
    """Changes and notes in their order."""


class ChangeLog:
    """The lines about changes: printed at once, or collected for a document."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._lines: list[str] = []

    def line(self, line: str) -> None:
        """Print or collect a line: ``state: text  # why``, or a note."""
        self._lines.append(line)
        if self._output.form == "table":
            click.echo(line)

    def finish(self, *, complete: bool) -> None:
        """Print the document, if one is wanted and there is anything in it."""
        changes = tuple(map(ChangeDocument.of, self._lines))
        if self._output.form == "json" and (changes or complete):
            self._output.document(ChangesDocument(complete, changes))
        elif self._output.form == "csv" and (changes or complete):
            self._output.rows(COLUMNS, map(asdict, changes))


@contextmanager
def printed_changes(output: Output) -> Iterator[ChangeLog]:
    """Give the changes to a command; what was done before an error is in the document too."""
    changes = ChangeLog(output)
    complete = False
    try:
        yield changes
        complete = True
    finally:
        changes.finish(complete=complete)
