"""The options of ``softwalltime tune``."""

import os
from pathlib import Path

import click

from softwalltime.cli.completing import complete_source
from softwalltime.cli.options import KEEP, MINIMUM_OPTION, PROCESSES, SHARE, LimitOptions, numbers, predictors
from softwalltime.cli.output import Output
from softwalltime.cli.parameters import option, options
from softwalltime.cli.site_options import SiteOptions
from softwalltime.cli.sources import STORE, RecordedJobs
from softwalltime.core.errors import SourceError, UsageError
from softwalltime.core.written import require_folder

SEEDS = tuple(range(31, 36))
"""Shaken workloads to simulate."""


@options
class TrainingOptions:
    """Which weights of calibrated to train; no file: beside the settings."""

    wanted: bool = option(
        "Also try calibrated with weights that are trained on the earlier part.  Needs PyTorch (the extra train).",
        "--train",
    )
    logs: tuple[str, ...] = option(
        "With --train: train on this log of another site too.  Repeatable.", "--train-with", metavar="LOG",
        shell_complete=complete_source,
    )  # fmt: skip
    file: Path | None = option(
        "With --train: write the weights to this file.  Default: weights-*.json beside the file of --write, or here.",
        "--weights", metavar="FILE",
    )  # fmt: skip

    def check(self, sources: tuple[str, ...], settings_file: Path | None, keep: Path | None) -> None:
        """Refuse what cannot succeed, before minutes of work.

        :raises SoftwalltimeError: if PyTorch is missing.
        :raises UsageError: if a log is given twice, or the file's name cannot be part of a predictor's options.
        :raises SourceError: if a file cannot be written.
        """
        if not self.wanted:
            if self.logs or self.file is not None:
                raise UsageError(f"{'--train-with' if self.logs else '--weights'} needs --train")
            return
        from softwalltime.measure.replay.sweep.kept_lines import KeptLines
        from softwalltime.measure.training.weights import require_torch

        require_torch()
        again = {os.path.realpath(source) for source in sources} & {os.path.realpath(log) for log in self.logs}
        if again or (STORE in sources and STORE in self.logs):
            raise UsageError(f"--train-with {min(again)}: SOURCE has this log, and its later part must not be learnt")
        place = self.place(settings_file, "")
        require_folder(place)
        if set(",|\n") & set(str(place)):
            raise UsageError(f"--weights {place}: a predictor's options cannot name a path with a comma or |")
        # Weights are trained for minutes before the file is needed.
        KeptLines(keep).close()

    def place(self, settings_file: Path | None, key: str) -> Path:
        """Return the file to write, as an absolute path: a file of other weights is not overwritten by default."""
        folder = Path() if settings_file is None else settings_file.parent
        return (folder / f"weights-{key[:8]}.json" if self.file is None else self.file).absolute()


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
    settings_file: Path | None = option(
        "Write the recommended [policy], in mode shadow, into this settings file; its other lines stay.  With "
        "--order: write the recommended order into this plan file, for policy set and verify.", "--write",
        metavar="FILE",
    )  # fmt: skip
    training: TrainingOptions
    minimum: int = MINIMUM_OPTION
    output: Output
    recorded: RecordedJobs

    def check(self) -> None:
        """Refuse what cannot succeed, before minutes of work.

        :raises SoftwalltimeError: says what.
        """
        if self.order:
            if self.listed or self.training.wanted or not self.simulated_jobs:
                raise UsageError(
                    "--order simulates orders: omit --predictors, --predictor, --train and --simulated-jobs 0"
                )
            if self.settings_file is not None:
                require_folder(self.settings_file)
            return
        file = self.settings_file
        if file is not None and not os.access(file if os.access(file, os.F_OK) else file.parent, os.W_OK):
            raise SourceError(f"{file}: cannot be written: it or its folder does not exist or is not writable")
        self.training.check(self.recorded.sources, file, self.keep)
