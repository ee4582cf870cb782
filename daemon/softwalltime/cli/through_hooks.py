"""Replay through the hooks and compare with the fast replay: ``softwalltime replay --through-hooks``."""

import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING

import click

from softwalltime.cli.interruption import interrupted
from softwalltime.cli.options import predictor
from softwalltime.cli.output import progress_bar
from softwalltime.cli.parameters import option, options
from softwalltime.cli.sources import RecordedJobs
from softwalltime.core.errors import UsageError
from softwalltime.predict.policy.clamp import MIN_SOFT_WALLTIME_S

if TYPE_CHECKING:
    from softwalltime.emulation.through_hooks.run import Comparison, EmulationResult
    from softwalltime.measure.replay.fast_replay import ReplayResult
    from softwalltime.measure.replay.workload import Workload


@options
class HooksOptions:
    wanted: bool = option("Run the PBS hook and a daemon for every job, and compare.", "--through-hooks")
    transport: str = option(
        "What the hook queries: the daemon, or the SQL functions in PostgreSQL.",
        type=click.Choice(["daemon", "postgres"]), default="daemon",
    )  # fmt: skip
    ordering: str | None = predictor("Set and compare an ordering value too, by this predictor.")

    def check(self, minimum: int) -> None:
        """Refuse options that contradict each other; ``minimum``: least soft walltime, in seconds."""
        if self.wanted and minimum < MIN_SOFT_WALLTIME_S:
            raise UsageError(f"--min-soft-walltime {minimum}: the hook sets none below {MIN_SOFT_WALLTIME_S} s")
        if not self.wanted and (self.transport != "daemon" or self.ordering):
            raise UsageError("--transport and --ordering need --through-hooks")
        if self.ordering is not None and self.transport == "postgres":
            raise UsageError("--ordering: only the daemon answers with an ordering value: use --transport daemon")
        if self.ordering not in (None, "walltime"):
            from softwalltime.predict.predictors.registry import make

            make(self.ordering)


@dataclass(frozen=True, slots=True)
class HooksResult:
    """Result of one predictor through the hooks, compared with the fast replay."""

    result: "EmulationResult"
    comparison: "Comparison"

    def figures(self) -> dict[str, object]:
        result, comparison = self.result, self.comparison
        counts = asdict(result.counts)
        speed = {
            "seconds": round(result.replayed.seconds, 3),
            "jobs_per_second": round(result.replayed.jobs_per_second),
        }
        return {**counts, "differing": comparison.differing, "sound": comparison.sound, **speed}

    def summary(self) -> str:
        result, comparison, counts = self.result, self.comparison, self.result.counts
        refused = counts.events - counts.accepted
        parts = [
            f"{counts.events:,} events, {f'{refused:,} NOT ACCEPTED' if refused else 'all accepted'}",
            f"{counts.invalid:,} invalid soft walltimes",
            f"{counts.unanswered:,} without an answer ({counts.timeouts:,} timeouts)",
            f"{result.replayed.seconds:.1f} s, {result.replayed.jobs_per_second:,.0f} jobs/s",
        ]
        verdict = "identical to the fast replay"
        if comparison.differing:
            verdict = "\n".join((f"{comparison.differing:,} DIFFER from the fast replay:", *comparison.shown))
        return f"{', '.join(parts)}: {verdict}"


def replay_through_hooks(
    hooks: HooksOptions, workload: "Workload", fast: "Mapping[str, ReplayResult]", recorded: RecordedJobs,
    minimum: int, running: str,
) -> dict[str, HooksResult]:  # fmt: skip
    """Replay the workload through the hooks, once for each predictor except the baseline.

    :param fast: the results of the fast replay.
    :param running: the predictor for running jobs, ``walltime`` or ``keep``.
    """
    if hooks.transport == "postgres":
        _import_psycopg()
    from softwalltime.emulation.through_hooks.run import EmulationOptions, compare, run
    from softwalltime.emulation.through_hooks.timeline import Timeline
    from softwalltime.measure.replay.fast_replay import drive_ordering
    from softwalltime.predict.policy.site import KEEP
    from softwalltime.predict.predictors.registry import BASELINE
    from softwalltime.store.embedded.postgres_process import embedded_postgres

    postgres, teaching = partial(embedded_postgres, durable=False), recorded.settings().teaching
    options = EmulationOptions(postgres, teaching, hooks.transport, minimum, running, hooks.ordering)
    ordering = None if hooks.ordering is None else drive_ordering(workload, hooks.ordering)
    results = {}
    specs = [spec for spec in fast if spec != BASELINE]
    with progress_bar("through the hooks", len(workload.jobs) * len(specs)) as progress:

        def interruptible(jobs: int) -> None:
            # A hook swallows every exception, also the one that a signal raises.
            if interrupted():
                raise KeyboardInterrupt
            progress(jobs)

        for spec in specs:
            timeline = Timeline(workload, now=int(time.time()))
            result = run(timeline, spec, options, interruptible)
            comparison = compare(workload, result, fast[spec], at_start=running != KEEP, ordering=ordering)
            results[spec] = HooksResult(result, comparison)
    return results


def _import_psycopg() -> None:
    """Import psycopg in pure Python, as the hook does in pbs_server: the first import decides for the process."""
    from unittest.mock import patch

    with patch.dict(os.environ, PSYCOPG_IMPL="python"):
        try:
            import psycopg  # noqa: F401 - only to see whether it can be, as the hook will
        except ImportError as error:
            raise UsageError(f"--transport postgres: psycopg cannot be loaded: {error}; install libpq") from error
