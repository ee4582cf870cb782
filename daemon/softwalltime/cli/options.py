"""Options that several commands share: types of values, single options, and groups of them."""

import re
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from softwalltime.accounting.queue_limits import read_queue_limits
from softwalltime.cli.completing import complete_predictor, complete_source
from softwalltime.cli.parameters import FOLDER, argument, option, options
from softwalltime.core.errors import UsageError
from softwalltime.measure.forecast.defaults import LOOK, PREDICTOR
from softwalltime.predict.policy.clamp import MIN_SOFT_WALLTIME_S

if TYPE_CHECKING:
    from softwalltime.core.settings import Settings
    from softwalltime.reports.recommendation import WaitLimits

# Policy, predictors and settings are imported in functions: help does not need pydantic, which loads slowly.

PUBLISHED = "v1,v2,v3,v4,percentile"
"""The predictors to measure by default."""

LazySettings = Callable[..., "Settings"]
"""Reads the settings when called, with further overrides: a replay of logs needs none."""


def server_name(text: str) -> str:
    """Return the name of a PBS server, the host part of its job ids, or fail with a usage error."""
    from softwalltime.core.settings import SERVER_NAME

    if not SERVER_NAME.fullmatch(text):
        raise click.BadParameter(f"{text!r} is not a server name: use letters, digits, '.', '-' and '_'")
    return text


def numbers(value: str | tuple[int, ...]) -> tuple[int, ...]:
    """Return numbers and ranges of them, separated by commas, or fail with a usage error."""
    if isinstance(value, tuple):
        return value
    found: list[int] = []
    for part in value.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})(?:-(\d{1,9}))?\s*", part)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise click.BadParameter(f"{part.strip()!r} is neither a number nor a range such as 31-40")
        found += range(int(match[1]), int(match[2] or match[1]) + 1)
    return tuple(dict.fromkeys(found))


def queue_walltimes(value: str | dict[str, int]) -> dict[str, int]:
    """Return walltimes in seconds by queue, of pairs, a file of pairs, or a snapshot of the PBS server.

    :raises UsageError: if a pair is malformed, or a snapshot has no default.
    :raises SourceError: if the file cannot be read.
    """
    if isinstance(value, dict):
        return value
    with suppress(OSError), Path(value).open("rb") as stream:
        if "=" not in value and stream.read(64).lstrip().startswith(b"{"):
            from softwalltime.measure.forecast.snapshot import default_walltimes, load_snapshot

            if defaults := default_walltimes(load_snapshot(Path(value))):
                return defaults
            raise UsageError(
                f"{value}: no queue of this snapshot has a default or maximum walltime: give queue=HH:MM:SS"
            )
    return read_queue_limits(value)


SHARE = click.FloatRange(0, 1, min_open=True, max_open=True)
_GROWTH = click.FloatRange(0, 1000)
SOURCES = argument("SOURCE...", required=True, shell_complete=complete_source)
MINIMUM_OPTION = option(
    "Least soft walltime, in seconds.", "--min-soft-walltime", type=click.IntRange(1, 366 * 86400),
    default=MIN_SOFT_WALLTIME_S, metavar="SECONDS",
)  # fmt: skip
PLAN = option(
    "Write the recommended policy and its promise into this plan file, for policy set and verify.", "--write",
    metavar="FILE",
)  # fmt: skip
SITE_ORDER = option("Order of the site's queue.", type=click.Choice(["fcfs", "wfp"]), default="fcfs")
PROCESSES = option("Processes.  Default: one a core.", least=1, metavar="N")


@options
class WorkerOptions:
    """Who works: processes of this machine, or the workers of a Dask cluster."""

    processes: int | None = PROCESSES
    scheduler: str | None = option("Work on a Dask cluster: its scheduler, as tcp://host:8786.", metavar="ADDRESS")
    jobs_folder: str | None = option(
        "Folder for the jobs that a cluster's workers read, also as an address of fsspec, such as s3://bucket/folder.  "
        "Default: beside the results.", metavar="ADDRESS",
    )  # fmt: skip

    def __post_init__(self) -> None:
        if self.scheduler is not None and self.processes is not None:
            raise UsageError("--processes is for this machine; with --scheduler the cluster's workers do it")
        if self.scheduler is None and self.jobs_folder is not None:
            raise UsageError("--jobs-folder is for the workers of a cluster: add --scheduler, or omit it")


PROCESSORS = option(
    "Machine size.  Default: that in the header of a trace, else the most in use.", least=1, metavar="N"
)
KEEP = option("Save figures in this file as they are computed; the same command continues from there.", "--keep")
LIMIT = option("Only the first N submitted jobs.", least=1, metavar="N")
SIMULATED_JOBS = option("Simulate the newest N jobs.", least=1, default=50_000, metavar="N")
TIMEOUT = option("Seconds that an answer of PBS may take.", least=1, default=LOOK, metavar="SECONDS")
CONFIG = option("Settings file of the daemon.")
WALLTIMES = option(
    "Walltimes of jobs that have none, by queue: queue=HH:MM:SS,...; * for other queues; or a file of such "
    "lines; or the queue defaults in a file of softwalltime snapshot.",
    "--walltime-from", type=queue_walltimes, metavar="PAIRS|FILE",
)  # fmt: skip


def predictor(text: str, *names: str, **settings: Any) -> Any:
    return option(text, *names, metavar="SPEC", shell_complete=complete_predictor, **settings)


RUNTIMES = predictor("Predictor of runtimes.", "--predictor", default=PREDICTOR)


def share(text: str) -> Any:
    return option(text, type=click.FloatRange(0, 1, min_open=True), metavar="SHARE")


def predictors(text: str) -> Any:
    return option(
        f"{text}, separated by commas; repeatable.", "--predictors", "--predictor", metavar="LIST",
        shell_complete=complete_predictor,
    )  # fmt: skip


def named_specs(lists: tuple[str, ...]) -> list[str]:
    from softwalltime.predict.predictors.registry import split_specs

    return [spec for listed in lists for spec in split_specs(listed)]


@options
class PredictorOptions:
    listed: tuple[str, ...] = predictors(f"Predictors (default: {PUBLISHED})")

    def __post_init__(self) -> None:
        from softwalltime.predict.predictors.registry import make

        # Fail before minutes of reading.
        for spec in self.specs:
            make(spec)

    @cached_property
    def specs(self) -> tuple[str, ...]:
        """The predictors without duplicates, the baseline first."""
        from softwalltime.predict.predictors.registry import BASELINE

        return tuple(dict.fromkeys((BASELINE, *named_specs(self.listed or (PUBLISHED,)))))


@options
class LimitOptions:
    """What a policy may do to waits and promises, in percent of what the site runs."""

    max_tail: float = option(
        "Greatest growth of the mean and the 99th percentile wait of each class of jobs, in percent.",
        type=_GROWTH, default=5.0, metavar="PERCENT",
    )  # fmt: skip
    max_longest: float = option(
        "Greatest growth of the longest wait, in percent.", type=_GROWTH, default=10.0, metavar="PERCENT"
    )
    max_broken: float = option(
        "Greatest share of the promised starts that a policy may break more than the site does now, in percent.",
        type=click.FloatRange(0, 50), default=5.0, metavar="PERCENT",
    )  # fmt: skip

    @property
    def shares(self) -> "WaitLimits":
        from softwalltime.reports.recommendation import WaitLimits

        return WaitLimits(self.max_tail / 100, self.max_longest / 100, self.max_broken / 100)


@options
class StoreOptions:
    """Options of the store; calling them reads the settings, which a replay of logs does not need."""

    dsn: str | None = option(
        "PostgreSQL of the store.  Default: SOFTWALLTIME_DSN, the settings file, else an embedded PostgreSQL.",
        metavar="DSN",
    )
    data_dir: Path | None = option(
        "Use the embedded PostgreSQL in this folder.  Default: ~/.local/share/softwalltime.", type=FOLDER, metavar="DIR"
    )
    config: Path | None = option(
        "Settings file.  Default: ~/.config/softwalltime.toml and /etc/softwalltime/softwalltime.toml."
    )

    def __call__(self, **more: object) -> "Settings":
        from softwalltime.core.settings import load_settings

        loaded = load_settings(self.config, dsn=self.dsn, data_dir=self.data_dir, **more)
        # --data-dir means the embedded PostgreSQL, also where the settings file names another store.
        if self.data_dir is not None and self.dsn is None:
            return loaded.model_copy(update={"dsn": None})
        return loaded
