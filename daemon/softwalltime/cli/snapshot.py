"""``softwalltime snapshot``: the state of a PBS server as one JSON document."""

import click

from softwalltime.forecast.defaults import LOOK


@click.command()
@click.option(
    "--timeout", type=click.FloatRange(1), default=LOOK, show_default=True, metavar="SECONDS",
    help="Seconds that PBS's commands may take together.",
)  # fmt: skip
def snapshot(timeout: float) -> None:
    """Print the state of the PBS server as JSON.

    The document holds waiting and running jobs, vnodes, queues, reservations and the scheduler's settings.  It is what
    softwalltime starts --snapshot reads.  The command runs qstat, pbsnodes and pbs_rstat and changes nothing.

    \b
    Example:
      softwalltime snapshot > queue.json
    """
    from softwalltime.cli.live import look

    state = look(timeout)
    click.echo(state.to_json(), nl=False)
    for remark in state.remarks:
        click.echo(remark, err=True)
