"""``softwalltime advise``: tell users which walltime would have been enough."""

from pathlib import Path
from typing import Any

import click

from softwalltime.cli.completing import complete_source
from softwalltime.cli.options import Seeds, site_order_option, store_options
from softwalltime.cli.output import output_options
from softwalltime.cli.queue_walltimes import walltimes_option
from softwalltime.cli.selection import Instant


@click.command()
@click.argument("user", required=False)
@click.option(
    "--log",
    "sources",
    multiple=True,
    metavar="SOURCE",
    shell_complete=complete_source,
    help="A log, folder or trace; repeatable.  Default: the store, which must exist.",
)
@click.option(
    "--mail-merge",
    "merge",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a CSV file with a line for each user who requests too much.",
)
@click.option("--since", type=Instant(), metavar="TIME", help="Only jobs submitted from this day or time on (UTC).")
@click.option("--until", type=Instant(end=True), metavar="TIME", help="Only jobs submitted up to this day or time.")
@click.option(
    "--processors",
    type=click.IntRange(1),
    metavar="N",
    help="Machine size.  Default: that in the header of a trace, else the most in use.",
)
@site_order_option
@click.option(
    "--seeds", type=Seeds(), default="31-35", show_default=True, metavar="LIST", help="A shaken workload for each."
)
@click.option(
    "--simulated-jobs", type=click.IntRange(1), default=50_000, show_default=True, metavar="N",
    help="Simulate the newest N jobs.",
)  # fmt: skip
@walltimes_option
@output_options
@store_options
def advise(**given: Any) -> int:
    """Suggest shorter walltimes to a user.

    For each walltime that USER requests, the command suggests a shorter one that would have been enough for the user's
    jobs, and simulates how much earlier they would have started.  A suggestion must also hold on jobs that it was not
    made from: the newer half of the jobs.  With --mail-merge it does the same for all users and writes a CSV file; the
    simulation then has all of them follow their advice.  Nothing else is changed.

    \b
    Example:
      softwalltime advise user069 --log accounting
      softwalltime advise alice --log /var/spool/pbs/server_priv/accounting
      softwalltime advise --mail-merge advice.csv --log KTH-SP2.swf.gz --processors 100
    """
    from softwalltime.cli.measure.advise import suggest_walltimes

    return suggest_walltimes(**given)
