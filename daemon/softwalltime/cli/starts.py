"""``softwalltime starts``: when will waiting jobs start, and when would a job that is not yet submitted?"""

from pathlib import Path
from typing import Any

import click

from softwalltime.cli.completing import complete_source
from softwalltime.cli.options import runtimes_option, store_options
from softwalltime.cli.output import output_options
from softwalltime.forecast.defaults import FEWER_RUNS, LOOK, RUNS


@click.command()
@click.argument("jobs", nargs=-1, metavar="[JOB]...")
@click.option(
    "--snapshot", "file", type=click.Path(dir_okay=False, path_type=Path),
    help="State of the server from softwalltime snapshot, instead of the PBS server's own.",
)  # fmt: skip
@click.option("--from-store", is_flag=True, help="Print what the daemon forecast last, from the store ([starts]).")
@click.option("--user", default="", metavar="NAME", help="Only jobs of this user.")
@click.option("--group", default="", metavar="NAME", help="Only jobs of this group.")
@click.option("--project", default="", metavar="NAME", help="Only jobs of this project.")
@click.option("--queue", "queue_name", default="", metavar="NAME", help="Only jobs of this queue.")
@click.option(
    "--if", "probes", multiple=True, metavar="JOB",
    help="A job not yet submitted, as user=alice,ncpus=64,walltime=4:00:00,queue=long; repeatable.",
)  # fmt: skip
@click.option(
    "--log", "logs", multiple=True, metavar="SOURCE", shell_complete=complete_source,
    help="Learn runtimes from this log, folder of logs or trace, or store; repeatable.  Default: the store of the "
    "settings, if they name one.",
)  # fmt: skip
@runtimes_option
@click.option(
    "--runs",
    type=click.IntRange(0),
    metavar="N",
    help=f"Runs for the ranges; 0: no ranges.  Default: {RUNS}; of many jobs with limits or a formula {FEWER_RUNS}.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the drawn runtimes.")
@click.option(
    "--timeout", type=click.FloatRange(1), default=LOOK, show_default=True, metavar="SECONDS",
    help="Seconds that PBS's commands may take together.",
)  # fmt: skip
@output_options
@store_options
def starts(**given: Any) -> None:
    """Forecast when waiting jobs will start.

    The command simulates the scheduler many times from the state of the server on, with runtimes drawn from the
    predicted distributions.  The expected start is the median of these runs.  With --runs 0 there is one run with
    median runtimes, and there are no ranges.  The reason why a job waits comes from the run with median runtimes.  The
    forecast does not know jobs that are submitted later: starts are too early on average and ranges too narrow.  The
    output names each property of the server that is only approximated.

    --from-store asks neither PBS nor the simulator: it prints the daemon's newest forecasts, which are corrected by the
    errors of past ones.

    --if adds a job that has not been submitted, behind all others of its queue, to compare walltimes, sizes or queues.

    \b
    Example:
      softwalltime starts
      softwalltime starts --from-store --project chem --format json
      softwalltime starts 812 --log /var/spool/pbs/server_priv/accounting
      softwalltime starts --snapshot queue.json --if ncpus=64,walltime=4:00:00 --if ncpus=32,walltime=8:00:00
    """
    from softwalltime.cli.measure.starts import forecast_starts

    forecast_starts(**given)
