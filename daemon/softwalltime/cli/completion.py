"""``softwalltime completion``: completion of commands and options in a shell."""

from typing import Any

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from softwalltime.cli.command import command
from softwalltime.cli.parameters import argument, options

_SHELLS: dict[str, type[ShellComplete]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}
_SHORT = {
    "bash": "complete -o nosort -F _softwalltime_completion swt",
    "zsh": "",
    "fish": 'complete --no-files --command swt --arguments "(_softwalltime_completion)";',
}
"""What completes the command's short name too."""


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
      softwalltime completion fish > ~/.config/fish/completions/softwalltime.fish
    """
    click.echo(script(options.shell))


def script(shell: str) -> str:
    """Return the script of a shell."""
    values: dict[str, Any] = {
        "prog_name": "softwalltime",
        "complete_func": "_softwalltime_completion",
        "complete_var": "_SOFTWALLTIME_COMPLETE",
    }
    text = (_SHELLS[shell].source_template % values).strip()
    if shell == "fish":
        # Descriptions have commas too.
        text = text.replace('string split "," ', 'string split --max 1 "," ')
    if shell == "zsh":
        return text.replace("#compdef softwalltime", "#compdef softwalltime swt", 1).replace(
            "compdef _softwalltime_completion softwalltime", "compdef _softwalltime_completion softwalltime swt"
        )
    return f"{text}\n{_SHORT[shell]}"
