"""Evaluate predictors on workloads, and save the results: for sweep and tune."""

from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import asdict

from pydantic import TypeAdapter

from softwalltime.measure.replay.sweep.kept_lines import KeptLines
from softwalltime.measure.replay.sweep.pieces import JoinedPieces, PieceFigures, TrialPiece, in_pieces, run_piece
from softwalltime.measure.replay.sweep.trial import Trial, TrialTask, run_trial
from softwalltime.measure.replay.sweep.workers import Workers

_SAVED = TypeAdapter(Trial)


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
    unfinished: dict[TrialTask, JoinedPieces] = {}
    with closing(workers.do(_run, in_pieces(tasks, workers))) as results:
        for result in results:
            if isinstance(result, PieceFigures):
                task = result.piece.task
                if (joined := unfinished.get(task)) is None:
                    joined = unfinished[task] = JoinedPieces(result.piece)
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
