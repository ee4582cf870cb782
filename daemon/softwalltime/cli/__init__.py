"""The commands ``softwalltime`` and ``swt``, their exit statuses and error lines."""

import errno
import os
import sys
from collections import UserDict
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from softwalltime.cli.interruption import handle_signals, interrupted
from softwalltime.core.errors import SoftwalltimeError
from softwalltime.core.extras import what_to_install

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_COMMANDS = {
    "replay": ("replay", "Measure predictors on recorded jobs."),
    "sweep": ("sweep", "Measure a grid of predictors on recorded jobs."),
    "tune": ("tune", "Choose a predictor for a site from its own log."),
    "simulate": ("simulate", "Schedule recorded jobs under a policy."),
    "experiment": ("experiment", "Repeat a paper's experiment on recorded jobs."),
    "train": ("train", "Train the weights of the predictor calibrated."),
    "report": ("report", "Write a page that says whether to switch soft walltimes on."),
    "advise": ("advise", "Suggest shorter walltimes to a user."),
    "benchmark": ("benchmark", "Compare predictors, schedules and start times on logs."),
    "collect": ("snapshot", "Collect what a report needs in one file."),
    "snapshot": ("snapshot", "Print the state of the PBS server as JSON."),
    "starts": ("starts", "Forecast when waiting jobs will start."),
    "what-if": ("what_if", "Compare the queue as it is with the queue after changes."),
    "me": ("me", "Show your own jobs: when they start and end."),
    "web": ("web", "Show users their jobs, and the queue, in a browser."),
    "replay-starts": ("replay_starts", "Measure forecasts of start times on recorded jobs."),
    "explain": ("explain", "Print the soft walltime of such a job, and why."),
    "serve": ("daemon", "Run the daemon, which answers the PBS hook."),
    "status": ("daemon", "Print the daemon's status, problems first."),
    "doctor": ("doctor", "Check PBS, hook, daemon and store."),
    "config": ("config", "Check the settings, and show what holds."),
    "ingest": ("store", "Store the completed jobs of accounting logs."),
    "db": ("db", "Create, upgrade, check, prune and reindex the tables."),
    "install": ("install", "Install or update the hook in PBS."),
    "uninstall": ("install", "Remove the hook from PBS, and its files from FOLDER."),
    "policy": ("policy", "Switch to a policy, and compare the policies."),
    "verify": ("verify", "Say whether the promise of a plan is kept."),
    "predictors": ("predictors", "List the predictors with rule, source and options."),
    "convert": ("workloads", "Write a trace as accounting logs."),
    "generate": ("workloads", "Write a synthetic workload as accounting logs."),
    "export": ("workloads", "Write recorded jobs in Parquet, to read them faster."),
    "files": ("files", "List, print or copy the files for an installation."),
    "schema": ("schema", "Print the JSON Schema of a command's output."),
    "completion": ("completing", "Print the completion script of a shell."),
    "man": ("man", "Write manual pages into FOLDER."),
}
"""Module of each command, and the first sentence of its help; OUTPUT.md describes the commands in this order."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Error codes of a full or failing disk, for redirected standard output."""


class _LazyCommands(UserDict[str, Any]):
    """Click group that imports a command only when it is called: importing all takes longer than most commands run."""

    def __getitem__(self, name: str) -> click.Command:
        command: click.Command = getattr(import_module(f"softwalltime.cli.{self.data[name]}"), name.replace("-", "_"))
        return command


class LazyGroup(click.Group):
    """A group whose help and completion import none of its commands.

    A test compares each summary with the command's own help.
    """

    def __init__(self, name: str | None = None, **more: Any) -> None:
        super().__init__(name, _LazyCommands({name: module for name, (module, _) in _COMMANDS.items()}), **more)
        self._outline = click.Group(
            commands={name: click.Command(name, help=summary) for name, (_, summary) in _COMMANDS.items()},
            add_help_option=False,
        )

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self._outline.format_commands(ctx, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list["CompletionItem"]:
        commands = self._outline.shell_complete(click.Context(self._outline), incomplete)
        return commands + click.Command.shell_complete(self, ctx, incomplete)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(None, "-V", "--version", package_name="pbs-softwalltime", prog_name="softwalltime")
@click.pass_obj
def cli(begin: Callable[[], None] | None) -> None:
    """Predict the runtimes of PBS jobs and set soft walltimes.

    Start with a replay of recorded jobs.  It needs no database and changes nothing:

    \b
    Example:
      softwalltime replay /var/spool/pbs/server_priv/accounting

    The first example of each command works in the folder that make demo writes (cd build/demo), those of install,
    uninstall, policy set, snapshot, site, collect, starts, what-if and me on a host with PBS, that of convert with any
    trace, that of verify with a plan that was switched on.
    """
    if begin is not None:
        begin()


def main(arguments: list[str] | None = None) -> None:
    """Run a command and exit with its status: 0 done, 1 failed, 2 wrong use (the table is in README.md)."""
    # Child processes must not import modules from the working directory, in which others may be able to write.
    os.environ["PYTHONSAFEPATH"] = "1"
    # Install handlers only after the command is loaded: before, there is nothing to clean up, and systemd regards death
    # by SIGTERM as success.
    sys.exit(run(arguments, handle_signals))


def run(arguments: list[str] | None = None, begin: Callable[[], None] | None = None) -> int:
    """Run a command and return its exit status; print an expected error in one line.

    :param begin: called when the command is loaded and about to begin.
    """
    try:
        status = cli.main(arguments, prog_name="softwalltime", standalone_mode=False, obj=begin)
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
    except ImportError as error:
        # One installation for all commands, also for those that need no jinja2.
        if missing := what_to_install(error, "report"):
            return _fail("softwalltime", missing, 1)
        raise
    except (click.Abort, KeyboardInterrupt):
        return _fail("softwalltime", "interrupted", 1)
    except BrokenPipeError:
        _discard_output()
        return 1
    except OSError as error:
        if error.errno not in _FULL or error.filename is not None:
            raise
        _discard_output()
        return _fail("softwalltime", f"standard output: cannot be written: {error.strerror}", 1)
    return status if isinstance(status, int) else 0


def _discard_output() -> None:
    """Redirect standard output to /dev/null: otherwise Python writes the rest at exit and prints an error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(name: str, message: str, status: int) -> int:
    click.echo(f"{name}: {' '.join(message.split())}", err=True)
    return status
