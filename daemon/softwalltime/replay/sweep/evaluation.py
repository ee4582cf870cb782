"""One task of a sweep, one predictor on one workload, and its result."""

import socket
from dataclasses import asdict, dataclass
from hashlib import sha256

from softwalltime import __version__
from softwalltime.errors import SoftwalltimeError
from softwalltime.predictors.base import Options
from softwalltime.predictors.registry import contents_of, make
from softwalltime.replay.fast_replay import drive
from softwalltime.replay.metrics import WARM_UP, Scores, score
from softwalltime.replay.sweep.snapshot import Snapshot, load_once

Value = str | int | float | bool | None
OPTION = "option_"
"""Prefix of the columns of options, which separates them from other columns."""


@dataclass(frozen=True, slots=True)
class SweepTask:
    """A predictor (as the user asked for it) to be judged on a source's jobs; can be sent to any process.

    ``minimum`` is the least soft walltime in seconds.  ``version`` is that of the package which must do it: rows of
    different versions must not be mixed unnoticed.
    """

    source: str
    snapshot: Snapshot
    spec: str
    minimum: int
    version: str = __version__

    @property
    def key(self) -> str:
        """Key of all that the figures depend on, and of the source's name."""
        values = (self.source, self.snapshot.digest, self.spec, contents_of(self.spec), self.minimum, self.version)
        return sha256(repr(values).encode()).hexdigest()[:20]


@dataclass(frozen=True, slots=True)
class SweepRow:
    """The result of a task: the scores of all scored jobs and of those after the warm-up.

    ``name`` is the predictor's name, not an alias; ``options`` are all its options, with defaults.  ``seconds`` of
    wall-clock time went into driving the predictor, without reading the jobs.
    """

    task: SweepTask
    name: str
    options: dict[str, Value]
    scores: Scores
    after_warm_up: Scores
    seconds: float

    @property
    def values(self) -> dict[str, Value]:
        """The values of the row by column; options are in columns of their own."""
        return {
            "source": self.task.source,
            "predictor": self.task.spec,
            "name": self.name,
            **{OPTION + name: value for name, value in self.options.items()},
            "min_soft_walltime": self.task.minimum,
            **asdict(self.scores),
            **{f"after_warm_up_{name}": value for name, value in asdict(self.after_warm_up).items()},
            "seconds": round(self.seconds, 6),
            "version": self.task.version,
        }


@dataclass(frozen=True, slots=True)
class SweepFailure:
    """A task whose predictor raised an exception."""

    task: SweepTask
    reason: str

    def __str__(self) -> str:
        return f"{self.task.spec} on {self.task.source}: {self.reason}"


def evaluate(task: SweepTask) -> SweepRow | SweepFailure:
    """Run a task.  An exception of the predictor is a failure of the task; any other exception ends the sweep.

    :raises SoftwalltimeError: if this process has another version of the package, or cannot read the snapshot.
    """
    if task.version != __version__:
        raise SoftwalltimeError(
            f"softwalltime is {__version__} on {socket.gethostname()} and {task.version} where the sweep was started: "
            "install the same version"
        )
    workload = load_once(task.snapshot.path)
    try:
        predictor = make(task.spec)
        outcome = drive(workload, predictor, task.minimum)
    # A predictor of another package may fail in any way; the other tasks must continue.
    except Exception as error:
        return SweepFailure(task, " ".join(f"{type(error).__name__}: {error}".split()))
    return SweepRow(
        task,
        predictor.name,
        option_values(predictor.options),
        score(workload, outcome.soft_walltimes),
        score(workload, outcome.soft_walltimes, WARM_UP),
        outcome.seconds,
    )


def option_values(options: Options) -> dict[str, Value]:
    """Return every option with its value; several values in the user's notation (``user+project``)."""
    return {name: _plain(getattr(options, name)) for name in type(options).model_fields}


def _plain(value: object) -> Value:
    if isinstance(value, list | tuple):
        return "+".join(map(str, value))
    return value if isinstance(value, str | int | float) or value is None else str(value)
