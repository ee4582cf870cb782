"""Where the predicted runtimes of a forecast come from: accounting logs, or the daemon's store."""

from collections.abc import Sequence
from functools import partial

from softwalltime.cli.options import LazySettings
from softwalltime.cli.progress import progress_bar
from softwalltime.cli.sources import STORE, load_jobs
from softwalltime.forecast.calibration_file import CalibrationFile, why_not_corrected
from softwalltime.forecast.expected import Learnt
from softwalltime.forecast.history import learn_history, needed, note_live
from softwalltime.forecast.like_waits import LikeWaits
from softwalltime.forecast.runtimes import RuntimeModel
from softwalltime.forecast.snapshot import ServerSnapshot
from softwalltime.formatting import plural
from softwalltime.jobs import CompletedJob
from softwalltime.predictors.base import History
from softwalltime.predictors.registry import make


def learn(
    sources: tuple[str, ...], spec: str, settings: LazySettings, snapshot: ServerSnapshot,
    calibration: CalibrationFile | None,
) -> tuple[Learnt, str, tuple[str, ...]]:  # fmt: skip
    """Return what the history before the snapshot taught, one sentence about it, and remarks.

    :param sources: logs, traces or the word store; empty for the store if the settings name one, else for nothing.
    :param calibration: used only where runtimes are learnt and predicted as in the forecasts that it was measured on.
    :raises SourceError: if a source cannot be read.
    :raises StoreError: if the store cannot be used.
    """
    waits = LikeWaits()
    if not sources and settings().dsn is None:
        sentence = "runtimes: walltimes, without ranges: give a history with --log, or a store with --dsn"
        return Learnt(RuntimeModel(None), waits), sentence, why_not_corrected(calibration, spec, 0)
    predictor = make(spec)
    logs = sources and sources != (STORE,)
    completed = load_jobs(sources, settings)[0] if logs else _stored(settings, predictor.history, snapshot.taken)
    model = RuntimeModel(predictor)
    with progress_bar("learning", len(completed)) as progress:
        count = learn_history(model, completed, snapshot.taken, settings().teaching, waits, progress)
    note_live(model, snapshot.jobs)
    where = " ".join(sources) or "the store"
    remarks = why_not_corrected(calibration, spec, count)
    corrections = calibration.corrections if calibration is not None and not remarks else None
    sentence = f"runtimes: {spec}, learnt from {plural(count, 'job')} of {where}"
    return Learnt(model, waits, corrections), sentence, remarks


def _stored(settings: LazySettings, history: History, now: int) -> Sequence[CompletedJob]:
    """The jobs of the store that the predictor needs, and enough of them to know its errors."""
    from softwalltime.store.history import last_ended_since, read_history
    from softwalltime.store.opening import open_store

    with open_store(settings(), create=False) as engine, engine.connect() as connection:
        per_user, since = needed(history, now, partial(last_ended_since, connection, now=now))
        return list(read_history(connection, per_user, since, now, settings().teaching))
