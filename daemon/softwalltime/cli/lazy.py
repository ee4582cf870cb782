"""Commands that are imported when they are called: the imports of all of them take longer than most need to run."""

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class LazyCommand(NamedTuple):
    """Where a command is defined, and the first sentence of its help."""

    module: str
    summary: str


class LazyCommands(MutableMapping[str, click.Command]):
    """The commands of a group, by name.

    :param modules: the module that defines each command, under its own name.
    """

    def __init__(self, modules: Mapping[str, str]) -> None:
        self._modules = dict(modules)
        self._loaded: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._loaded:
            command = getattr(import_module(self._modules[name]), name.replace("-", "_"))
            self._loaded[name] = command
        return self._loaded[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._loaded[name] = command
        self._modules.setdefault(name, "")

    def __delitem__(self, name: str) -> None:
        self._loaded.pop(name, None)
        del self._modules[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


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
