"""``python -m tests.emulation LOGS``: run hook and daemon for every job, and compare with the fast replay."""

import json
import os
import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from unittest.mock import patch

import click

from softwalltime.cli.command import command
from softwalltime.cli.interruption import handle_signals, interrupted
from softwalltime.cli.options import LIMIT, MINIMUM_OPTION, WALLTIMES, PredictorOptions, predictor
from softwalltime.cli.output import progress_bar
from softwalltime.cli.parameters import option, options
from softwalltime.cli.sources import RecordedJobs
from softwalltime.core.errors import SoftwalltimeError, UsageError
from softwalltime.measure.replay.fast_replay import drive_ordering, drive_specs
from softwalltime.measure.replay.workload import Workload
from softwalltime.predict.policy.clamp import MIN_SOFT_WALLTIME_S
from softwalltime.predict.policy.site import KEEP, WALLTIME
from softwalltime.predict.predictors.registry import BASELINE
from softwalltime.store.embedded.postgres_process import embedded_postgres
from tests.emulation.through_hooks.run import Comparison, EmulationOptions, EmulationResult, compare, run
from tests.emulation.through_hooks.timeline import Timeline


@options
class ThroughHooksOptions:
    predictors: PredictorOptions
    running: str = predictor("Predictor of running jobs, or walltime, or keep.", default=WALLTIME)
    ordering: str | None = predictor("Set and compare an ordering value too, by this predictor.")
    transport: str = option(
        "What the hook queries: the daemon, or the SQL functions in PostgreSQL.",
        type=click.Choice(["daemon", "postgres"]), default="daemon",
    )  # fmt: skip
    as_json: bool = option("Print the figures as JSON.", "--json")
    limit: int | None = LIMIT
    walltimes: Mapping[str, int] = WALLTIMES
    minimum: int = MINIMUM_OPTION
    recorded: RecordedJobs


@command()
def through_hooks(options: ThroughHooksOptions) -> int:
    """Replay recorded jobs through the PBS hook and a daemon that follows an accounting log.

    Daemon and PostgreSQL are started for the run and removed afterwards.  The exit status is 1 if a soft walltime
    differs from the fast replay's or a job was not accepted.
    """
    if options.minimum < MIN_SOFT_WALLTIME_S:
        raise UsageError(f"--min-soft-walltime {options.minimum}: the hook sets none below {MIN_SOFT_WALLTIME_S} s")
    specs = [spec for spec in options.predictors.specs if spec != BASELINE]
    teaching = options.recorded.settings().teaching
    workload = Workload(options.recorded.columns(options.walltimes)[0], options.limit, teaching)
    fast = drive_specs(workload, specs, options.running, options.minimum)
    ordering = None if options.ordering is None else drive_ordering(workload, options.ordering)
    emulated = EmulationOptions(
        partial(embedded_postgres, durable=False), teaching, options.transport,
        options.minimum, options.running, options.ordering,
    )  # fmt: skip
    sound, found = True, {}
    # As in pbs_server: the first import of psycopg decides for the process.
    pure = patch.dict(os.environ, PSYCOPG_IMPL="python") if options.transport == "postgres" else nullcontext()
    with pure, progress_bar("through the hooks", len(workload) * len(specs)) as progress:

        def interruptible(jobs: int) -> None:
            # A hook swallows every exception, also the one that a signal raises.
            if interrupted():
                raise KeyboardInterrupt
            progress(jobs)

        for spec in specs:
            result = run(Timeline(workload, now=int(time.time())), spec, emulated, interruptible)
            comparison = compare(workload, result, fast[spec], at_start=options.running != KEEP, ordering=ordering)
            sound = sound and comparison.sound
            found[spec] = figures(result, comparison)
            if not options.as_json:
                click.echo(f"{spec}: {summary(result, comparison)}")
    if options.as_json:
        click.echo(json.dumps({"jobs": len(workload), "through_hooks": found}))
    return 0 if sound else 1


def figures(result: EmulationResult, comparison: Comparison) -> dict[str, object]:
    speed = {"seconds": result.replayed.seconds, "jobs_per_second": round(result.replayed.jobs_per_second)}
    return asdict(result.counts) | {"differing": comparison.differing, "sound": comparison.sound} | speed


def summary(result: EmulationResult, comparison: Comparison) -> str:
    counts = result.counts
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


def main(arguments: list[str]) -> int:
    """Run the command and return its exit status; print an expected error in one line."""
    try:
        return int(through_hooks.main(arguments, "tests.emulation", standalone_mode=False) or 0)
    except (click.ClickException, SoftwalltimeError) as error:
        click.echo(str(error), err=True)
        return 2 if isinstance(error, UsageError) else 1
    except (click.Abort, KeyboardInterrupt):
        return 1


if __name__ == "__main__":
    handle_signals()
    sys.exit(main(sys.argv[1:]))
