"""``softwalltime serve`` and ``status``: run the daemon, and print its status."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from softwalltime.cli.command import Result, command
from softwalltime.cli.interruption import ending_normally
from softwalltime.cli.options import StoreOptions
from softwalltime.cli.output import Output
from softwalltime.cli.parameters import option, options
from softwalltime.core.errors import UsageError
from softwalltime.core.formatting import duration
from softwalltime.service.protocol import NoAnswerError, ask

if TYPE_CHECKING:
    from softwalltime.core.settings import Settings
    from softwalltime.service.status import Status

MAX_NAME_CHARS = 16
"""Maximum characters of a name for the common column of values."""


@options
class ServeOptions:
    socket: Path | None = option("Socket for the hook.")
    accounting: Path | None = option("Accounting folder to follow.", type=click.Path(path_type=Path))
    settings: StoreOptions


@command()
def serve(options: ServeOptions) -> None:
    """Run the daemon, which answers the PBS hook.

    The daemon learns from completed jobs.  It runs in the foreground until SIGTERM.  SIGHUP reloads the policy.
    Settings come from the options, the environment or /etc/softwalltime/softwalltime.toml.

    \b
    Example:
      softwalltime serve --config softwalltime.toml
      softwalltime serve --config /etc/softwalltime/softwalltime.toml
    """

    def load() -> "Settings":
        from softwalltime.deployment.ownership import settings_writable_by_others

        loaded = options.settings(socket=options.socket, accounting=options.accounting)
        risk = settings_writable_by_others(options.settings.config) if os.geteuid() == 0 else None
        if risk is not None:
            raise UsageError(
                f"settings: {risk.path} {risk.reason}, and root must not run with settings of another user: run "
                f"{risk.remedy}, or run the daemon as user softwalltime"
            )
        return loaded

    with ending_normally():
        from softwalltime import __version__
        from softwalltime.service.daemon import serve as run
        from softwalltime.service.log_output import set_up_logging

        set_up_logging()
        run(load(), load, __version__)


@options
class DaemonOptions:
    given_socket: Path | None = option("Socket of the daemon.", "--socket")
    config: Path | None = option("Settings file.")

    @property
    def socket(self) -> Path:
        from softwalltime.core.settings import load_settings

        return load_settings(self.config, socket=self.given_socket).socket


@options
class StatusOptions:
    output: Output
    daemon: DaemonOptions


@command("the status")
def status(options: StatusOptions) -> Result["Status"]:
    """Print the daemon's status, problems first.

    The exit status is 1 if the daemon is not ready, cannot use its store, or rejected the settings at the last reload.

    \b
    Example:
      softwalltime status --config softwalltime.toml
      softwalltime status
    """
    current = ask_status(options.daemon.socket)
    return Result(current, print_status, 0 if current.working else 1)


def ask_status(socket: Path) -> "Status":
    """Return the status; a NoAnswerError for a daemon of another version names both and what to restart."""
    from softwalltime import __version__
    from softwalltime.service.status import Status

    response = ask(socket, {"op": "status"})
    if response.get("version") != __version__:
        raise NoAnswerError(
            f"the daemon has version {response.get('version')}, this command has {__version__}: restart the daemon"
        )
    return Status.from_json(response)


def print_status(output: Output, status: "Status") -> None:
    from softwalltime.cli.overview import overview
    from softwalltime.service.status_problems import problems

    wrong = problems(status)
    state = output.style("needs attention:", "warning") if wrong else output.style("ok", "good")
    output.line(f"softwalltime {status.version}, pid {status.pid}, up {duration(status.uptime)}: {state}")
    for line in wrong:
        output.paragraph(f"  ! {line}", "warning", 4)
    groups = overview(status, time.time())
    # One column of values in all groups, but those with a predictor's options or a queue as a name.
    common = max(len(name) for lines in groups.values() for name in lines if len(name) <= MAX_NAME_CHARS)
    for group, lines in groups.items():
        output.line()
        output.line(group, "strong")
        width = max(common, *map(len, lines))
        for name, value in lines.items():
            output.paragraph(f"  {name:<{width}}  {value}", indent=width + 4)
