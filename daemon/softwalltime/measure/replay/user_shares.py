"""Replay a file in several processes, each a share of the users."""

from collections.abc import Callable, Sequence
from functools import partial

from softwalltime.core.errors import UsageError
from softwalltime.measure.replay.fast_replay import ReplayResult, drive_specs, drivers
from softwalltime.measure.replay.parquet import ParquetWorkload
from softwalltime.measure.replay.sweep.workers import local_workers
from softwalltime.measure.replay.workload import Recorded
from softwalltime.predict.policy.site import KEEP, WALLTIME
from softwalltime.predict.predictors.registry import make


def require_by_user(specs: Sequence[str]) -> None:
    """Require predictors whose predictions for a user depend on no other user's jobs.

    :raises UsageError: names those that do not.
    """
    if others := [spec for spec in specs if spec not in (WALLTIME, KEEP) and not make(spec).by_user]:
        raise UsageError(f"--processes: {', '.join(others)} learns from the jobs of all users, which one process reads")


def drive_shares(
    workload: Recorded, specs: Sequence[str], running: str, minimum: int, processes: int,
    progress: Callable[[int], None] = lambda _: None,
) -> dict[str, ReplayResult]:  # fmt: skip
    """Return what :func:`.drive_specs` returns; each process reads the whole file and drives the jobs of its users.

    The predictors are those that :func:`require_by_user` accepts.

    :raises UsageError: if the workload is in memory.
    """
    if not isinstance(workload, ParquetWorkload):
        raise UsageError("--processes: needs one file of softwalltime export, without --through-hooks")
    runs = drivers(workload, specs, running, minimum)
    shares = [workload.share(number, processes) for number in range(processes)]
    drive = partial(_drive_share, specs=specs, running=running, minimum=minimum)
    for seconds in local_workers(processes).do(drive, shares):
        for spec, run in runs.items():
            run.seconds = max(run.seconds, seconds[spec])
        progress(len(workload) * len(specs) // processes)
    return {spec: run.result() for spec, run in runs.items()}


def _drive_share(share: ParquetWorkload, specs: Sequence[str], running: str, minimum: int) -> dict[str, float]:
    """Drive the jobs of a share, which writes the results; return the seconds of each predictor."""
    return {spec: result.seconds for spec, result in drive_specs(share, specs, running, minimum).items()}
