"""The frame of TRIP: one regression for each class of jobs, on features of its past jobs (Fan et al. 2017)."""

from abc import abstractmethod
from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from operator import attrgetter
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from softwalltime.core.jobs import CompletedJob, NoPrediction, Prediction, Submission
from softwalltime.core.quantiles import quantile
from softwalltime.core.reasons import Reason
from softwalltime.predict.predictors.base import History, Options, Predictor
from softwalltime.predict.predictors.like_jobs import Keys, Window

Floats = NDArray[np.float64]

FEATURES = (
    "t_last1", "t_last2", "t_supplied", "n_supplied", "A_average", "A_max", "t_longest", "t_longest10", "t_average",
    "t_average10", "t_percentile25",
)  # fmt: skip
"""Features in order, with the paper's names; t in seconds, n in nodes (or processors), A from 0 to 1."""
SUPPLIED = FEATURES.index("t_supplied")
AVERAGE_ACCURACY = FEATURES.index("A_average")
_LAST_JOBS = 10
"""Number of last jobs in t_longest10 and t_average10."""
_LOW = 0.25
_MAX_CLASSES = 50_000
"""Maximum number of classes: if job names are rarely reused, most classes have one job."""


class ClassJob(NamedTuple):
    """A past job of a class.  Times in epoch seconds, durations in seconds.  Jobs compare by their ends first."""

    end: int
    submitted: int
    runtime: int
    walltime: int
    nodes: int
    accuracy: float


def class_job(job: CompletedJob) -> ClassJob:
    """Convert a job that ran and had a walltime; ``accuracy`` is that of its walltime (eq. 5)."""
    submission, walltime = job.submission, job.submission.walltime or 0
    accuracy = min(job.runtime, walltime) / max(job.runtime, walltime)
    return ClassJob(job.end, submission.submitted, job.runtime, walltime, nodes(submission), accuracy)


def nodes(submission: Submission) -> int:
    """Return the requested number of chunks, or of processors if chunks are unknown."""
    return submission.nodect or submission.ncpus or 0


def features(past: Sequence[ClassJob], walltime: int, size: int) -> list[float]:
    """Return the features of a job with this walltime and size after these jobs, at least one."""
    runtimes = [job.runtime for job in past]
    accuracies = [job.accuracy for job in past]
    last = runtimes[-_LAST_JOBS:]
    return [
        runtimes[-1], runtimes[-2] if len(runtimes) > 1 else runtimes[-1], walltime, size,
        sum(accuracies) / len(accuracies), max(accuracies), max(runtimes), max(last), sum(runtimes) / len(runtimes),
        sum(last) / len(last), quantile(sorted(runtimes), _LOW),
    ]  # fmt: skip


def training_rows(past: Sequence[ClassJob]) -> tuple[Floats, Floats]:
    """Return the features of each job but the first from the jobs before it, one row a job, and the runtimes.

    :param past: in order of end, at least two.
    """
    runtimes = np.array([job.runtime for job in past], np.float64)
    accuracies = np.array([job.accuracy for job in past])
    count = np.arange(1, len(past) + 1)
    total = np.cumsum(runtimes)
    before = np.concatenate((np.zeros(min(_LAST_JOBS, len(past))), total[:-_LAST_JOBS]))
    padded = np.concatenate((np.full(_LAST_JOBS - 1, -np.inf), runtimes))
    ascending: list[float] = []
    low: list[float] = []
    for runtime in runtimes.tolist():
        insort(ascending, runtime)
        low.append(quantile(ascending, _LOW))
    known = (
        runtimes, np.concatenate((runtimes[:1], runtimes[:-1])), np.cumsum(accuracies) / count,
        np.maximum.accumulate(accuracies), np.maximum.accumulate(runtimes),
        np.lib.stride_tricks.sliding_window_view(padded, _LAST_JOBS).max(axis=1), total / count,
        (total - before) / np.minimum(count, _LAST_JOBS), np.array(low),
    )  # fmt: skip
    supplied = (
        np.array([job.walltime for job in past], np.float64)[1:],
        np.array([job.nodes for job in past], np.float64)[1:],
    )
    after = [row[:-1] for row in known]
    return np.column_stack((*after[:2], *supplied, *after[2:])), runtimes[1:]


class ClassRegressionOptions(Options):
    keys: Keys = ("user", "project", "job_name")
    least: int = Field(default=10, ge=3, description="fewer jobs of a class than this keep the walltime")
    accuracy: float = Field(
        default=0.8, ge=0, le=1.01, description="a class whose walltimes are this accurate on average keeps them"
    )
    most: int = Field(default=200, ge=3, le=10_000, description="jobs of a class to keep and fit to, the last ones")
    window: Window = 365 * 86400
    every: int = Field(default=1, ge=1, le=365, description="days between two fits")


class Model(Protocol):
    def predict(self, row: Sequence[float]) -> float:
        """Return the runtime in seconds of a job with these features."""


class ClassRegression(Predictor):
    """One regression for each class, the jobs with the same keys, on the features of table III.

    The walltime is kept for classes with few jobs, and for classes whose walltimes are accurate on average.  A model is
    fitted to the jobs of the class that ended before a multiple of ``every`` days since 1970.  A restart gives the same
    models, unless what they share was chosen once from the jobs known then, as the penalties of ``trip`` are.
    """

    options: ClassRegressionOptions

    def __init__(self, options: ClassRegressionOptions) -> None:
        super().__init__(options)
        self._alike = " and ".join(options.keys)
        self._key: Callable[[Submission], Hashable] = attrgetter(*options.keys)
        # Jobs of each class in order of end; the class without a job for longest comes first.
        self._classes: OrderedDict[Hashable, list[ClassJob]] = OrderedDict()
        self._models: dict[Hashable, Model] = {}
        # Number of jobs, first job and last job that each model was fitted to.
        self._fitted: dict[Hashable, tuple[int, ClassJob, ClassJob]] = {}
        self._fitted_before: int | None = None
        self._oldest: int | None = None

    @property
    def history(self) -> History:
        return History(seconds=self.options.window)

    def learn(self, job: CompletedJob) -> None:
        """Keep the job if it ran and had a walltime; remove classes without a job in the window."""
        submission = job.submission
        if job.runtime <= 0 or not submission.walltime:
            return
        self._oldest = job.end if self._oldest is None else min(self._oldest, job.end)
        key = self._key(submission)
        classes = self._classes
        jobs = classes.setdefault(key, [])
        insort(jobs, class_job(job))
        # Keep the last ones by end, independent of the order of arrival.
        if len(jobs) > self.options.most:
            del jobs[0]
        classes.move_to_end(key)
        oldest = job.end - self.options.window
        while classes:
            first, jobs = next(iter(classes.items()))
            if jobs[-1].end >= oldest and len(classes) <= _MAX_CLASSES:
                break
            del classes[first]
            self._models.pop(first, None)
            self._fitted.pop(first, None)

    def fit(self, now: int) -> None:
        """At the first call in a period, fit each class that changed to its jobs before the period."""
        before = now - now % (self.options.every * 86400)
        if self._fitted_before is not None and before <= self._fitted_before:
            return
        self._fitted_before = before
        known = {
            key: jobs
            for key, every in self._classes.items()
            if len(every) >= self.options.least
            and len(jobs := every[bisect_left(every, (before - self.options.window,)) : bisect_left(every, (before,))])
            >= self.options.least
            and sum(job.accuracy for job in jobs) / len(jobs) <= self.options.accuracy
        }
        if not self._prepare(known, before):
            return
        for key in [key for key in self._models if key not in known]:
            del self._models[key], self._fitted[key]
        for key, jobs in known.items():
            made_of = (len(jobs), jobs[0], jobs[-1])
            if self._fitted.get(key) != made_of:
                self._models[key] = self._train(*training_rows(jobs))
                self._fitted[key] = made_of

    def predict(self, submission: Submission, now: int, elapsed: int = 0) -> Prediction | NoPrediction:
        """Return the prediction of the class's model; none if the walltime is kept."""
        if not submission.walltime:
            return NoPrediction(Reason.NO_WALLTIME)
        key = self._key(submission)
        past = self._classes.get(key, [])
        if past and past[0].end < now - self.options.window:
            past = past[bisect_left(past, (now - self.options.window,)) :]
        count = len(past)
        if count < self.options.least:
            return NoPrediction(
                Reason.TOO_FEW_JOBS, (count, self._alike, self.options.window / 86400, self.options.least)
            )
        row = features(past, submission.walltime, nodes(submission))
        if row[AVERAGE_ACCURACY] > self.options.accuracy:
            return NoPrediction(Reason.OTHER, (f"the walltimes of the last {count} jobs alike are accurate",))
        if (model := self._models.get(key)) is None:
            reason = f"no model of the jobs with the same {self._alike} has been fitted yet"
            return NoPrediction(Reason.OTHER, (reason,))
        seconds = max(model.predict(row), 1.0)
        return Prediction(seconds, "{} over the last {} jobs with the same {}", (self.name, count, self._alike))

    def _prepare(self, known: dict[Hashable, list[ClassJob]], before: int) -> bool:
        """Choose the parameters shared by all models from the jobs of each class; return whether this was possible."""
        return True

    @abstractmethod
    def _train(self, x: Floats, y: Floats) -> Model:
        """Return a model of runtimes ``y`` in seconds by features ``x``, one row a job."""
