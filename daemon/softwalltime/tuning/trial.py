"""One predictor on one workload: its figures over parts of the log, and its processor time."""

from array import array
from dataclasses import asdict, dataclass
from hashlib import sha256
from itertools import pairwise
from json import dumps
from math import nan
from pathlib import Path
from time import thread_time_ns

import numpy as np
from numpy.typing import NDArray

from softwalltime import __version__
from softwalltime.drive import PredictorDriver
from softwalltime.errors import SoftwalltimeError
from softwalltime.events import Kind
from softwalltime.jobs import CompletedJob, Prediction
from softwalltime.predictors.base import Predictor
from softwalltime.predictors.registry import contents_of, make
from softwalltime.replay.fast_replay import clamp_all
from softwalltime.replay.metrics import Errors, share
from softwalltime.replay.pass_events import pass_events
from softwalltime.replay.sweep.snapshot import load_once
from softwalltime.replay.workload import Workload

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_SUBMITTED = int(Kind.SUBMITTED)


@dataclass(frozen=True, slots=True)
class PartFigures:
    """Figures of one predictor over the scored jobs submitted in one part of the log.

    All but ``jobs`` are ``None`` without jobs.
    """

    jobs: int
    """Number of jobs."""
    accuracy: float | None = None
    """Mean of min(p, t) / max(p, t)."""
    underestimated: float | None = None
    """Share of the jobs with p < t."""
    badly: float | None = None
    """Share of the jobs underestimated by more than 30 min."""
    error: float | None = None
    """Mean absolute error in seconds."""


@dataclass(frozen=True, slots=True)
class TrialTask:
    """A predictor to try on the jobs of a file (:mod:`softwalltime.replay.sweep.snapshot`).

    ``bounds`` are the limits of the parts in epoch seconds, one more than parts, ``None`` for no limit.  ``minimum`` is
    the least soft walltime in seconds.  ``timeout`` is the greatest processor time in seconds.
    """

    path: Path
    digest: str
    jobs: int
    spec: str
    bounds: tuple[int | None, ...]
    minimum: int
    timeout: float = float("inf")
    version: str = __version__

    @property
    def key(self) -> str:
        """Key of all that the figures depend on."""
        values = asdict(self) | {"path": None, "timeout": None} | _contents(self.spec)
        return sha256(dumps(values, sort_keys=True).encode()).hexdigest()[:20]


def _contents(spec: str) -> dict[str, str]:
    """Return the digest of the predictor's files, if it has any."""
    digest = contents_of(spec)
    return {"contents": digest} if digest else {}


@dataclass(frozen=True, slots=True)
class Trial:
    """The figures of a predictor on each part of the log."""

    spec: str
    """The predictor with its options."""
    parts: tuple[PartFigures, ...]
    """Figures of the earlier part, then of the later one."""
    seconds: float
    """Processor time to predict and learn all jobs."""
    failure: str = ""
    """Why there are no figures; empty: there are."""


class _TooSlowError(Exception):
    """A predictor has used its processor time up."""


def run_trial(task: TrialTask) -> Trial:
    """Try a predictor; an exception of the predictor is a failure of its trial only.

    :raises SoftwalltimeError: if this process has another version of the package, or cannot read the jobs.
    """
    if task.version != __version__:
        raise SoftwalltimeError(f"a worker has softwalltime {__version__}, this command {task.version}")
    workload = load_once(task.path)
    try:
        recorded = record(workload, make(task.spec), timeout=task.timeout)
    except _TooSlowError:
        return Trial(task.spec, (), task.timeout, f"took longer than {task.timeout:.0f} s: raise --time-limit")
    # A predictor of another package may fail in any way; the others go on.
    except Exception as error:
        return Trial(task.spec, (), 0.0, " ".join(f"{type(error).__name__}: {error}".split()))
    return Trial(task.spec, figures_of_parts(workload, recorded, task.bounds, task.minimum), recorded.processor_seconds)


@dataclass(frozen=True, slots=True)
class Recorded:
    """The prediction of each job at its submission in seconds, NaN for none."""

    seconds: Floats
    processor_seconds: float


def record(workload: Workload, predictor: Predictor, *, timeout: float = float("inf")) -> Recorded:
    """Let a predictor learn each job at its end and predict each job at its submission.

    The predictions are those of :func:`.fast_replay.drive` before they are clamped; a test compares them.

    :param timeout: greatest processor time in seconds.
    """
    predicted = array("d", [nan]) * len(workload.jobs)
    driver = PredictorDriver({"": predictor})
    begin = thread_time_ns()

    def ask(now: int, kind: int, number: int, job: CompletedJob) -> None:
        if kind != _SUBMITTED or job.submission.shrink_to_fit:
            return
        if driver.fits:
            # A fit may take longer than all predictions of a stride.
            _check(begin, timeout)
        answer = predictor.predict(job.submission, now)
        if isinstance(answer, Prediction):
            predicted[number] = answer.seconds

    for stride in workload.stream(starts=driver.observes, everything=driver.observes):
        pass_events(workload, stride, driver, ask)
        _check(begin, timeout)
    return Recorded(np.frombuffer(predicted), (thread_time_ns() - begin) / 1e9)


def _check(begin: int, timeout: float) -> None:
    if (thread_time_ns() - begin) / 1e9 > timeout:
        raise _TooSlowError


def figures_of_parts(
    workload: Workload, recorded: Recorded, bounds: tuple[int | None, ...], minimum: int
) -> tuple[PartFigures, ...]:
    """Return the figures of each part of the log, by when jobs were submitted.

    :param bounds: limits of the parts, as in :class:`TrialTask`.
    """
    soft = clamp_all(workload, recorded.seconds, minimum)
    figures = []
    for since, until in pairwise(bounds):
        chosen = in_part(workload, since, until)
        if not len(chosen):
            figures.append(PartFigures(0))
            continue
        errors = Errors.of(soft[chosen], workload.walltime[chosen], workload.runtime[chosen])
        figures.append(
            PartFigures(
                len(chosen),
                float(errors.accuracy.mean()),
                share(errors.under),
                share(errors.badly),
                float(np.abs(errors.error).mean()),
            )
        )
    return tuple(figures)


def in_part(workload: Workload, since: int | None, until: int | None) -> Integers:
    """Return the indexes of the scored jobs submitted from ``since`` to before ``until``."""
    chosen = workload.scored.copy()
    if since is not None:
        chosen &= workload.submitted >= since
    if until is not None:
        chosen &= workload.submitted < until
    return np.flatnonzero(chosen)
