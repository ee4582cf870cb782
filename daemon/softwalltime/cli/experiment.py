"""``softwalltime experiment``: the experiments of five papers, repeated on any trace."""

from typing import Any

import click

from softwalltime.cli.completing import complete_predictor, complete_source
from softwalltime.cli.options import Seeds, store_options
from softwalltime.cli.output import output_options
from softwalltime.cli.queue_walltimes import walltimes_option
from softwalltime.experiments.names import PAPERS


@click.command()
@click.argument("paper", type=click.Choice(PAPERS))
@click.argument("traces", nargs=-1, metavar="[TRACE...]", shell_complete=complete_source)
@click.option(
    "--processors",
    type=click.IntRange(1),
    metavar="N",
    help="Machine size.  Default: that in the header of a trace, else the most in use.",
)
@click.option("--seeds", type=Seeds(), metavar="LIST", help="Simulate workloads shaken by weeks, one for each.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Only the first N submitted jobs.")
@click.option("--months", type=Seeds(), metavar="LIST", help="Only these months of the trace, counted from 1: 1-12.")
@click.option(
    "--predictor",
    "more",
    multiple=True,
    metavar="SPEC",
    shell_complete=complete_predictor,
    help="One more predictor to compare, in papers that compare predictors; may be given again.",
)
@click.option("--details", is_flag=True, help="Print the long tables as well.")
@walltimes_option
@output_options
@click.option("-j", "--processes", type=click.IntRange(1), metavar="N", help="Processes.  Default: one a core.")
@store_options
def experiment(**given: Any) -> int:
    """Repeat a paper's experiment on recorded jobs.

    A TRACE is the same as a SOURCE of replay; each one is a separate workload.  Without one, a synthetic workload is
    used.  The policies, predictors and metrics are the paper's.  The output has its figures beside the results, and
    the differences from its setting below them.  With --seeds, changes have 95% confidence intervals.

    \b
    Example:
      softwalltime experiment tang2013 accounting --processors 128 --limit 2000
      softwalltime experiment tang2013 SDSC-SP2.swf.gz --processors 128 --months 1-12
      softwalltime experiment chlumsky2022 SDSC-SP2.swf.gz HPC2N.swf.gz --seeds 31-35 -j 2
      softwalltime experiment fan2017 LOGS --predictor v3 --format json
    """
    from softwalltime.cli.measure.experiment import repeat_experiment

    return repeat_experiment(**given)
