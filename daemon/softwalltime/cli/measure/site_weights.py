"""Train weights of calibrated on the earlier part of a site's log: ``softwalltime tune --train``."""

import os
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from softwalltime import __version__
from softwalltime.cli.measure.train import fit, require_torch, write_weights
from softwalltime.cli.options import LazySettings
from softwalltime.cli.problems import require_folder
from softwalltime.cli.progress import progress_bar
from softwalltime.cli.sources import STORE, load_columns
from softwalltime.cli.train import EPOCHS, JOBS, SEED
from softwalltime.errors import OptionError, SoftwalltimeError, UsageError
from softwalltime.predictors.learned.network import dump, load
from softwalltime.replay.job_columns import JobColumns
from softwalltime.replay.sweep.snapshot import take
from softwalltime.replay.workload import Workload
from softwalltime.states import State
from softwalltime.training.examples import Examples, examples_of, usable
from softwalltime.tuning.choice import Split

MIN_TRAINING_JOBS = 5_000
"""Minimum number of usable jobs of the site's own log to train the weights for the choice."""
WARM_UP = 0.7
"""Share of the earlier part's jobs, the first ones, that train those weights; the other jobs choose."""
_ALIKE = 0.01
"""A further log is one of the same site if this share of the runs, of the smaller log, is in both."""


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """What ``tune`` is asked to train: further logs, and the file to write; ``None``: beside the settings."""

    logs: tuple[str, ...]
    file: Path | None

    def check(self, sources: Sequence[str], target_file: Path | None) -> None:
        """Refuse what cannot succeed, before minutes of work.

        :param target_file: the settings file to write.
        :raises SoftwalltimeError: if PyTorch is missing.
        :raises UsageError: if a log is given twice, or the file's name cannot be part of a predictor's options.
        :raises SourceError: if the file cannot be written.
        """
        require_torch()
        again = {os.path.realpath(source) for source in sources} & {os.path.realpath(log) for log in self.logs}
        if again or (STORE in sources and STORE in self.logs):
            raise UsageError(f"--train-with {min(again)}: SOURCE has this log, and its later part must not be learnt")
        place = self.place(target_file, "")
        require_folder(place)
        if set(",|\n") & set(str(place)):
            raise UsageError(f"--weights {place}: a predictor's options cannot name a path with a comma or |")

    def place(self, target_file: Path | None, key: str) -> Path:
        """Return the file to write, as an absolute path: a file of other weights is not overwritten by default."""
        folder = Path() if target_file is None else target_file.parent
        return (folder / f"weights-{key[:8]}.json" if self.file is None else self.file).absolute()


@dataclass(frozen=True, slots=True)
class SiteWeights:
    """Weights that were trained on the site's own log."""

    file: str
    """The file, trained on jobs that ended before the later part."""
    choosing: str
    """The file with which predictors are chosen, trained on jobs that ended before those that choose."""
    logs: dict[str, int]
    """Number of jobs trained on, by log, the site's own first."""


def own_examples(workload: Workload, split: Split) -> int:
    """Return the number of jobs that can train the weights for the choice: they ended by ``split.since``."""
    return int(usable(workload, split.since).sum())


@contextmanager
def trained(
    options: TrainingOptions, jobs: JobColumns, sources: Sequence[str], split: Split, *, teaching: Collection[State],
    target_file: Path | None, keep: Path | None, settings: LazySettings,
) -> Iterator[SiteWeights]:  # fmt: skip
    """Train on the jobs before the split's two times, and on all of further logs; the files of equal weights are kept.

    :param jobs: all jobs of the site; those submitted later have no influence.
    :raises UsageError: if a further log is one of the same site.
    """
    earlier = jobs.select(np.flatnonzero(jobs.numbers("submitted") < split.cut))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="softwalltime-")))
        further = [(log, _further(log, jobs, settings)) for log in options.logs]
        digests = [
            take(part, teaching, folder / f"{number}.json").digest
            for number, part in enumerate((earlier, *(part for _, part in further)))
        ]
        values = (__version__, split.since, split.cut, JOBS, EPOCHS, SEED, *digests)
        key = sha256(repr(values).encode()).hexdigest()[:20]
        file = options.place(target_file, key)
        choosing = (
            folder / "choosing.json" if keep is None else keep.absolute().with_name(f"{keep.name}.{key[:8]}.json")
        )
        names = [" ".join(Path(source).name for source in sources), *(Path(log).name for log, _ in further)]
        times = {choosing: split.since, file: split.cut}
        missing = {part: time for part, time in times.items() if _key(part) != key}
        if missing:
            logs = [(names[0], earlier), *((name, part) for name, (_, part) in zip(names[1:], further, strict=True))]
            _train(logs, teaching, split, missing, key)
        yield SiteWeights(str(file), str(choosing), dict(load(str(file)).about["logs"]))


def _train(
    logs: Sequence[tuple[str, JobColumns]], teaching: Collection[State], split: Split, files: dict[Path, int], key: str
) -> None:
    """Train weights for each file with the site's jobs, those of the first log, that ended by its time."""
    named_examples: list[tuple[str, Examples]] = []
    for number, (name, jobs) in enumerate(logs):
        workload = Workload(jobs, teaching=teaching)
        with progress_bar(f"examples of {name}", len(workload.jobs)) as progress:
            examples = examples_of(workload, JOBS, SEED, progress, None if number else split.cut)
        if examples is None:
            raise SoftwalltimeError(f"{name}: fewer than 20 jobs have a walltime and ran: nothing to train on")
        named_examples.append((name, examples))
    for file, time in files.items():
        parts = [named_examples[0][1].ended_by(time), *(examples for _, examples in named_examples[1:])]
        counts = {name: len(part) for (name, _), part in zip(named_examples, parts, strict=True)}
        joined = Examples.joined(parts)
        del parts
        model = fit(joined, EPOCHS, SEED)
        options = {"jobs": JOBS, "epochs": EPOCHS, "seed": SEED, "ended_by": time}
        about = {"logs": counts, "options": options, "command": "softwalltime tune --train", "key": key}
        write_weights(file, dump(model.weights(about)))


def _further(log: str, jobs: JobColumns, settings: LazySettings) -> JobColumns:
    """Read a further log; refuse it where it has runs of the site."""
    further, _ = load_columns((log,), settings)
    of_site, of_log = (set(columns.rows("user", "submitted", "start", "end")) for columns in (jobs, further))
    if len(of_site & of_log) > _ALIKE * min(len(of_site), len(of_log)):
        raise UsageError(f"--train-with {log}: SOURCE has its jobs, and the later part of SOURCE must not be learnt")
    return further


def _key(file: Path) -> str:
    """Return what weights in a file were trained for; empty: nothing that is known."""
    try:
        return str(load(str(file)).about.get("key", ""))
    except OptionError:
        return ""
