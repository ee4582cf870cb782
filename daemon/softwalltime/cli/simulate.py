"""``softwalltime simulate``: what would a scheduling policy have done to waits?"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from softwalltime.cli.completing import complete_predictor, complete_source
from softwalltime.cli.options import Seeds, minimum_option, store_options
from softwalltime.cli.output import output_options
from softwalltime.cli.queue_walltimes import walltimes_option
from softwalltime.cli.selection import selection_options
from softwalltime.errors import OptionError
from softwalltime.policy.power_order import NAME as POWERS
from softwalltime.policy.power_order import PowerOrder
from softwalltime.simulation.corrections import CORRECTIONS
from softwalltime.simulation.names import BACKFILLS, CLASSES, ORDERS, SHAKES


class OrderName(click.Choice[str]):
    """An order by name; the family of powers with options after a colon."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The order as given, or a usage error."""
        if not str(value).startswith(f"{POWERS}:"):
            return super().convert(value, param, ctx)
        try:
            PowerOrder.of(value)
        except OptionError as error:
            self.fail(str(error), param, ctx)
        return str(value)


def policy_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that make a policy; those that are not given are ``None``."""
    kinds = "walltime, runtime (a bound: no scheduler knows it), or a predictor"
    for option in reversed(
        [
            click.option(
                "--order", type=OrderName(ORDERS),
                help="Order of the queue; powers takes options, as powers:wait=2,length=1,days=4.  Default: fcfs.",
            ),
            click.option("--backfill", type=click.Choice(BACKFILLS), help="Backfilling.  Default: easy."),
            click.option(
                "--waiting", metavar="SPEC", shell_complete=complete_predictor,
                help=f"Value of waiting jobs: {kinds}.  Default: walltime.",
            ),
            click.option(
                "--running", metavar="SPEC", shell_complete=complete_predictor,
                help="Value of running jobs.  Default: walltime.",
            ),
            click.option(
                "--ordering", metavar="SPEC", shell_complete=complete_predictor,
                help="Value that the order uses.  Default: walltime.",
            ),
            click.option(
                "--correction", type=click.Choice(list(CORRECTIONS)),
                help="Rule for a running job that outlives its value.  Default: pbs.",
            ),
            click.option(
                "--guard", type=click.IntRange(0), metavar="SECONDS",
                help="Backfill by walltimes while the top job is that late.",
            ),
            click.option(
                "--steer", type=click.FloatRange(0, 1, min_open=True, max_open=True), metavar="SHARE",
                help="Adapt waiting values until this share of promises is broken.",
            ),
            click.option("--formula", metavar="TEXT", help="PBS's job_sort_formula, for the order formula."),
            click.option(
                "--depth", type=click.IntRange(1), metavar="N",
                help="Jobs that get a reservation: PBS's backfill_depth.  Default: 1, or 300 of conservative.",
            ),
            click.option(
                "--live", type=click.IntRange(1), metavar="MINUTES", help="Set values anew every so many minutes."
            ),
            click.option("--age", type=click.IntRange(1), metavar="SECONDS", help="Of order xf.  Default: 3600."),
        ]
    ):  # fmt: skip
        command = option(command)
    return command


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...", shell_complete=complete_source)
@click.option(
    "--processors",
    type=click.IntRange(1),
    metavar="N",
    help="Machine size.  Default: that in the header of a trace, else the most in use.",
)
@click.option(
    "--vnodes",
    metavar="TEXT",
    help="Machine of vnodes, as 100:ncpus=32:mem=128gb+4:ncpus=64:ngpus=4; jobs are placed by select and place.",
)
@click.option(
    "--pbsnodes",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Machine of the vnodes in this output of pbsnodes -a -F json.",
)
@policy_options
@click.option(
    "--policies",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="TOML file with a table for each policy; the first one is the baseline.",
)
@click.option("--run-as-recorded", is_flag=True, help="Do not kill jobs at their walltime.")
@click.option("--kill-at-estimate", is_flag=True, help="Kill jobs at the running value that they start with.")
@click.option("--shake", type=click.Choice(SHAKES), help="Simulate shaken workloads, for confidence intervals.")
@click.option("--seeds", type=Seeds(), metavar="LIST", help="A shaken workload for each.  Default: 31-40.")
@click.option("--by", multiple=True, type=click.Choice(CLASSES), help="Figures by class too; may be given again.")
@click.option(
    "--schedule",
    "jobs_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the schedule as CSV with Batsim's columns; with --policies, a file for each.",
)
@click.option(
    "--keep",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Save figures in this file as they are computed; the same command continues from there.",
)
@click.option("--processes", type=click.IntRange(1), metavar="N", help="Processes.  Default: one a core.")
@click.option("--scheduler", metavar="ADDRESS", help="Simulate on a Dask cluster: its scheduler, as tcp://host:8786.")
@walltimes_option
@selection_options
@minimum_option
@output_options
@store_options
def simulate(**given: Any) -> int:
    """Schedule recorded jobs under a policy.

    A SOURCE is the same as for replay; several sources are one workload.  Each job is submitted at its recorded
    time and starts when the policy would have started it on a machine of N processors.  The policy of the options
    is compared with first come, first served, EASY backfilling and walltimes.  Nothing is changed anywhere.

    On a machine of vnodes (--vnodes, --pbsnodes) jobs are placed chunk by chunk: a job can wait although enough
    processors are free.  The scheduler is then PBS's cycle.

    One schedule depends on chance: a single changed start can change a whole year.  With --shake, each policy runs on
    the same shaken workloads, and changes are given with a 95% confidence interval.

    \b
    Example:
      softwalltime simulate accounting --processors 128 --waiting factor:0.5
      softwalltime simulate KTH-SP2.swf.gz --processors 100 --waiting factor:0.5
      softwalltime simulate LOGS --order xf --ordering v3 --waiting v3 --guard 3600 --shake week --seeds 31-40
      softwalltime simulate LOGS --backfill pbs --order formula --formula '(eligible_time + 3600) / predicted'
      softwalltime simulate LOGS --policies policies.toml --shake week --format json --by user
      softwalltime simulate LOGS --pbsnodes pbsnodes.json --waiting factor:0.5
    """
    from softwalltime.cli.measure.simulate import simulate_sources

    return simulate_sources(**given)
