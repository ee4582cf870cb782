"""``softwalltime snapshot``: the state of a PBS server as one JSON document."""

import click

from softwalltime.cli.command import command
from softwalltime.cli.options import TIMEOUT
from softwalltime.cli.parameters import options


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
    from softwalltime.cli.live import look

    state = look(options.timeout)
    click.echo(state.to_json(), nl=False)
    for remark in state.remarks:
        click.echo(remark, err=True)
