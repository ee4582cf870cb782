"""The commands ``softwalltime`` and ``swt``, their exit statuses and error lines."""

import os
import sys

import click

from softwalltime import __version__
from softwalltime.cli.interruption import handle_signals, interrupted
from softwalltime.cli.lazy import LazyCommands
from softwalltime.errors import SoftwalltimeError

_COMMANDS = {
    "replay": "softwalltime.cli.replay",
    "report": "softwalltime.cli.report",
    "sweep": "softwalltime.cli.sweep",
    "ingest": "softwalltime.cli.store",
    "predictors": "softwalltime.cli.predictors",
    "convert": "softwalltime.cli.workloads",
    "generate": "softwalltime.cli.workloads",
    "db": "softwalltime.cli.store",
    "serve": "softwalltime.cli.daemon",
    "status": "softwalltime.cli.daemon",
    "top": "softwalltime.cli.top",
    "predict": "softwalltime.cli.daemon",
    "explain": "softwalltime.cli.daemon",
    "simulate": "softwalltime.cli.simulate",
    "policy": "softwalltime.cli.policy",
    "experiment": "softwalltime.cli.experiment",
    "install": "softwalltime.cli.install",
    "uninstall": "softwalltime.cli.install",
    "doctor": "softwalltime.cli.doctor",
    "snapshot": "softwalltime.cli.snapshot",
    "starts": "softwalltime.cli.starts",
    "replay-starts": "softwalltime.cli.replay_starts",
}


@click.group(
    commands=LazyCommands(_COMMANDS), context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, "-V", "--version", prog_name="softwalltime")
def cli() -> None:
    """Predict the runtimes of PBS jobs and set soft walltimes.

    Start with a replay of recorded jobs.  It needs no database and changes nothing:

    \b
    Example:
      softwalltime replay /var/spool/pbs/server_priv/accounting
    """


def main(arguments: list[str] | None = None) -> None:
    """Run a command and exit with its status: 0 done, 1 failed, 2 wrong use (the table is in README.md)."""
    handle_signals()
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit status; print an expected error in one line."""
    try:
        status = cli.main(arguments, prog_name="softwalltime", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else str(error), err=True)
        return 2
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        name = context.command_path if context else "softwalltime"
        return _fail(name, f"{error.format_message()} (try '{name} --help')", error.exit_code)
    except SoftwalltimeError as error:
        if interrupted():
            return _fail("softwalltime", "interrupted", 1)
        return _fail("softwalltime", str(error), error.exit_status)
    except (click.Abort, KeyboardInterrupt):
        return _fail("softwalltime", "interrupted", 1)
    except BrokenPipeError:
        # The reader has closed the pipe; without this Python complains at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status if isinstance(status, int) else 0


def _fail(name: str, message: str, status: int) -> int:
    click.echo(f"{name}: {' '.join(message.split())}", err=True)
    return status
