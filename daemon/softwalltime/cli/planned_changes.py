"""Print the changes of ``install``, ``uninstall`` and ``policy set`` as they are made, or as a document."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import click

from softwalltime.cli.command import Result
from softwalltime.cli.output import Output

if TYPE_CHECKING:
    from softwalltime.deployment.qmgr import Qmgr
    from softwalltime.deployment.scheduler_setup import Requirement

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


@dataclass(frozen=True, slots=True)
class ChangesDocument:
    """The changes that a command made, or that are needed."""

    ROWS: ClassVar = "changes"

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

    def result(self, *, complete: bool = True) -> Result[ChangesDocument]:
        """Return the document; its text is printed already."""
        return Result(ChangesDocument(complete, tuple(map(ChangeDocument.of, self._lines))))


@contextmanager
def printed_changes(output: Output) -> Iterator[ChangeLog]:
    """Yield the collector to a command; on an error print the document of the changes made before."""
    changes = ChangeLog(output)
    try:
        yield changes
    except BaseException:
        done = changes.result(complete=False)
        if done.document.changes:
            done.print(output, ("state", "text", "why"))
        raise


def set_up(
    changes: ChangeLog, pbs: "Qmgr", folder: Path, preset: str, needs: "Sequence[Requirement]", *, do: bool
) -> bool:
    """List what a preset needs of PBS, and change it if ``do`` is true; return whether anything changes.

    :param preset: ``none`` takes all earlier changes back; empty: those of presets stay.
    """
    from softwalltime.deployment.preset_setup import SHOWN_START
    from softwalltime.deployment.scheduler_setup import read_settings, unreadable
    from softwalltime.deployment.setup_plan import Setup, plan_setup

    setup, settings = Setup(pbs, folder), read_settings(pbs)
    kept = [change for change in setup.kept() if preset or change.name == SHOWN_START.name]
    plan = plan_setup(needs, settings, kept)
    for line in setup.apply(plan) if do else (f"to do: {change}  # {change.why}" for change in plan.changes):
        changes.line(line)
    for note in [*(f"{file} cannot be read from here" for file in unreadable(settings, needs)), *plan.notes]:
        changes.line(f"note: {note}")
    if not plan.changes and not plan.notes and preset not in ("", "none"):
        changes.line(f"PBS has what the preset {preset} needs")
    return bool(plan.changes)
