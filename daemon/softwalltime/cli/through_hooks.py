"""``softwalltime replay --through-hooks``: options and output."""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from softwalltime.cli.completing import complete_predictor
from softwalltime.cli.interruption import check_interruption
from softwalltime.cli.options import LazySettings
from softwalltime.cli.progress import progress_bar
from softwalltime.errors import UsageError
from softwalltime.policy.site import KEEP, WALLTIME
from softwalltime.predictors.registry import BASELINE, make
from softwalltime.replay.drive import ReplayResult, drive_ordering
from softwalltime.replay.workload import Workload

if TYPE_CHECKING:
    from softwalltime.emulation.through_hooks.comparison import Comparison
    from softwalltime.emulation.through_hooks.run import EmulationResult

LEAST = 60
"""Least soft walltime that the hook sets, in seconds."""
_KINDS = {"daemon": ("kill-daemon", "suspend-daemon", "stop-postgres", "garbage"), "postgres": ("stop-postgres",)}
"""Faults that can be injected, by transport."""


@dataclass(frozen=True, slots=True)
class HooksOptions:
    """Options of a replay through the hooks."""

    transport: str
    faults: tuple[str, ...]
    seed: int
    postqueuejob: bool
    ordering: str | None = None


def hooks_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options; pass them as ``hooks``, ``None`` for a fast replay."""

    @click.option("--through-hooks", is_flag=True, help="Run the PBS hook and a daemon for every job, and compare.")
    @click.option(
        "--transport", type=click.Choice(list(_KINDS)), default="daemon", show_default=True,
        help="What the hook queries: the daemon, or the SQL functions in PostgreSQL.",
    )  # fmt: skip
    @click.option(
        "--faults", "kinds", metavar="LIST", default="",
        help=f"Faults to inject, separated by commas: {', '.join(_KINDS['daemon'])}.",
    )  # fmt: skip
    @click.option(
        "--seed", type=click.IntRange(0), default=1, show_default=True, help="Random seed for the times of the faults."
    )
    @click.option(
        "--without-postqueuejob",
        is_flag=True,
        help="Emulate a server before OpenPBS 23, which has no postqueuejob event.",
    )
    @click.option(
        "--ordering",
        metavar="SPEC",
        shell_complete=complete_predictor,
        help="Set and compare an ordering value too, by this predictor.",
    )
    @wraps(command)
    def wrapped(
        *args: Any, through_hooks: bool, transport: str, kinds: str, seed: int, without_postqueuejob: bool,
        ordering: str | None, **more: Any,
    ) -> Any:  # fmt: skip
        faults = tuple(dict.fromkeys(filter(None, (kind.strip() for kind in kinds.split(",")))))
        for kind in faults:
            if kind not in _KINDS[transport]:
                raise UsageError(f"--faults: {kind!r}: with the transport {transport} {_among(_KINDS[transport])}")
        if through_hooks and more["minimum"] < LEAST:
            raise UsageError(f"--min-soft-walltime {more['minimum']}: the hook sets none below {LEAST} s")
        hooks = HooksOptions(transport, faults, seed, not without_postqueuejob, ordering)
        if not through_hooks and hooks != HooksOptions("daemon", (), seed, True):
            raise UsageError("--transport, --faults, --ordering and --without-postqueuejob need --through-hooks")
        if ordering is not None and transport == "postgres":
            raise UsageError("--ordering: only the daemon answers with an ordering value: use --transport daemon")
        if ordering not in (None, WALLTIME):
            make(ordering)
        return command(*args, hooks=hooks if through_hooks else None, **more)

    return wrapped


def _among(kinds: tuple[str, ...]) -> str:
    return f"there is {kinds[0]}" if len(kinds) == 1 else f"there are {', '.join(kinds)}"


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
        # Before the first import of psycopg: pbs_server needs its Python implementation too.
        os.environ["PSYCOPG_IMPL"] = "python"
        try:
            import psycopg  # noqa: F401 - only to see whether it can be, as the hook will
        except ImportError as error:
            raise UsageError(f"--transport postgres: psycopg cannot be loaded: {error}; install libpq") from error
    from softwalltime import resources
    from softwalltime.accounting.files import expand
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
    alters = read_alters(expand(Path(source) for source in sources if source != STORE))
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
