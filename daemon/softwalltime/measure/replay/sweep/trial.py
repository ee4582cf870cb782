"""Try one predictor on the jobs of a source: a task for another process, and its figures."""

from dataclasses import dataclass
from hashlib import sha256
from json import dumps
from time import thread_time
from typing import NamedTuple

import numpy as np

from softwalltime import __version__
from softwalltime.core.errors import SourceError
from softwalltime.core.garbage import rare_collections
from softwalltime.measure.replay.accuracy_metrics import Scores, score
from softwalltime.measure.replay.fast_replay import drive
from softwalltime.measure.replay.sweep.jobs_file import Snapshot, load, load_once
from softwalltime.measure.replay.sweep.workers import require_version
from softwalltime.measure.replay.workload import Integers, Recorded
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


class _TooSlowError(Exception):
    """A predictor has exceeded its processor time."""


def run_trial(task: TrialTask) -> tuple[TrialTask, Trial]:
    """Try a predictor; an exception of the predictor is a failure of its trial only.

    :raises SoftwalltimeError: if this process has another version of the package, or cannot read the jobs.
    """
    require_version(task.version)
    workload = load_once(task.snapshot.path, load)
    soft_walltimes, seconds, failure = driven(task, workload, task.timeout)
    if failure:
        return task, Trial(task.spec, (), seconds, failure)
    return task, Trial(task.spec, tuple(score(workload, soft_walltimes, *part) for part in task.parts), seconds)


@rare_collections()
def driven(task: TrialTask, workload: Recorded, limit: float, before: int = 0) -> tuple[Integers, float, str]:
    """Return the soft walltimes, the processor time of the jobs after the first ``before``, and an error or ``""``."""
    begin, passed = thread_time(), 0

    def check(submitted: int) -> None:
        nonlocal begin, passed
        passed += submitted
        if passed <= before:
            begin = thread_time()
        if thread_time() - begin > limit:
            raise _TooSlowError

    nothing = np.empty(0, np.int64)
    try:
        soft_walltimes = drive(workload, make(task.spec), task.minimum, check, begin=before).soft_walltimes
    except _TooSlowError:
        return nothing, task.timeout, f"took longer than {task.timeout:.0f} s: raise --time-limit"
    # The jobs cannot be read, or there is no space for results: no predictor can be tried.
    except SourceError:
        raise
    # A predictor of another package may raise any exception; the others continue.
    except Exception as error:
        return nothing, 0.0, " ".join(f"{type(error).__name__}: {error}".split())
    return soft_walltimes, thread_time() - begin, ""
