"""``softwalltime serve``, ``status``, ``predict`` and ``explain``: run the daemon, and query it."""

import json
import os
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from softwalltime import __version__
from softwalltime.accounting.values import clock, duration
from softwalltime.cli.options import LazySettings, log_option, store_options
from softwalltime.errors import UsageError
from softwalltime.jobs import DEFAULT_PROJECT
from softwalltime.service.client import NoAnswerError, ask
from softwalltime.settings import Settings, load_settings

if TYPE_CHECKING:
    from softwalltime.service.status import Status


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
      softwalltime serve --config /etc/softwalltime/softwalltime.toml
    """
    from softwalltime.service.daemon import serve as run
    from softwalltime.service.logs import set_up_logging

    config: Path | None = click.get_current_context().params["config"]

    def load() -> Settings:
        loaded = settings(socket=socket, accounting=accounting)
        _require_own_settings(config)
        return loaded

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
        return command(*args, socket=load_settings(config, socket=socket).socket, **kwargs)

    return wrapped


@click.command()
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Output format."
)
@client_options
def status(form: str, socket: Path) -> int:
    """Print the daemon's status, problems first.

    The exit status is 1 if the daemon is not ready, cannot use its store, or rejected the settings at the last reload.

    \b
    Example:
      softwalltime status
    """
    if form == "json":
        response = ask(socket, {"op": "status"})
        response.pop("v", None)
        click.echo(json.dumps(response))
        # Older daemons do not report their settings.
        return 0 if response["ready"] and response["store"] == response.get("settings", "ok") == "ok" else 1
    found = ask_status(socket)
    _show(found)
    return 0 if found.working else 1


def ask_status(socket: Path) -> "Status":
    """Return the status of a daemon of this version; the fields of another may have another meaning.

    :raises NoAnswerError: if it does not answer, or names both versions and what to restart.
    """
    from softwalltime.service.status import Status

    response = ask(socket, {"op": "status"})
    if response.get("version") != __version__:
        raise NoAnswerError(
            f"the daemon has version {response.get('version')}, this command has {__version__}: restart the daemon, or "
            "use softwalltime status --format json"
        )
    return Status.from_json(response)


def _show(status: "Status") -> None:
    """Print the status as text, in a terminal with colours."""
    from softwalltime.cli.overview import overview, problems, span

    wrong = list(problems(status))
    state = click.style("needs attention:" if wrong else "ok", fg="yellow" if wrong else "green", bold=True)
    click.echo(f"softwalltime {status.version}, pid {status.pid}, up {span(status.uptime)}: {state}")
    for line in wrong:
        click.echo(f"  ! {line}")
    for group, lines in overview(status, time.time()).items():
        click.echo(f"\n{click.style(group, bold=True)}")
        width = max(14, *map(len, lines))
        for name, value in lines.items():
            click.echo(f"  {name:<{width}}  {value}")


class DurationParameter(click.ParamType[int]):
    """A duration in any of PBS's formats, converted to seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the seconds, or fail with a usage error."""
        try:
            return duration(str(value))
        except ValueError:
            return self.fail(f"{value!r} is not a duration such as 02:00:00 or 7200", param, ctx)


def job_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that describe a job; call the command with the daemon's answer."""

    @click.option("--user", required=True, help="Owner of the job.")
    @click.option(
        "--walltime", type=DurationParameter(), metavar="DURATION", help="Walltime: 02:00:00, 30:00 or seconds."
    )
    @click.option("--queue", default="", help="Queue of the job.")
    @click.option("--project", default=DEFAULT_PROJECT, show_default=True, help="Project of the job.")
    @click.option("--group", default="", help="Group of the job.")
    @click.option("--job-name", default="", help="Name of the job.")
    @click.option("--ncpus", type=click.IntRange(1), help="Number of processors.")
    @click.option("--running", is_flag=True, help="Predict as at job start instead of at submission.")
    @client_options
    @wraps(command)
    def wrapped(*, running: bool, socket: Path, **job: Any) -> Any:
        request = {"op": "explain", "event": "runjob" if running else "queuejob", "job": job}
        return command(ask(socket, request))

    return wrapped


@click.command()
@job_options
def predict(answer: dict[str, Any]) -> int:
    """Print the soft walltime of such a job, in seconds.

    Without a soft walltime the exit status is 1 and the reason is printed on standard error.  Nothing is recorded.

    \b
    Example:
      softwalltime predict --user alice --walltime 24:00:00 --queue long
    """
    if answer["soft_walltime"] is None:
        click.echo(f"no soft walltime: {answer['basis']}", err=True)
        return 1
    click.echo(answer["soft_walltime"])
    return 0


@click.command()
@job_options
def explain(answer: dict[str, Any]) -> None:
    """Print the soft walltime of such a job, and why.

    \b
    Example:
      softwalltime explain --user alice --walltime 24:00:00 --queue long
    """
    seconds = answer["soft_walltime"]
    what = "no soft walltime" if seconds is None else f"soft walltime {clock(seconds)} ({seconds} s)"
    note = "; mode shadow: recorded, not set" if answer["action"] == "shadow" else ""
    click.echo(f"{what}: {answer['basis']} (predictor {answer['predictor']}{note})")
    if (ordering := answer.get("ordering")) is not None:
        click.echo(f"ordering value {clock(ordering)} ({ordering} s), for job_sort_formula")
