"""The options of ``softwalltime tune``."""

from pathlib import Path

import click

from softwalltime.cli.options import KEEP, MINIMUM_OPTION, PLAN, PROCESSES, SHARE, LimitOptions, numbers, predictors
from softwalltime.cli.output import Output
from softwalltime.cli.parameters import option, options
from softwalltime.cli.site_options import SiteOptions
from softwalltime.cli.sources import RecordedJobs
from softwalltime.core.errors import UsageError
from softwalltime.core.written import require_folder

SEEDS = tuple(range(31, 36))
"""Shaken workloads to simulate."""


@options
class TuneOptions:
    listed: tuple[str, ...] = predictors("Try only these predictors or grids (default: all, with several options)")
    target: float = option("Greatest share of the jobs to underestimate.", type=click.FloatRange(
        0, 0.5, min_open=True, max_open=True
    ), default=0.05, metavar="SHARE")  # fmt: skip
    split: float = option(
        "Choose by this share of the jobs, the first ones; report the others.", type=SHARE, default=0.5, metavar="SHARE"
    )
    keep: Path | None = KEEP
    timeout: float = option(
        "Give up a predictor after so much processor time.", "--time-limit",
        type=click.FloatRange(0, min_open=True), default=600, metavar="SECONDS",
    )  # fmt: skip
    processes: int | None = PROCESSES
    order: bool = option("Search the order of the queue instead.")
    site: SiteOptions
    limits: LimitOptions
    simulated_jobs: int = option(
        "Simulate the newest N jobs, with --order of each part; 0: none.", least=0, default=10_000, metavar="N"
    )
    seeds: tuple[int, ...] = option(
        "A shaken workload for each.  Default: 31-35.", type=numbers, default=SEEDS, show_default=False, metavar="LIST"
    )
    plan: Path | None = PLAN
    minimum: int = MINIMUM_OPTION
    output: Output
    recorded: RecordedJobs

    def check(self) -> None:
        """Refuse what cannot succeed, before minutes of work.

        :raises SoftwalltimeError: says what.
        """
        if self.order and (self.listed or not self.simulated_jobs):
            raise UsageError("--order simulates orders: omit --predictors, --predictor and --simulated-jobs 0")
        require_folder(self.plan)
