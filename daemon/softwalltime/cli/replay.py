"""``softwalltime replay``: measure predictors on recorded jobs."""

from pathlib import Path
from typing import Any

import click

from softwalltime.cli.completing import complete_source
from softwalltime.cli.options import Keys, minimum_option, policy_options, store_options
from softwalltime.cli.output import output_options
from softwalltime.cli.queue_walltimes import walltimes_option
from softwalltime.cli.selection import Period, selection_options
from softwalltime.cli.through_hooks import hooks_options
from softwalltime.predictors.keys import SIGNATURE


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...", shell_complete=complete_source)
@policy_options
@click.option(
    "--dump",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write every job and its soft walltimes to this file, .csv or .parquet.",
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Only the first N submitted jobs.")
@walltimes_option
@selection_options
@click.option(
    "--score",
    "scored",
    type=Period(),
    metavar="FROM..TO",
    help="Score only jobs submitted in this period; predictors learn from all.",
)
@click.option("--never-ran", is_flag=True, help="Score the jobs that never ran too, with a runtime of 0 s.")
@click.option(
    "--floor",
    "with_floor",
    is_flag=True,
    help="Print the least possible mean absolute error of predictions that are equal for jobs with the same signature, "
    "and add memorizer, which predicts the median runtime of recent jobs with the same signature.",
)
@click.option(
    "--floor-keys",
    "keys",
    type=Keys(),
    default="+".join(SIGNATURE),
    show_default=True,
    metavar="KEYS",
    help="The signature, joined by +.",
)
@minimum_option
@hooks_options
@output_options
@store_options
def replay(**given: Any) -> int:
    """Measure predictors on recorded jobs.

    A SOURCE is an accounting log or a folder of logs, a trace in Standard Workload Format, or the word "store" for the
    ingested jobs.  Each predictor predicts a job at its submission and learns from it at its end, as it would have at
    the time.  The command changes nothing.

    --running SPEC predicts each job at its start too, as the hook does, and reports both predictions.

    With --through-hooks each submission, start and alter of a job runs the PBS hook, which asks a daemon that follows
    an accounting log.  Daemon and PostgreSQL are started for the run and removed afterwards.  Each soft walltime is
    compared with the fast replay's.  The exit status is 1 if one differs or a job was not accepted.

    \b
    Example:
      softwalltime replay accounting
      softwalltime replay /var/spool/pbs/server_priv/accounting
      softwalltime replay KTH-SP2.swf.gz --predictors v1,v3,percentile:p=95,keys=user
      softwalltime replay KTH-SP2.swf.gz --waiting v1 --running v3
      softwalltime replay CEA-Curie.swf.gz --score 2012-07-25..2012-08-23 --floor
      softwalltime replay metacentrum.swf --walltime-from "q_2h=2:00:00,*=24:00:00"
      softwalltime replay KTH-SP2.swf.gz --through-hooks --faults kill-daemon,garbage
    """
    from softwalltime.cli.measure.replay import replay_sources

    return replay_sources(**given)
