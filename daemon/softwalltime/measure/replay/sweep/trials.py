"""Evaluate predictors on workloads, one task each, and save the results: for sweep and tune."""

from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from hashlib import sha256
from json import dumps
from time import thread_time
from typing import NamedTuple

from pydantic import TypeAdapter

from softwalltime import __version__
from softwalltime.core.errors import SourceError
from softwalltime.core.garbage import rare_collections
from softwalltime.measure.replay.accuracy_metrics import Scores, score
from softwalltime.measure.replay.fast_replay import drive
from softwalltime.measure.replay.sweep.jobs_file import Snapshot, load, load_once
from softwalltime.measure.replay.sweep.kept_lines import KeptLines
from softwalltime.measure.replay.sweep.workers import Workers, require_version
from softwalltime.predict.predictors.registry import contents_of, make

UNLIMITED = 1e9
"""Seconds of processor time."""


class Part(NamedTuple):
    """Scored jobs submitted from ``since`` to before ``until`` (epoch seconds), without the first share ``warm_up``."""

    warm_up: float = 0.0
    since: int | None = None
    until: int | None = None


@dataclass(frozen=True, slots=True)
class TrialTask:
    """A predictor to try on a source's jobs; ``minimum`` (least soft walltime) and ``timeout`` in seconds."""

    source: str
    snapshot: Snapshot
    spec: str
    parts: tuple[Part, ...]
    minimum: int
    timeout: float = UNLIMITED
    version: str = __version__

    @property
    def key(self) -> str:
        """Key of all that the figures depend on, and of the source's name."""
        values = (
            self.source, self.snapshot.digest, self.spec, contents_of(self.spec), self.parts, self.minimum, self.version
        )  # fmt: skip
        return sha256(dumps(values).encode()).hexdigest()[:20]


@dataclass(frozen=True, slots=True)
class Trial:
    """The figures of a predictor on each part of the log."""

    spec: str
    """The predictor with its options."""
    parts: tuple[Scores, ...]
    """Figures of the earlier part, then of the later one."""
    seconds: float
    """Processor time to predict and learn all jobs."""
    failure: str = ""
    """Error if there are no figures; else empty."""


_SAVED = TypeAdapter(Trial)


class _TooSlowError(Exception):
    """A predictor has exceeded its processor time."""


@rare_collections()
def run_trial(task: TrialTask) -> tuple[TrialTask, Trial]:
    """Try a predictor; an exception of the predictor is a failure of its trial only.

    :raises SoftwalltimeError: if this process has another version of the package, or cannot read the jobs.
    """
    require_version(task.version)
    workload = load_once(task.snapshot.path, load)
    begin = thread_time()

    def check(_: int) -> None:
        if thread_time() - begin > task.timeout:
            raise _TooSlowError

    try:
        soft_walltimes = drive(workload, make(task.spec), task.minimum, check).soft_walltimes
    except _TooSlowError:
        reason = f"took longer than {task.timeout:.0f} s: raise --time-limit"
        return task, Trial(task.spec, (), task.timeout, reason)
    # The jobs cannot be read, or there is no space for results: no predictor can be tried.
    except SourceError:
        raise
    # A predictor of another package may raise any exception; the others continue.
    except Exception as error:
        return task, Trial(task.spec, (), 0.0, " ".join(f"{type(error).__name__}: {error}".split()))
    seconds = thread_time() - begin
    return task, Trial(task.spec, tuple(score(workload, soft_walltimes, *part) for part in task.parts), seconds)


def saved_trials(tasks: Iterable[TrialTask], kept: KeptLines) -> dict[TrialTask, Trial]:
    """Return the saved trials; a timeout counts only if its limit was at least the current one.

    :raises SourceError: if a line has the key of a trial and is none.
    """
    saved = {task: trial for task in tasks if (trial := kept.find(task.key, _SAVED))}
    return {task: trial for task, trial in saved.items() if not trial.failure or trial.seconds >= task.timeout}


def run_trials(
    tasks: Sequence[TrialTask], workers: Workers, kept: KeptLines
) -> Generator[tuple[TrialTask, Trial], None, None]:
    """Yield the trials as they end, and save them, except those of predictors that raised an error."""
    with closing(workers.do(run_trial, tasks)) as trials:
        for task, trial in trials:
            if trial.parts or trial.seconds:
                kept.add(task.key, asdict(trial))
            yield task, trial
