"""Replay through the hooks, compare with the fast replay: the work of ``softwalltime replay --through-hooks``."""

import os
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from softwalltime.cli.interruption import check_interruption
from softwalltime.cli.options import LazySettings
from softwalltime.cli.progress import progress_bar
from softwalltime.cli.through_hooks import HooksOptions
from softwalltime.emulation.through_hooks.environment import IMPLEMENTATION, environment_restored
from softwalltime.errors import UsageError
from softwalltime.policy.site import KEEP, WALLTIME
from softwalltime.predictors.registry import BASELINE
from softwalltime.replay.drive import ReplayResult, drive_ordering
from softwalltime.replay.workload import Workload

if TYPE_CHECKING:
    from softwalltime.emulation.through_hooks.comparison import Comparison
    from softwalltime.emulation.through_hooks.run import EmulationResult


@dataclass(frozen=True, slots=True)
class HooksResult:
    """Result of one predictor through the hooks, compared with the fast replay."""

    result: "EmulationResult"
    comparison: "Comparison"

    @property
    def sound(self) -> bool:
        """Whether nothing differs beyond what the faults explain."""
        return self.comparison.sound

    def figures(self) -> dict[str, object]:
        """Return the figures for JSON."""
        result, comparison = self.result, self.comparison
        return {
            "events": result.events,
            "accepted": result.accepted,
            "invalid": result.invalid,
            "unanswered": result.unanswered,
            "timeouts": result.timeouts,
            "faults": result.faults,
            "lost": comparison.lost,
            "differing": comparison.differing,
            "sound": comparison.sound,
            "seconds": round(result.replayed.seconds, 3),
            "jobs_per_second": round(result.replayed.jobs_per_second),
        }

    def summary(self) -> str:
        """Return the figures as a sentence."""
        result, comparison = self.result, self.comparison
        refused = result.events - result.accepted
        parts = [
            f"{result.events:,} events, {f'{refused:,} NOT ACCEPTED' if refused else 'all accepted'}",
            f"{result.invalid:,} invalid soft walltimes",
            f"{result.unanswered:,} without an answer ({result.timeouts:,} timeouts)",
            f"{result.replayed.seconds:.1f} s, {result.replayed.jobs_per_second:,.0f} jobs/s",
        ]
        if result.faults:
            parts.append(f"{result.faults} faults, {comparison.lost:,} soft walltimes lost")
        verdict = "identical to the fast replay"
        if comparison.differing:
            verdict = "\n".join((f"{comparison.differing:,} DIFFER from the fast replay:", *comparison.shown))
        return f"{', '.join(parts)}: {verdict}"


def replay_through_hooks(
    hooks: HooksOptions,
    workload: Workload,
    sources: tuple[str, ...],
    fast: Mapping[str, ReplayResult],
    minimum: int,
    settings: LazySettings,
    running: str | None = None,
) -> dict[str, HooksResult]:
    """Replay the workload through the hooks, once for each predictor except the baseline.

    :param fast: the results of the fast replay.
    :param running: the predictor for running jobs; ``None``: the walltime.
    """
    if hooks.transport == "postgres":
        _import_psycopg()
    from softwalltime import resources
    from softwalltime.accounting.folders import find_logs
    from softwalltime.cli.sources import STORE
    from softwalltime.emulation.through_hooks.alters import read_alters
    from softwalltime.emulation.through_hooks.comparison import compare
    from softwalltime.emulation.through_hooks.run import EmulationOptions, run
    from softwalltime.emulation.through_hooks.timeline import Timeline
    from softwalltime.store.embedded.server import embedded_postgres

    def postgres(folder: Path) -> AbstractContextManager[str]:
        return embedded_postgres(folder, durable=False)

    teaching = settings().teaching
    running = running or WALLTIME
    options = EmulationOptions(
        resources.hook(), postgres, teaching, hooks.transport, minimum, hooks.faults, hooks.seed, running=running,
        ordering=hooks.ordering,
    )  # fmt: skip
    ordering = None if hooks.ordering is None else drive_ordering(workload, hooks.ordering)
    alters = read_alters(find_logs(Path(source) for source in sources if source != STORE).files)
    results = {}
    # The baseline never predicts.
    specs = [spec for spec in fast if spec != BASELINE]
    with progress_bar("through the hooks", len(workload.jobs) * len(specs)) as progress:

        def interruptible(jobs: int) -> None:
            # A hook swallows every exception, also the one that a signal raises.
            check_interruption()
            progress(jobs)

        for spec in specs:
            timeline = Timeline(workload, alters, now=int(time.time()), postqueuejob=hooks.postqueuejob)
            result = run(timeline, spec, options, interruptible)
            comparison = compare(workload, result, fast[spec], at_start=running != KEEP, ordering=ordering)
            results[spec] = HooksResult(result, comparison)
    return results


def _import_psycopg() -> None:
    """Import psycopg in pure Python, as the hook does in pbs_server: the first import decides for the process."""
    with environment_restored(IMPLEMENTATION):
        os.environ[IMPLEMENTATION] = "python"
        try:
            import psycopg  # noqa: F401 - only to see whether it can be, as the hook will
        except ImportError as error:
            raise UsageError(f"--transport postgres: psycopg cannot be loaded: {error}; install libpq") from error
