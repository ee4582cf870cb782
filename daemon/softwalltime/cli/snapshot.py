"""``softwalltime snapshot``: the state of a PBS server, read by PBS's commands, as one JSON document."""

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC
from typing import TYPE_CHECKING

import click

from softwalltime.cli.command import command
from softwalltime.cli.options import TIMEOUT
from softwalltime.cli.parameters import options
from softwalltime.deployment.qmgr import PbsError, Qmgr, find, run
from softwalltime.forecast.defaults import LOOK

if TYPE_CHECKING:
    from softwalltime.forecast.snapshot import ServerSnapshot

_UTC = {"TZ": "UTC"}
"""PBS's commands print local times without a zone."""


@options
class SnapshotOptions:
    timeout: float = TIMEOUT


@command()
def snapshot(options: SnapshotOptions) -> None:
    """Print the state of the PBS server as JSON.

    The document holds waiting and running jobs, vnodes, queues, reservations and the scheduler's settings.  It is what
    softwalltime starts --snapshot reads.  The command runs qstat, pbsnodes and pbs_rstat and changes nothing.

    \b
    Example:
      softwalltime snapshot > queue.json
    """
    state = look(options.timeout)
    click.echo(state.to_json(), nl=False)
    for remark in state.remarks:
        click.echo(remark, err=True)


def look(seconds: float = LOOK, pbs: Callable[[], Qmgr] = find) -> "ServerSnapshot":
    """Return the state of the PBS server that this host's commands ask.

    An ordinary user's rights suffice where the server shows jobs of others (``query_other_jobs``).

    :param seconds: what all commands together may take.
    :raises PbsError: if PBS cannot be reached, or takes longer.
    :raises SourceError: if what it prints cannot be read at all.
    """
    from softwalltime.forecast.pbs_state import PbsOutput, snapshot_of

    qmgr = pbs()
    folder = qmgr.qmgr.parent
    deadline = time.monotonic() + seconds

    def printed(name: str, *options: str) -> str:
        left = deadline - time.monotonic()
        if left <= 0:
            raise PbsError(f"PBS has not answered in {seconds:g} s: allow more with --timeout, or ask at another time")
        return run([str(folder / name), *options], left, environment=_UTC)

    def optional(name: str, *options: str) -> str:
        try:
            return printed(name, *options)
        except PbsError:
            return ""

    # An ordinary user cannot read it.
    sched_config = ""
    with suppress(OSError):
        sched_config = (qmgr.home / "sched_priv" / "sched_config").read_text(encoding="utf-8", errors="replace")
    return snapshot_of(
        PbsOutput(
            jobs=printed("qstat", "-t", "-f", "-F", "json"),
            vnodes=printed("pbsnodes", "-a", "-F", "json"),
            queues=printed("qstat", "-Q", "-f", "-F", "json"),
            server=printed("qstat", "-B", "-f", "-F", "json"),
            reservations=optional("pbs_rstat", "-f"),
            sched_config=sched_config,
        ),
        UTC,
    )
