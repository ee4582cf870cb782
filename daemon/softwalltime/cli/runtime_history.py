"""Learn runtimes for a forecast from accounting logs or from the daemon's store."""

from collections.abc import Sequence
from functools import partial

from softwalltime.cli.options import LazySettings
from softwalltime.cli.output import progress_bar
from softwalltime.cli.sources import STORE, load_columns
from softwalltime.core.formatting import plural
from softwalltime.core.jobs import CompletedJob
from softwalltime.measure.forecast.expected import Learnt
from softwalltime.measure.forecast.learning import MIN_HISTORY, learn_history, note_live
from softwalltime.measure.forecast.runtimes import RuntimeModel
from softwalltime.measure.forecast.snapshot import ServerSnapshot
from softwalltime.predict.predictors.base import History, needed_history
from softwalltime.predict.predictors.registry import make


def learn(sources: tuple[str, ...], spec: str, settings: LazySettings, snapshot: ServerSnapshot) -> tuple[Learnt, str]:
    """Return what the history before the snapshot taught, and one sentence about it.

    :param sources: logs, traces or the word store; empty for the store if the settings name one, else for nothing.
    :raises SourceError: if a source cannot be read.
    :raises StoreError: if the store cannot be used.
    """
    if not sources and settings().dsn is None:
        sentence = "runtimes: walltimes, without ranges: give a history with --log, or a store with --dsn"
        return Learnt(RuntimeModel(None)), sentence
    predictor = make(spec)
    logs = sources and sources != (STORE,)
    completed = load_columns(sources, settings)[0] if logs else _stored(settings, predictor.history, snapshot.taken)
    model = RuntimeModel(predictor)
    with progress_bar("learning", len(completed)) as progress:
        count = learn_history(model, completed, snapshot.taken, settings().teaching, progress=progress)
    note_live(model, snapshot.jobs)
    where = " ".join(sources) or "the store"
    return Learnt(model), f"runtimes: {spec}, learnt from {plural(count, 'job')} of {where}"


def _stored(settings: LazySettings, history: History, now: int) -> Sequence[CompletedJob]:
    """Return the stored jobs that the predictor learns from, and enough of them to measure its errors."""
    from softwalltime.store.learning_jobs import last_ended_since, read_history
    from softwalltime.store.opening import open_store

    with open_store(settings(), create=False) as engine, engine.connect() as connection:
        needed = needed_history([history, MIN_HISTORY], now, partial(last_ended_since, connection, now=now))
        return list(read_history(connection, *needed, now, settings().teaching))
