"""``softwalltime tune``: choose a predictor for a site from its own log."""

from pathlib import Path
from typing import Any

import click

from softwalltime.cli.completing import complete_source
from softwalltime.cli.options import (
    LazySettings,
    Seeds,
    list_of_predictors,
    max_broken_option,
    minimum_option,
    store_options,
)
from softwalltime.cli.output import Output, output_options
from softwalltime.cli.selection import JobSelection, selection_options
from softwalltime.cli.site_options import SiteOptions, site_options
from softwalltime.errors import UsageError

SIMULATED = 10_000
"""The newest jobs of the later part that are simulated."""
ORDER_SEEDS = tuple(range(31, 36))
"""Shaken workloads of each part, with --order."""
TIMEOUT = 600
"""Greatest processor time of one predictor in seconds."""


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...", shell_complete=complete_source)
@list_of_predictors(
    "Try only these predictors or grids, separated by commas.  Default: all, with the options they name.",
    "One predictor or grid",
)
@click.option(
    "--target",
    type=click.FloatRange(0, 0.5, min_open=True, max_open=True),
    default=0.05,
    show_default=True,
    metavar="SHARE",
    help="Greatest share of the jobs to underestimate.",
)
@click.option(
    "--split",
    "share",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.5,
    show_default=True,
    metavar="SHARE",
    help="Choose by this share of the jobs, the first ones; report the others.",
)
@click.option(
    "--keep",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Save figures in this file as they are computed; the same command continues from there.",
)
@click.option(
    "--time-limit",
    "timeout",
    type=click.FloatRange(0, min_open=True),
    default=TIMEOUT,
    show_default=True,
    metavar="SECONDS",
    help="Give up a predictor after so much processor time.",
)
@click.option("--processes", type=click.IntRange(1), metavar="N", help="Processes.  Default: one a core.")
@click.option("--order", is_flag=True, help="Search the order of the queue instead, within the limits below.")
@click.option(
    "--max-tail",
    type=click.FloatRange(0, 1000),
    default=5.0,
    show_default=True,
    metavar="PERCENT",
    help="With --order: greatest growth of the 99th percentile wait of each class of jobs, in percent.",
)
@click.option(
    "--max-longest",
    type=click.FloatRange(0, 1000),
    default=10.0,
    show_default=True,
    metavar="PERCENT",
    help="With --order: greatest growth of the longest wait, in percent.",
)
@site_options
@max_broken_option
@click.option(
    "--simulated-jobs",
    "newest",
    type=click.IntRange(0),
    default=SIMULATED,
    show_default=True,
    metavar="N",
    help="Simulate the newest N jobs, with --order of each part; 0: none.",
)
@click.option("--seeds", type=Seeds(), metavar="LIST", help="A shaken workload for each.  Default: 31-35.")
@click.option(
    "--write",
    "target_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the recommended [policy], in mode shadow, into this settings file; its other lines stay.  With "
    "--order: write the recommended order into this plan file, for policy set and verify.",
)
@click.option(
    "--train",
    is_flag=True,
    help="Also try calibrated with weights that are trained on the earlier part.  Needs PyTorch (the extra train).",
)
@click.option(
    "--train-with",
    "train_logs",
    multiple=True,
    metavar="LOG",
    shell_complete=complete_source,
    help="With --train: train on this log of another site too.  Repeatable.",
)
@click.option(
    "--weights",
    "weights_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="With --train: write the weights to this file.  Default: weights-*.json beside the file of --write, or here.",
)
@selection_options
@minimum_option
@output_options
@store_options
def tune(order: bool, max_tail: float, max_longest: float, **given: Any) -> int:
    """Choose a predictor, or with --order the order of the queue, for a site from its own log.

    A SOURCE is the same as for replay.  The log is split by time.  All predictors are tried with several options.  The
    earlier part chooses among them, and the figures are of the later, held-out part.  The best few are simulated on the
    newest jobs beside the policies of softwalltime report, and the verdict is that of report on these jobs: switch a
    policy on, do not, or the simulation cannot tell.

    With --train weights of calibrated are trained on the jobs that ended before the later part, and on the logs of
    other sites where they are given.  Its predictions with these weights are tried beside those with the weights in
    the package.  Other weights, of the first 70% of the earlier part, are tried on its other jobs, which choose.

    With --order the orders of the queue are searched in which powers of wait, length and size count.  The earlier part
    finds those that shorten waits within the limits, the middle part chooses among them, and the last part decides
    whether the chosen one is recommended, or none.

    \b
    Example:
      softwalltime tune accounting --predictors v1,v3,percentile --simulated-jobs 1000
      softwalltime tune /var/spool/pbs/server_priv/accounting --keep tune.jsonl
      softwalltime tune accounting --order --simulated-jobs 300 --seeds 31-32 --write plan.toml
      softwalltime tune accounting --train --train-with other-site.swf.gz --write softwalltime.toml
      softwalltime tune KTH-SP2.swf.gz --predictors v1,v3,calibrated:target=0.02|0.05 --write softwalltime.toml
    """
    if order:
        return _find_order(max_tail, max_longest, **given)
    from softwalltime.cli.measure.tune import choose_predictor

    return choose_predictor(**given)


def _find_order(
    max_tail: float, max_longest: float, share: float, max_broken: float, keep: Path | None, newest: int,
    seeds: tuple[int, ...] | None, target_file: Path | None, sources: tuple[str, ...], processes: int | None,
    site: SiteOptions, output: Output, minimum: int, selection: JobSelection, settings: LazySettings, **others: Any,
) -> int:  # fmt: skip
    """Search the order: the options of predictors are not for it."""
    if others["listed"] or others["single"] or others["train"] or not newest:
        raise UsageError("--order simulates orders: omit --predictors, --predictor, --train and --simulated-jobs 0")
    from softwalltime.cli.measure.tune_order import find_order
    from softwalltime.reports.order_search import OrderLimits

    limits = OrderLimits(max_tail / 100, max_longest / 100, max_broken / 100)
    return find_order(
        sources, share, limits, keep, processes, newest, seeds or ORDER_SEEDS, target_file, site, output, minimum,
        selection, settings,
    )  # fmt: skip
