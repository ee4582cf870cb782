"""``softwalltime config``: check settings files and the hook's configuration, and show effective settings."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from softwalltime.cli.command import Result, command
from softwalltime.cli.output import Output
from softwalltime.cli.parameters import argument, option, options
from softwalltime.core.errors import UsageError
from softwalltime.core.formatting import plural
from softwalltime.core.text_table import Cell, TextColumn, TextTable
from softwalltime.deployment.finding import ConfigProblem

if TYPE_CHECKING:
    from softwalltime.deployment.check_configuration import EffectiveValue

HOOK = Path("/etc/softwalltime/hook/softwalltime_hook.json")


@click.group()
def config() -> None:
    """Check the settings, and show what holds.

    \b
    Example:
      softwalltime config check
    """


@options
class ConfigCheckOptions:
    files: tuple[Path, ...] = argument("[FILE]...")
    named: tuple[Path, ...] = option("The same as FILE, as other commands name their settings.", "--config")
    output: Output


@command("an error or note", group=config)
def check(options: ConfigCheckOptions) -> Result[list[ConfigProblem]]:
    """Check settings files and the hook's configuration.

    All errors are printed, each with its file, and in settings with its line.  A FILE that ends in .json is the hook's
    configuration, any other one settings.  Without a FILE: the settings files that the commands read, the environment,
    and the configuration in /etc/softwalltime/hook.  A guard that cannot act is an error too.  Nothing is changed; the
    exit status is 1 if there is an error.

    \b
    Example:
      softwalltime config check
      softwalltime config check softwalltime.toml softwalltime_hook.json
    """
    from softwalltime.core.settings import hidden_file, settings_files
    from softwalltime.deployment.check_configuration import check_environment, check_file, check_guard

    files = options.files + options.named
    chosen = list(files) or [*settings_files(), *(file for file in (HOOK,) if os.access(file, os.R_OK))]
    problems = [problem for file in chosen for problem in check_file(file)]
    # Default settings files are checked together, named files separately.
    settings = [file for file in chosen if file.suffix != ".json"]
    for group in [[file] for file in settings] if files else [settings]:
        if not any(problem.severity == "error" and Path(problem.file) in group for problem in problems):
            problems += check_guard(group)
    if not files:
        problems += check_environment()
    errors = [problem for problem in problems if problem.severity == "error"]
    hidden = [] if files else [hidden_file(), HOOK if os.access(HOOK, os.F_OK) and HOOK not in chosen else None]
    remarks = [f"{file} cannot be read: run this as root, or as the daemon's user" for file in hidden if file]
    remarks.append(f"{plural(len(errors), 'error')} in {plural(len(chosen), 'file')}")

    def text(output: Output, document: list[ConfigProblem]) -> None:
        for problem in document:
            output.paragraph(str(problem), "bad" if problem.severity == "error" else "faint", 2)
        if not errors:
            output.paragraph(f"{', '.join(map(str, chosen)) or 'no settings file'}: no error", "good")

    return Result(problems, text, 1 if errors else 0, remarks)


@options
class ConfigShowOptions:
    file: Path | None = option("Settings file.", "--config")
    output: Output


@command("a setting", group=config)
def show(options: ConfigShowOptions) -> Result[list["EffectiveValue"]]:
    """Show the effective settings, and where each one came from.

    Each value came from an environment variable, a line of a file, the policy's preset, or is the default.  Passwords
    are not shown.

    \b
    Example:
      softwalltime config show
    """
    from softwalltime.core.settings import load_settings, settings_files
    from softwalltime.deployment.check_configuration import check_file, effective_values

    files = settings_files(options.file)
    wrong = [str(problem) for file in files for problem in check_file(file) if problem.severity == "error"]
    if wrong:
        raise UsageError(f"{wrong[0]}; see softwalltime config check")
    values = list(effective_values(load_settings(options.file), files))

    def changed(value: "EffectiveValue") -> bool:
        return value.source != "default"

    def shown(value: "EffectiveValue") -> str:
        text = value.value if isinstance(value.value, str) else json.dumps(value.value)
        return "-" if value.value is None else text

    columns: dict[TextColumn, Callable[[EffectiveValue], Cell | str]] = {
        TextColumn("key", left=True): lambda value: Cell(value.key, "strong" if changed(value) else ""),
        TextColumn("value", left=True, least=20): shown,
        TextColumn("from", left=True, least=22): lambda value: Cell(value.source, "" if changed(value) else "faint"),
    }
    return Result(values, lambda output, document: output.table(TextTable.by_column(document, columns)))
