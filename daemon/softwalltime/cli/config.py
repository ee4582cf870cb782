"""``softwalltime config``: check settings files and the hook's configuration, and show what holds."""

import json
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import click

from softwalltime.cli.output import Output, output_options
from softwalltime.deployment.finding import ConfigProblem
from softwalltime.errors import UsageError
from softwalltime.formatting import plural
from softwalltime.text_table import Cell, TextColumn, TextTable

if TYPE_CHECKING:
    from softwalltime.deployment.effective import EffectiveValue

_COLUMNS = (
    TextColumn("key", left=True),
    TextColumn("value", left=True, least=20),
    TextColumn("from", left=True, least=22),
)
PROBLEM_COLUMNS = tuple(field.name for field in fields(ConfigProblem))
VALUE_COLUMNS = ("key", "value", "source")
HOOK = Path("/etc/softwalltime/hook/softwalltime_hook.json")


@dataclass(frozen=True, slots=True)
class ConfigCheckDocument:
    """Errors of configurations."""

    files: tuple[str, ...]
    """The files that were checked."""
    problems: tuple[ConfigProblem, ...]
    """The errors and notes."""


@click.group()
def config() -> None:
    """Check the settings, and show what holds.

    \b
    Example:
      softwalltime config check
    """


@config.command()
@click.argument("files", nargs=-1, type=click.Path(dir_okay=False, path_type=Path), metavar="[FILE]...")
@click.option(
    "--config", "named", multiple=True, type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="The same as FILE, as other commands name their settings.",
)  # fmt: skip
@output_options
def check(files: tuple[Path, ...], named: tuple[Path, ...], output: Output) -> int:
    """Check settings files and the hook's configuration.

    All errors are printed, each with file and line.  A FILE that ends in .json is the hook's configuration, any other
    one settings.  Without a FILE: the settings files that the commands read, the environment, and the configuration in
    /etc/softwalltime/hook.  A guard that cannot act is an error too.  Nothing is changed; the exit status is 1 if there
    is an error.

    \b
    Example:
      softwalltime config check
      softwalltime config check softwalltime.toml softwalltime_hook.json
    """
    from softwalltime.deployment.check_configuration import check_environment, check_file, check_guard
    from softwalltime.settings import hidden_file, settings_files

    files += named
    chosen = list(files) or [*settings_files(), *(file for file in (HOOK,) if os.access(file, os.R_OK))]
    problems = [problem for file in chosen for problem in check_file(file)]
    # The settings files that the commands read hold together, those that are named each alone.
    for group in [[file] for file in chosen] if files else [chosen]:
        problems += check_guard(group)
    if not files:
        problems += check_environment()
    errors = [problem for problem in problems if problem.severity == "error"]
    if output.form == "json":
        output.document(ConfigCheckDocument(tuple(map(str, chosen)), tuple(problems)))
    elif output.form == "csv":
        output.rows(PROBLEM_COLUMNS, map(asdict, problems))
    else:
        for problem in problems:
            output.paragraph(str(problem), "bad" if problem.severity == "error" else "faint", 2)
        if not errors:
            output.paragraph(f"{', '.join(map(str, chosen)) or 'no settings file'}: no error", "good")
    hidden = [] if files else [hidden_file(), HOOK if os.access(HOOK, os.F_OK) and HOOK not in chosen else None]
    for file in filter(None, hidden):
        click.echo(f"{file} cannot be read: run this as root, or as the daemon's user", err=True)
    click.echo(f"{plural(len(errors), 'error')} in {plural(len(chosen), 'file')}", err=True)
    return 1 if errors else 0


@config.command()
@click.option("--config", "file", type=click.Path(dir_okay=False, path_type=Path), help="Settings file.")
@output_options
def show(file: Path | None, output: Output) -> None:
    """Show the effective settings, and where each one came from.

    Each value came from an environment variable, a line of a file, the policy's preset, or is the default.  Passwords
    are not shown.

    \b
    Example:
      softwalltime config show
    """
    from softwalltime.deployment.check_configuration import check_file
    from softwalltime.deployment.effective import effective_values
    from softwalltime.settings import load_settings, settings_files

    files = settings_files(file)
    wrong = [str(problem) for each in files for problem in check_file(each) if problem.severity == "error"]
    if wrong:
        raise UsageError(f"{wrong[0]}; see softwalltime config check")
    values = list(effective_values(load_settings(file), files))
    if output.form == "json":
        output.document(values)
    elif output.form == "csv":
        output.rows(VALUE_COLUMNS, map(asdict, values))
    else:
        columns = (
            TextColumn("key", left=True),
            TextColumn("value", left=True, least=20),
            TextColumn("from", left=True, least=22),
        )
        output.table(TextTable.of(columns, [_row(value) for value in values]))


def _row(value: "EffectiveValue") -> list[Cell | str]:
    shown = value.value if isinstance(value.value, str) else "-" if value.value is None else json.dumps(value.value)
    changed = value.source != "default"
    return [Cell(value.key, "strong" if changed else ""), shown, Cell(value.source, "" if changed else "faint")]
