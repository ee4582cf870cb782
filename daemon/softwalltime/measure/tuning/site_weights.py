"""Weights of calibrated that are trained on the earlier part of a site's log: for ``softwalltime tune --train``."""

import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from softwalltime import __version__
from softwalltime.core.errors import OptionError, UsageError
from softwalltime.core.progress import ShowProgress
from softwalltime.core.states import State
from softwalltime.core.written import write_text
from softwalltime.measure.replay.job_columns import JobColumns
from softwalltime.measure.replay.sweep.jobs_file import take
from softwalltime.measure.replay.workload import Workload
from softwalltime.measure.training.defaults import EPOCHS, JOBS, SEED
from softwalltime.measure.training.examples import Examples
from softwalltime.measure.training.weights import drawn, fit
from softwalltime.measure.tuning.choice import Split
from softwalltime.predict.predictors.learned.network import dump, load

MIN_TRAINING_JOBS = 5_000
"""Minimum number of usable jobs of the site's own log to train the weights for the choice."""
TRAINED_WARM_UP = 0.7
"""Share of the earlier part's jobs, the first ones, that train those weights; the other jobs choose."""
_ALIKE = 0.01
"""A further log is one of the same site if this share of the runs, of the smaller log, is in both."""


@dataclass(frozen=True, slots=True)
class TrainingLogs:
    """Logs by name, the site's first; ``teaching``: end states of the jobs used as examples."""

    named: Sequence[tuple[str, JobColumns]]
    teaching: Collection[State]


@dataclass(frozen=True, slots=True)
class SiteWeights:
    """Weights that were trained on the site's own log."""

    file: str
    """The file, trained on jobs that ended before the later part."""
    choosing: str
    """The file with which predictors are chosen, trained on jobs that ended before those that choose."""
    logs: dict[str, int]
    """Number of jobs trained on, by log, the site's own first."""


@contextmanager
def trained(
    logs: TrainingLogs, split: Split, place: Callable[[str], Path], keep: Path | None, show: ShowProgress
) -> Iterator[SiteWeights]:
    """Train on the site's jobs before the split's two times, and on all of further logs; equal weights are kept.

    :param place: returns the file for weights with this key.
    :param keep: the file of the trials, beside which the weights for the choice are kept.
    """
    (name, jobs), *further = logs.named
    earlier = jobs.select(np.flatnonzero(jobs.numbers("submitted") < split.cut))
    with tempfile.TemporaryDirectory(prefix="softwalltime-") as folder:
        parts = TrainingLogs([(name, earlier), *further], logs.teaching)
        snapshots = [
            take(part, logs.teaching, Path(folder) / str(number)) for number, (_, part) in enumerate(parts.named)
        ]
        digests = [snapshot.digest for snapshot in snapshots]
        values = (__version__, split.since, split.cut, JOBS, EPOCHS, SEED, *digests)
        key = sha256(repr(values).encode()).hexdigest()[:20]
        file, choosing = place(key), Path(folder) / "choosing.json"
        if keep is not None:
            choosing = keep.absolute().with_name(f"{keep.name}.{key[:8]}.json")
        times = {choosing: split.since, file: split.cut}
        missing = {part: time for part, time in times.items() if _key(part) != key}
        if missing:
            _train(parts, split, missing, key, show)
        yield SiteWeights(str(file), str(choosing), dict(load(str(file)).about["logs"]))


def require_other_site(log: str, further: JobColumns, jobs: JobColumns) -> None:
    """:raises UsageError: if a further log has runs of the site; names it."""
    of_site, of_log = (set(columns.rows("user", "submitted", "start", "end")) for columns in (jobs, further))
    if len(of_site & of_log) > _ALIKE * min(len(of_site), len(of_log)):
        raise UsageError(f"--train-with {log}: SOURCE has its jobs, and the later part of SOURCE must not be learnt")


def _train(logs: TrainingLogs, split: Split, files: dict[Path, int], key: str, show: ShowProgress) -> None:
    """Train weights for each file with the site's jobs, those of the first log, that ended by its time."""
    times = [split.cut] + [None] * (len(logs.named) - 1)
    site, *further = [
        drawn(name, Workload(jobs, teaching=logs.teaching), JOBS, SEED, show, known_by)
        for (name, jobs), known_by in zip(logs.named, times, strict=True)
    ]
    for file, time in files.items():
        parts = [site.ended_by(time), *further]
        counts = {name: len(part) for (name, _), part in zip(logs.named, parts, strict=True)}
        model = fit(Examples.joined(parts), EPOCHS, SEED, show)
        options = {"jobs": JOBS, "epochs": EPOCHS, "seed": SEED, "ended_by": time}
        about = {"logs": counts, "options": options, "command": "softwalltime tune --train", "key": key}
        write_text(file, dump(model.weights(about)))


def _key(file: Path) -> str:
    """Return what weights in a file were trained for; empty: nothing that is known."""
    try:
        return str(load(str(file)).about.get("key", ""))
    except OptionError:
        return ""
