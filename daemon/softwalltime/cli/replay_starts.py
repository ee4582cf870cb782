"""``softwalltime replay-starts``: how good would forecasts of start times have been?"""

from typing import Any

import click

from softwalltime.cli.completing import complete_source
from softwalltime.cli.options import runtimes_option, store_options
from softwalltime.cli.output import output_options
from softwalltime.cli.queue_walltimes import walltimes_option
from softwalltime.cli.selection import selection_options
from softwalltime.forecast.defaults import KINDS


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...", shell_complete=complete_source)
@click.option(
    "--processors",
    type=click.IntRange(1),
    metavar="N",
    help="Machine size.  Default: that in the header of a trace, else the most in use.",
)
@click.option("--recorded", is_flag=True, help="Judge against the recorded starts instead of a simulated schedule.")
@runtimes_option
@click.option(
    "--sample",
    type=click.IntRange(1),
    default=400,
    show_default=True,
    metavar="N",
    help="Jobs to forecast, of those that waited.",
)
@click.option(
    "--every",
    type=click.IntRange(60),
    default=3600,
    show_default=True,
    metavar="SECONDS",
    help="Time between two forecasts of a job.",
)
@click.option(
    "--runs",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    metavar="N",
    help="Runs for the ranges of a forecast.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the drawn runtimes.")
@click.option("--by", multiple=True, type=click.Choice(KINDS), help="Figures by class of jobs too; may be given again.")
@walltimes_option
@selection_options
@output_options
@store_options
def replay_starts(**given: Any) -> int:
    """Measure forecasts of start times on recorded jobs.

    A SOURCE is the same as for replay.  The jobs are scheduled first come, first served with EASY backfilling and
    walltimes on a machine of N processors, or as recorded (--recorded).  Of a sample of the jobs that waited, the start
    is forecast at the submission and every hour after, from what was known then, and compared with the actual start.
    Forecasts are corrected by earlier ones as the daemon corrects its own.  The first tenth of the sample only
    calibrates.  --by gives figures of classes too: of about the same expected wait, of about the same time waited
    before, of about the same number of processors, or of one queue.

    \b
    Example:
      softwalltime replay-starts accounting --processors 128 --sample 50 --runs 20
      softwalltime replay-starts KTH-SP2.swf.gz --processors 100
      softwalltime replay-starts LOGS --recorded --predictor memorizer:window=30d
      softwalltime replay-starts LOGS --since 2026-01-01 --by wait
    """
    from softwalltime.cli.measure.replay_starts import judge_forecasts

    return judge_forecasts(**given)
