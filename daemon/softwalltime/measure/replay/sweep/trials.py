"""Evaluate predictors on workloads, one task each, and save the results: for sweep and tune."""

import tempfile
from collections.abc import Generator, Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from hashlib import sha256
from json import dumps
from time import thread_time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from softwalltime import __version__
from softwalltime.core.errors import SourceError
from softwalltime.core.garbage import rare_collections
from softwalltime.measure.replay.accuracy_metrics import SUMS, Scores, job_figures, score, scored_range, scores_of
from softwalltime.measure.replay.fast_replay import drive
from softwalltime.measure.replay.sweep.jobs_file import Snapshot, load, load_once, read_teaching
from softwalltime.measure.replay.sweep.kept_lines import KeptLines
from softwalltime.measure.replay.sweep.spans import GROUPS, LogSpan, divided, load_span
from softwalltime.measure.replay.sweep.workers import Workers, require_version
from softwalltime.measure.replay.workload import Integers, Recorded
from softwalltime.predict.predictors.base import EVERYTHING, History
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


@dataclass(frozen=True, slots=True)
class TrialPiece:
    """A span of the jobs of a trial; ``ranges``: the scored jobs of each part of the log, from first to before last."""

    task: TrialTask
    span: LogSpan
    ranges: tuple[tuple[int, int], ...]


class PieceFigures(NamedTuple):
    """Accuracy of each scored job of a piece, and a row of sums for each part; or the error, if there are none."""

    piece: TrialPiece
    accuracy: NDArray[np.float64]
    sums: NDArray[np.int64]
    seconds: float
    failure: str = ""


def run_trial(task: TrialTask) -> tuple[TrialTask, Trial]:
    """Try a predictor; an exception of the predictor is a failure of its trial only.

    :raises SoftwalltimeError: if this process has another version of the package, or cannot read the jobs.
    """
    require_version(task.version)
    workload = load_once(task.snapshot.path, load)
    soft_walltimes, seconds, failure = _driven(task, workload, task.timeout)
    if failure:
        return task, Trial(task.spec, (), seconds, failure)
    return task, Trial(task.spec, tuple(score(workload, soft_walltimes, *part) for part in task.parts), seconds)


def run_piece(piece: TrialPiece) -> PieceFigures:
    """Try a predictor on a span of the jobs; otherwise as :func:`run_trial`."""
    task, span = piece.task, piece.span
    require_version(task.version)
    workload, before = load_span(task.snapshot.path, span, read_teaching(task.snapshot.path))
    limit = task.timeout * span.jobs / task.snapshot.jobs
    soft_walltimes, seconds, failure = _driven(task, workload, limit, before)
    if failure:
        return PieceFigures(piece, np.empty(0), np.empty((0, 0), np.int64), seconds, failure)
    which = before + np.flatnonzero(workload.scored[before:])
    accuracy, sums = job_figures(workload, which, soft_walltimes[which])
    ranges = (slice(*(max(bound - span.scored, 0) for bound in bounds)) for bounds in piece.ranges)
    return PieceFigures(piece, accuracy, np.array([sums[:, chosen].sum(axis=1) for chosen in ranges]), seconds)


@rare_collections()
def _driven(task: TrialTask, workload: Recorded, limit: float, before: int = 0) -> tuple[Integers, float, str]:
    """Return the soft walltimes, the processor time for the jobs after the first ``before``, and an error or ``""``."""
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
    unfinished: dict[TrialTask, _JoinedPieces] = {}
    with closing(workers.do(_run, _divided(tasks))) as results, ExitStack() as at_the_end:
        for result in results:
            if isinstance(result, PieceFigures):
                task = result.piece.task
                if (joined := unfinished.get(task)) is None:
                    joined = unfinished[task] = _JoinedPieces(result.piece.ranges)
                    at_the_end.callback(joined.close)
                joined.add(result)
                if joined.jobs < task.snapshot.jobs:
                    continue
                trial = unfinished.pop(task).trial(task.spec)
            else:
                task, trial = result
            if trial.parts or trial.seconds:
                kept.add(task.key, asdict(trial))
            yield task, trial


def _run(work: TrialTask | TrialPiece) -> tuple[TrialTask, Trial] | PieceFigures:
    return run_trial(work) if isinstance(work, TrialTask) else run_piece(work)


def _divided(tasks: Sequence[TrialTask]) -> list[TrialTask | TrialPiece]:
    """Divide the trials on long sorted logs, where the predictor does not need all earlier jobs."""
    whole, by_log = list[TrialTask | TrialPiece](), dict[Snapshot, list[TrialTask]]()
    histories = {spec: _history(spec) for spec in {task.spec for task in tasks}}
    for task in tasks:
        if task.snapshot.groups > GROUPS and histories[task.spec].is_bounded:
            by_log.setdefault(task.snapshot, []).append(task)
        else:
            whole.append(task)
    pieces = list[TrialTask | TrialPiece]()
    for snapshot, of_log in by_log.items():
        spans = divided(snapshot.path, read_teaching(snapshot.path), {histories[task.spec] for task in of_log})
        workload = load(snapshot.path)
        ranges = {part: scored_range(workload, *part) for task in of_log for part in task.parts}
        for task in of_log:
            bounds = tuple(ranges[part] for part in task.parts)
            pieces += [TrialPiece(task, span, bounds) for span in spans[histories[task.spec]]]
    # The longest tasks first.
    return whole + pieces


def _history(spec: str) -> History:
    try:
        return make(spec).history
    # A predictor of another package may raise any exception, which its trial will report.
    except Exception:
        return EVERYTHING


class _JoinedPieces:
    """The figures of the pieces of a trial that have ended; the accuracies are in a file, because jobs may be many."""

    def __init__(self, ranges: tuple[tuple[int, int], ...]) -> None:
        self._ranges = ranges
        self._accuracies = tempfile.TemporaryFile()  # noqa: SIM115 - see close()
        self._sums = np.zeros((len(ranges), SUMS), np.int64)
        self._seconds, self._failed = 0.0, list[PieceFigures]()
        self.jobs = 0
        """Number of jobs of these pieces."""

    def close(self) -> None:
        self._accuracies.close()

    def add(self, figures: PieceFigures) -> None:
        self.jobs += figures.piece.span.jobs
        if figures.failure:
            self._failed.append(figures)
            return
        try:
            self._accuracies.seek(8 * figures.piece.span.scored)
            self._accuracies.write(figures.accuracy.tobytes())
            self._accuracies.flush()
        except OSError as error:
            folder = tempfile.gettempdir()
            message = f"{folder}: no space for results: {error.strerror}; name another folder with TMPDIR"
            raise SourceError(message) from error
        self._sums += figures.sums
        self._seconds += figures.seconds

    def trial(self, spec: str) -> Trial:
        """Return the trial; if a piece failed, with its error."""
        with self._accuracies as file:
            if self._failed:
                return Trial(spec, (), self._failed[0].seconds, self._failed[0].failure)
            scores = []
            for (begin, end), sums in zip(self._ranges, self._sums, strict=True):
                accuracy = np.empty(end - begin)
                file.seek(8 * begin)
                file.readinto(accuracy.data)
                scores.append(scores_of(accuracy, sums))
        return Trial(spec, tuple(scores), self._seconds)
