"""Where the predicted runtimes of a forecast come from: accounting logs, or the daemon's store."""

from collections.abc import Sequence

from softwalltime.cli.options import LazySettings
from softwalltime.cli.sources import STORE, load_jobs
from softwalltime.forecast.calibration import Corrections
from softwalltime.forecast.expected import Learnt
from softwalltime.forecast.history import learn_history
from softwalltime.forecast.like_waits import LikeWaits
from softwalltime.forecast.runtimes import KEPT_PER_USER, RuntimeModel
from softwalltime.formatting import plural
from softwalltime.jobs import CompletedJob
from softwalltime.predictors.registry import make

DAYS = 60
"""Days of the store that are read, and of each user the last jobs."""


PREDICTOR = "last2"
"""The predictor of runtimes by default: softwalltime replay-starts found the least errors with it."""


def learn(
    sources: tuple[str, ...], spec: str, settings: LazySettings, now: int, corrections: Corrections | None
) -> tuple[Learnt, str]:
    """Return what the history up to ``now`` taught, and one sentence about it.

    :param sources: logs, traces or the word store; empty for the store if the settings name one, else for nothing.
    :raises SourceError: if a source cannot be read.
    :raises StoreError: if the store cannot be used.
    """
    waits = LikeWaits()
    if not sources and settings().dsn is None:
        sentence = "runtimes: walltimes, as neither a store nor --log is given"
        return Learnt(RuntimeModel(None), waits, corrections), sentence
    completed = load_jobs(sources, settings)[0] if sources and sources != (STORE,) else _stored(settings, now)
    model = RuntimeModel(make(spec))
    count = learn_history(model, completed, now, settings().teaching, waits)
    where = " ".join(sources) or "the store"
    return Learnt(model, waits, corrections), f"runtimes: {spec}, learnt from {plural(count, 'job')} of {where}"


def _stored(settings: LazySettings, now: int) -> Sequence[CompletedJob]:
    from softwalltime.store.history import read_history
    from softwalltime.store.opening import open_store

    with open_store(settings()) as engine, engine.connect() as connection:
        return list(read_history(connection, KEPT_PER_USER, now - DAYS * 86400, now, settings().teaching))
