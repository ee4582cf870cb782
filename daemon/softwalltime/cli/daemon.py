"""``softwalltime serve`` and ``status``: run the daemon, and print its status."""

import os
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from softwalltime.cli.interruption import ending_normally
from softwalltime.cli.options import LazySettings, log_option, store_options
from softwalltime.cli.output import Output, flattened, output_options
from softwalltime.errors import UsageError
from softwalltime.service.client import NoAnswerError, ask

if TYPE_CHECKING:
    from softwalltime.service.status import Status
    from softwalltime.settings import Settings


COLUMNS = ("field", "value")
"""Columns of the status as CSV."""
LONGEST_NAME = 16
"""Length of a figure's name up to which all values begin in the same column."""


@click.command()
@click.option("--socket", type=click.Path(dir_okay=False, path_type=Path), help="Socket for the hook.")
@click.option("--accounting", type=click.Path(path_type=Path), help="Accounting folder to follow.")
@log_option
@store_options
def serve(socket: Path | None, accounting: Path | None, log_format: str, settings: LazySettings) -> None:
    """Run the daemon, which answers the PBS hook.

    The daemon learns from completed jobs.  It runs in the foreground until SIGTERM.  SIGHUP reloads the policy.
    Settings come from the options, the environment or /etc/softwalltime/softwalltime.toml.

    \b
    Example:
      softwalltime serve --config softwalltime.toml
      softwalltime serve --config /etc/softwalltime/softwalltime.toml
    """
    config: Path | None = click.get_current_context().params["config"]

    def load() -> "Settings":
        loaded = settings(socket=socket, accounting=accounting)
        _require_own_settings(config)
        return loaded

    with ending_normally():
        from softwalltime import __version__
        from softwalltime.service.daemon import serve as run
        from softwalltime.service.logs import set_up_logging

        set_up_logging(log_format)
        run(load(), load, __version__)


def _require_own_settings(config: Path | None) -> None:
    """Refuse settings that another user could change, where the daemon runs as root.

    :raises UsageError: names the path and the command that corrects it.
    """
    from softwalltime.deployment.ownership import settings_writable_by_others

    if os.geteuid() == 0 and (found := settings_writable_by_others(config)) is not None:
        raise UsageError(
            f"settings: {found.path} {found.reason}, and root must not run with settings of another user: run "
            f"{found.remedy}, or run the daemon as user softwalltime"
        )


def client_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that select the daemon; pass its socket."""

    @click.option("--socket", type=click.Path(dir_okay=False, path_type=Path), help="Socket of the daemon.")
    @click.option("--config", type=click.Path(dir_okay=False, path_type=Path), help="Settings file.")
    @wraps(command)
    def wrapped(*args: Any, socket: Path | None, config: Path | None, **kwargs: Any) -> Any:
        from softwalltime.settings import load_settings

        return command(*args, socket=load_settings(config, socket=socket).socket, **kwargs)

    return wrapped


@click.command()
@output_options
@client_options
def status(output: Output, socket: Path) -> int:
    """Print the daemon's status, problems first.

    The exit status is 1 if the daemon is not ready, cannot use its store, or rejected the settings at the last reload.

    \b
    Example:
      softwalltime status --config softwalltime.toml
      softwalltime status
    """
    if output.form != "table":
        response = ask(socket, {"op": "status"})
        response.pop("v", None)
        if output.form == "json":
            output.document(response)
        else:
            output.rows(COLUMNS, flattened(response))
        # Older daemons do not report their settings.
        return 0 if response["ready"] and response["store"] == response.get("settings", "ok") == "ok" else 1
    found = ask_status(socket)
    _show(found, output)
    return 0 if found.working else 1


def ask_status(socket: Path) -> "Status":
    """Return the status of a daemon of this version; the fields of another may have another meaning.

    :raises NoAnswerError: if it does not answer, or names both versions and what to restart.
    """
    from softwalltime import __version__
    from softwalltime.service.status import Status

    response = ask(socket, {"op": "status"})
    if response.get("version") != __version__:
        raise NoAnswerError(
            f"the daemon has version {response.get('version')}, this command has {__version__}: restart the daemon, or "
            "use softwalltime status --format json"
        )
    return Status.from_json(response)


def _show(status: "Status", output: Output) -> None:
    """Print the status as text."""
    from softwalltime.cli.overview import overview, problems, span

    wrong = list(problems(status))
    state = output.style("needs attention:", "warning") if wrong else output.style("ok", "good")
    output.line(f"softwalltime {status.version}, pid {status.pid}, up {span(status.uptime)}: {state}")
    for line in wrong:
        output.paragraph(f"  ! {line}", "warning", 4)
    groups = overview(status, time.time())
    # One column of values in all groups, but those with a predictor's options or a queue as a name.
    common = max(len(name) for lines in groups.values() for name in lines if len(name) <= LONGEST_NAME)
    for group, lines in groups.items():
        output.line()
        output.line(group, "strong")
        width = max(common, *map(len, lines))
        for name, value in lines.items():
            output.paragraph(f"  {name:<{width}}  {value}", indent=width + 4)
