"""Divide trials on long logs into pieces, one for each span of the log, and join the figures of the pieces."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from softwalltime.measure.replay.accuracy_metrics import SUMS, job_figures, scored_range, scores_of
from softwalltime.measure.replay.sweep.jobs_file import Snapshot, load, load_once, read_teaching
from softwalltime.measure.replay.sweep.spans import GROUPS, LogSpan, load_span, spans_of
from softwalltime.measure.replay.sweep.trial import Trial, TrialTask, driven
from softwalltime.measure.replay.sweep.workers import Workers, require_version
from softwalltime.predict.predictors.base import EVERYTHING, History
from softwalltime.predict.predictors.registry import make


@dataclass(frozen=True, slots=True)
class TrialPiece:
    """A span of the jobs of a trial.

    ``ranges``: for each part of the log, the numbers of its first scored job and of the scored job after its last.
    """

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


def run_piece(piece: TrialPiece) -> PieceFigures:
    """Try a predictor on a span of the jobs; otherwise as :func:`run_trial`."""
    task, span = piece.task, piece.span
    require_version(task.version)
    workload, before = load_span(task.snapshot.path, span, read_teaching(task.snapshot.path))
    limit = task.timeout * span.jobs / task.snapshot.jobs
    soft_walltimes, seconds, failure = driven(task, workload, limit, before)
    if failure:
        return PieceFigures(piece, np.empty(0), np.empty((0, 0), np.int64), seconds, failure)
    which = before + np.flatnonzero(workload.scored[before:])
    accuracy, sums = job_figures(workload, which, soft_walltimes[which])
    ranges = (slice(*(max(bound - span.scored, 0) for bound in bounds)) for bounds in piece.ranges)
    return PieceFigures(piece, accuracy, np.array([sums[:, chosen].sum(axis=1) for chosen in ranges]), seconds)


def in_pieces(tasks: Sequence[TrialTask], workers: Workers) -> list[TrialTask | TrialPiece]:
    """Divide the trials on long sorted logs, where the predictor does not need all earlier jobs.

    A predictor is not divided where it would give the same figures and no worker be idle, because pieces cost a third
    more.
    """
    whole, by_log = list[TrialTask | TrialPiece](), dict[Snapshot, list[TrialTask]]()
    enough = workers.client is None and len(tasks) >= workers.processes
    histories = {spec: _history(spec, enough) for spec in {task.spec for task in tasks}}
    for task in tasks:
        if task.snapshot.groups > GROUPS and histories[task.spec].is_bounded:
            by_log.setdefault(task.snapshot, []).append(task)
        else:
            whole.append(task)
    pieces = list[TrialTask | TrialPiece]()
    for snapshot, of_log in by_log.items():
        spans = spans_of(snapshot.path, read_teaching(snapshot.path), {histories[task.spec] for task in of_log})
        workload = load_once(snapshot.path, load)
        ranges = {part: scored_range(workload, *part) for task in of_log for part in task.parts}
        for task in of_log:
            bounds = tuple(ranges[part] for part in task.parts)
            pieces += [TrialPiece(task, span, bounds) for span in spans[histories[task.spec]]]
    # The longest tasks first.
    return whole + pieces


def _history(spec: str, whole: bool) -> History:
    """Return the history that the predictor needs; all jobs if it cannot be made.

    :param whole: all jobs also for a predictor whose figures are the same in pieces.
    """
    try:
        predictor = make(spec)
        same = predictor.history.most is None and not predictor.fits
        return EVERYTHING if whole and same else predictor.history
    # A predictor of another package may raise any exception, which its trial will report.
    except Exception:
        return EVERYTHING


class JoinedPieces:
    """The figures of the pieces of a trial that have ended.

    :raises SourceError: if there is no space for the accuracies, or the jobs cannot be read.
    """

    def __init__(self, piece: TrialPiece) -> None:
        self._ranges = piece.ranges
        self._accuracies = load_once(piece.task.snapshot.path, load).array().view(np.float64)
        self._sums = np.zeros((len(piece.ranges), SUMS), np.int64)
        self._seconds, self._failed = 0.0, list[PieceFigures]()
        self.jobs = 0
        """Number of jobs of these pieces."""

    def add(self, figures: PieceFigures) -> None:
        self.jobs += figures.piece.span.jobs
        if figures.failure:
            self._failed.append(figures)
            return
        begin = figures.piece.span.scored
        self._accuracies[begin : begin + len(figures.accuracy)] = figures.accuracy
        self._sums += figures.sums
        self._seconds += figures.seconds

    def trial(self, spec: str) -> Trial:
        """Return the trial; if a piece failed, with its error."""
        if self._failed:
            return Trial(spec, (), self._failed[0].seconds, self._failed[0].failure)
        accuracies = (self._accuracies[begin:end].copy() for begin, end in self._ranges)
        return Trial(spec, tuple(map(scores_of, accuracies, self._sums)), self._seconds)
