"""Where the predicted runtimes of a forecast come from: accounting logs, or the daemon's store."""

from collections.abc import Sequence

from softwalltime.cli.options import LazySettings
from softwalltime.cli.progress import progress_bar
from softwalltime.cli.sources import STORE, load_jobs
from softwalltime.errors import OptionError
from softwalltime.forecast.calibration_file import CalibrationFile
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
        sentence = "runtimes: walltimes, as neither a store nor --log is given"
        return Learnt(RuntimeModel(None), waits), sentence, _not_corrected(calibration, spec, 0)
    predictor = make(spec)
    logs = sources and sources != (STORE,)
    completed = load_jobs(sources, settings)[0] if logs else _stored(settings, predictor.history, snapshot.taken)
    model = RuntimeModel(predictor)
    with progress_bar("learning", len(completed)) as progress:
        count = learn_history(model, completed, snapshot.taken, settings().teaching, waits, progress)
    note_live(model, snapshot.jobs)
    where = " ".join(sources) or "the store"
    remarks = _not_corrected(calibration, spec, count)
    corrections = calibration.corrections if calibration is not None and not remarks else None
    sentence = f"runtimes: {spec}, learnt from {plural(count, 'job')} of {where}"
    return Learnt(model, waits, corrections), sentence, remarks


def _not_corrected(calibration: CalibrationFile | None, spec: str, learnt: int) -> tuple[str, ...]:
    """Why the calibration does not apply to these forecasts, one sentence; empty if it does or there is none."""
    if calibration is None:
        return ()
    if not learnt:
        reason = "the calibration is for learnt runtimes, and no job was learnt: give --log LOGS"
    elif not _same(spec, calibration.predictor):
        reason = f"the calibration was measured with --predictor {calibration.predictor}, not {spec}"
    else:
        return ()
    return (f"forecasts are not corrected: {reason}",)


def _same(spec: str, other: str) -> bool:
    """Whether both specs are of one predictor with the same options; defaults and aliases may be written out."""
    if spec == other:
        return True
    try:
        one, two = make(spec), make(other)
    except OptionError:
        return False
    return type(one) is type(two) and one.options == two.options


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
