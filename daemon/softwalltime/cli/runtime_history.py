"""Where the predicted runtimes of a forecast come from: accounting logs, or the daemon's store."""

from collections.abc import Sequence

from softwalltime.cli.options import LazySettings
from softwalltime.cli.sources import STORE, load_jobs
from softwalltime.forecast.calibration import Corrections
from softwalltime.forecast.expected import Learnt
from softwalltime.forecast.history import learn_history, note_live
from softwalltime.forecast.like_waits import LikeWaits
from softwalltime.forecast.runtimes import KEPT_PER_USER, RuntimeModel
from softwalltime.forecast.snapshot import ServerSnapshot
from softwalltime.formatting import plural
from softwalltime.jobs import CompletedJob
from softwalltime.predictors.base import History
from softwalltime.predictors.registry import make

DAYS = 60
"""Days of the store that are read at least, and of each user the last jobs."""
PREDICTOR = "calibrated:statistic=median"
"""The predictor of runtimes by default: softwalltime replay-starts found the least errors with it."""


def learn(
    sources: tuple[str, ...], spec: str, settings: LazySettings, snapshot: ServerSnapshot,
    corrections: Corrections | None,
) -> tuple[Learnt, str]:  # fmt: skip
    """Return what the history before the snapshot taught, and one sentence about it.

    :param sources: logs, traces or the word store; empty for the store if the settings name one, else for nothing.
    :raises SourceError: if a source cannot be read.
    :raises StoreError: if the store cannot be used.
    """
    waits = LikeWaits()
    if not sources and settings().dsn is None:
        sentence = "runtimes: walltimes, as neither a store nor --log is given"
        return Learnt(RuntimeModel(None), waits, corrections), sentence
    predictor = make(spec)
    logs = sources and sources != (STORE,)
    completed = load_jobs(sources, settings)[0] if logs else _stored(settings, predictor.history, snapshot.taken)
    model = RuntimeModel(predictor)
    count = learn_history(model, completed, snapshot.taken, settings().teaching, waits)
    note_live(model, snapshot.jobs)
    where = " ".join(sources) or "the store"
    return Learnt(model, waits, corrections), f"runtimes: {spec}, learnt from {plural(count, 'job')} of {where}"


def _stored(settings: LazySettings, history: History, now: int) -> Sequence[CompletedJob]:
    """The jobs of the store that the predictor needs, and enough of them to know its errors."""
    from softwalltime.store.history import read_history
    from softwalltime.store.opening import open_store

    if history.per_user is None or history.seconds is None:
        per_user, since = None, None
    else:
        per_user, since = max(KEPT_PER_USER, history.per_user), now - max(DAYS * 86400, history.seconds)
    with open_store(settings()) as engine, engine.connect() as connection:
        return list(read_history(connection, per_user, since, now, settings().teaching))
