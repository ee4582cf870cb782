"""``softwalltime completion``, and shell completion of sources, policies and predictors."""

import os
import re
from collections.abc import Sequence

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ShellComplete, ZshComplete

from softwalltime.cli.command import command
from softwalltime.cli.parameters import argument, options

_SHELLS: dict[str, type[ShellComplete]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}
_SHORT = {
    "bash": ("complete -o nosort -F _softwalltime_completion swt",),
    "fish": ('complete --no-files --command swt --arguments "(_softwalltime_completion)";',),
}
"""What completes the command's short name too."""
STORE = "store"
"""The source that is no file."""
POLICIES = ("off", "shadow", "safe", "balanced", "order")
"""The policies that ``policy set`` takes by name."""


def complete_source(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _word_or_file((STORE,) if incomplete else (), incomplete)


def complete_policy(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _word_or_file(POLICIES, incomplete)


def _word_or_file(words: Sequence[str], incomplete: str) -> list[CompletionItem]:
    file = CompletionItem(incomplete, type="file")
    named = [CompletionItem(word) for word in words if word.startswith(incomplete)]
    # bash completes either files or words, whichever come last: words would hide a file that begins alike.
    return [*named, file] if not named or _begins_a_file(incomplete) else [file, *named]


def _begins_a_file(text: str) -> bool:
    try:
        return any(entry.name.startswith(text) for entry in os.scandir())
    except OSError:
        return False


def complete_predictor(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a predictor, or the last name of a list."""
    from softwalltime.predict.predictors.registry import entries

    before, comma, _last = incomplete.rpartition(",")
    names = sorted(before + comma + name for entry in entries() if entry.predictor for name in entry.names)
    return [name for name in names if name.startswith(incomplete)]


@options
class CompletionOptions:
    shell: str = argument(type=click.Choice(list(_SHELLS)))


@command()
def completion(options: CompletionOptions) -> None:
    """Print the completion script of a shell.

    The packages (.deb, .rpm) install the scripts.  Elsewhere write the script to the folder that your shell reads, or
    evaluate it in the shell's startup file.

    \b
    Example:
      softwalltime completion bash
      softwalltime completion bash > ~/.local/share/bash-completion/completions/softwalltime
      softwalltime completion zsh > ~/.zfunc/_softwalltime
    """
    shell = _SHELLS[options.shell](click.Group(), {}, "softwalltime", "_SOFTWALLTIME_COMPLETE")
    text = (shell.source_template % shell.source_vars()).strip()
    # Descriptions have commas too, in fish.
    text = text.replace('string split "," ', 'string split --max 1 "," ')
    if options.shell == "zsh":
        text = re.sub("(#compdef|compdef _softwalltime_completion) softwalltime", r"\g<0> swt", text)
    click.echo("\n".join((text, *_SHORT.get(options.shell, ()))))
