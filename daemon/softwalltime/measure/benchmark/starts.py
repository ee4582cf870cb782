"""Forecasts of start times in a benchmark: one task forecasts the recorded or the simulated waits of one log."""

from typing import NamedTuple

from softwalltime.accounting.tally import Tally
from softwalltime.core.errors import SoftwalltimeError, SourceError
from softwalltime.measure.benchmark.cards import NamedLog, jobs_on_machine
from softwalltime.measure.benchmark.figures import NOTHING
from softwalltime.measure.forecast.judgement import ReplayStartsDocument, StartsPlan, replay_forecasts
from softwalltime.measure.replay.sweep.workers import require_version


class StartsTask(NamedTuple):
    """Forecasts for one log; ``processors`` and ``limit`` as in :func:`jobs_on_machine`."""

    log: NamedLog
    limit: int | None
    processors: int | None
    plan: StartsPlan
    version: str


def run_starts(task: StartsTask) -> tuple[StartsTask, tuple[ReplayStartsDocument | SoftwalltimeError, Tally]]:
    """Forecast; return the figures or why there are none, :class:`SourceError` if no job waits, and the log's tally.

    :raises SoftwalltimeError: if this process has another version of the package, or cannot read the log.
    """
    require_version(task.version)
    jobs, size, tally = jobs_on_machine(task.log, task.limit, task.processors)
    found: ReplayStartsDocument | SoftwalltimeError = SoftwalltimeError(NOTHING)
    try:
        if jobs.scored.any():
            found = replay_forecasts(task.log.name, jobs, size, task.plan)
    except SourceError as error:
        found = error
    # A predictor of another package may raise any exception.
    except Exception as error:
        found = SoftwalltimeError(f"{type(error).__name__}: {error}")
    return task, (found, tally)
