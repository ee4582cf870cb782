"""Commands that are imported when they are called: the imports of all of them take longer than most need to run."""

from collections import UserDict
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class LazyCommand(NamedTuple):
    """Where a command is defined, and the first sentence of its help."""

    module: str
    summary: str


class LazyCommands(UserDict[str, Any]):
    """The commands of a group by name, made of the names of the modules that define them."""

    def __getitem__(self, name: str) -> click.Command:
        command: click.Command = getattr(import_module(self.data[name]), name.replace("-", "_"))
        return command


class LazyGroup(click.Group):
    """A group whose help and completion import none of its commands.

    :param lazy: the commands by name; a test compares each summary with the command's own help.
    """

    def __init__(self, name: str | None = None, *, lazy: Mapping[str, LazyCommand], **more: Any) -> None:
        super().__init__(name, LazyCommands({name: command.module for name, command in lazy.items()}), **more)
        self._outline = click.Group(
            commands={name: click.Command(name, help=command.summary) for name, command in lazy.items()},
            add_help_option=False,
        )

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands."""
        self._outline.format_commands(ctx, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list["CompletionItem"]:
        """Complete the name of a command, or an option of the group."""
        commands = self._outline.shell_complete(click.Context(self._outline), incomplete)
        return commands + click.Command.shell_complete(self, ctx, incomplete)
