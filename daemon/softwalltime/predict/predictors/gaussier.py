"""Online polynomial regression with an asymmetric, weighted loss."""

import math
from bisect import bisect_left, insort
from collections.abc import Sequence
from itertools import repeat
from operator import attrgetter
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from softwalltime.core.events import Deleted, Ended, Event, Started
from softwalltime.core.jobs import CompletedJob, NoPrediction, Prediction, Submission
from softwalltime.core.reasons import Reason
from softwalltime.predict.predictors.base import History, Options, Predictor

Floats = NDArray[np.float64]
_TINY = 1e-100
"""Replaces 0 in divisors; other features and gradients are far larger."""
FEATURES = (
    "requested", "last1", "last2", "last3", "mean2", "mean3", "mean", "processors", "mean processors",
    "processors by mean", "running mean processors", "running", "longest running", "sum running", "running processors",
    "break", "cos day", "sin day", "cos week", "sin week",
)  # fmt: skip
"""Features of a job from its request and its user's past and running jobs (section 4), in order; times in seconds.
break is the time since the user's last end."""
_DAY, _TURN = 86400, 2 * math.pi
_LEFT, _RIGHT = np.triu_indices(1 + len(FEATURES))
DIMENSION = len(_LEFT)
"""Terms of the polynomial: the constant, the features, their squares and products."""
MAX_USER_RUNS = 512
"""Maximum jobs kept of one user, the last ones to end."""
MAX_LATENESS_S = 86400
"""Maximum seconds by which a job may become known late without changing later answers."""
HISTORY_DAYS = 400
"""Days of history from which a new predictor learns."""
_MAX_STEPS = 4
"""Maximum jobs that one call of ``learn`` trains with, because a request may wait."""

Branch = Literal["linear", "squared"]
Weight = Literal["one", "large", "small", "long-narrow", "short-wide"]
_WEIGHTS = {
    "one": (1, 0, 0), "large": (1, 1, 1), "small": (11, -1, -1), "long-narrow": (5, 1, -1), "short-wide": (5, -1, 1),
}  # fmt: skip
"""Offset, factor of the logarithm of the runtime, and of that of the processors."""


class PastRun(NamedTuple):
    """A job that ran; times in epoch seconds, runtime in seconds, at most the walltime."""

    end: int
    submitted: int
    start: int
    runtime: int
    ncpus: int


class Asked(NamedTuple):
    job_id: str
    submitted: int
    walltime: int
    ncpus: int


_RUNTIME, _NCPUS = attrgetter("runtime"), attrgetter("ncpus")


class UserRuns:
    """One user's completed jobs in order of end, and the running ones."""

    __slots__ = ("_ncpus", "_runtime", "count", "running", "runs")

    def __init__(self) -> None:
        self.runs: list[PastRun] = []
        """The last ``MAX_USER_RUNS`` to end; equal ends in order of the other fields."""
        self.running: dict[str, tuple[int, int]] = {}
        """Start and processors of running jobs by id."""
        self.count = self._runtime = self._ncpus = 0

    def add(self, run: PastRun) -> None:
        insort(self.runs, run)
        self.count += 1
        self._runtime += run.runtime
        self._ncpus += run.ncpus
        if len(self.runs) > MAX_USER_RUNS:
            del self.runs[0]

    def knows(self, now: int) -> bool:
        """Return whether the jobs known at ``now`` are still kept."""
        return len(self.runs) == self.count or self.runs[0].end <= now

    def features(self, job: Asked, now: int) -> list[float]:
        """Return the features of a job as they were at ``now``, in the order of :data:`FEATURES`."""
        requested, ncpus, runs = job.walltime, job.ncpus, self.runs
        place = bisect_left(runs, (now + 1,))
        past, later = runs[max(place - 3, 0) : place], runs[place:]
        last = [*map(min, map(_RUNTIME, reversed(past)), repeat(requested))] or [requested]
        count = self.count - len(later)
        runtime = (self._runtime - sum(map(_RUNTIME, later))) / count if count else 0.0
        size = (self._ncpus - sum(map(_NCPUS, later))) / count if count else ncpus
        present = [(now - run.start, run.ncpus) for run in later if run.start < now]
        if self.running:
            others = [run for job_id, run in self.running.items() if job_id != job.job_id]
            present += [(now - start, run) for start, run in others if start < now]
        elapsed, sizes = zip(*present, strict=True) if present else ((0,), (0,))
        idle = now - past[-1].end if past else 0
        day, week = _TURN * (job.submitted % _DAY / _DAY), _TURN * (job.submitted % (7 * _DAY) / (7 * _DAY))
        times = [requested, *(*last, requested, requested)[:3], sum(last[:2]) / len(last[:2]), sum(last) / len(last)]
        own = [sum(sizes) / len(sizes), len(present), max(elapsed), sum(elapsed), sum(sizes), idle]
        times_of_day = (math.cos(day), math.sin(day), math.cos(week), math.sin(week))
        return [*times, runtime, ncpus, size, ncpus / size, *own, *times_of_day]


def polynomial(features: Sequence[float]) -> NDArray[np.float64]:
    """Return all terms of degree 0 to 2, the constant and the features first."""
    base = np.array((1.0, *features))
    products: NDArray[np.float64] = base[_LEFT] * base[_RIGHT]
    return products


class NormalisedGradient:
    """A linear function learned one example at a time (Ross, Mineiro & Langford 2013, algorithm NAG).

    ``scales`` are the greatest magnitudes of the features so far.  A coefficient is reduced when the scale of its
    feature rises, and its step is in units of the feature's scale and of the gradients so far.
    """

    __slots__ = ("_eta", "_l2", "_norm", "_squares", "coefficients", "count", "scales")

    def __init__(self, features: int, eta: float, l2: float = 0.0) -> None:
        """Begin with coefficients 0.

        :param eta: approximate maximum step of the prediction, in its unit.
        :param l2: strength of the penalty ``l2 / 2 x sum of squared coefficients``.
        """
        self._eta = eta
        self._l2 = l2
        self.count = 0
        self._norm = 0.0
        self._squares: Floats = np.full(features, _TINY)
        self.coefficients: Floats = np.zeros(features)
        self.scales: Floats = np.full(features, _TINY)

    def predict(self, x: Floats) -> float:
        return float(self.coefficients @ x)

    def rescale(self, x: Floats) -> float:
        """Take the scales of an example's features into account before its :meth:`step`; return its prediction."""
        scales = np.maximum(self.scales, np.abs(x))
        self.coefficients *= self.scales / scales
        self.scales = scales
        return float(self.coefficients @ x)

    def step(self, x: Floats, slope: float) -> None:
        """Follow the gradient of the loss at an example; ``slope``: its weighted derivative by the prediction."""
        self.count += 1
        self._norm += float(np.add.reduce(np.square(x / self.scales)))
        gradient = slope * x + self._l2 * self.coefficients
        self._squares += np.square(gradient)
        rate = self._eta * (self.count / self._norm) ** 0.5 if self._norm else 0.0
        self.coefficients -= rate * gradient / (self.scales * np.sqrt(self._squares))


class GaussierOptions(Options):
    over: Branch = Field(default="squared", description="loss of a prediction above the runtime: linear or squared")
    under: Branch = Field(default="linear", description="loss of a prediction below the runtime: linear or squared")
    weight: Weight = Field(
        default="large",
        description="jobs whose errors weigh more, by runtime and processors: large or small (product), long-narrow or "
        "short-wide (ratio), or one: all weigh the same",
    )
    eta: float = Field(default=5000.0, gt=0, le=1e9, description="rate of learning in seconds")
    l2: float = Field(default=4e9, ge=0, le=1e18, description="strength of the L2 penalty")


class Gaussier(Predictor):
    """A polynomial of degree 2 of the request and the user's past and running jobs, learned by gradient descent.

    The default loss is the paper's E-Loss: squared above the runtime, linear below it, weighted by the logarithm of
    runtime x processors.  Constants are those of the authors' simulator, predictsim: rate of learning, penalty, and the
    offsets of the weights, of which none is below 0.  As there, runtimes of the user above the walltime count as the
    walltime, and the sign of a negative value is dropped.

    The published method makes its step when a job ends.  This one makes it ``MAX_LATENESS_S`` later in order of end,
    because the answers must not depend on the order in which jobs became known.  (They may for some jobs after a time
    without ends: at most ``_MAX_STEPS`` steps are made for each end, until none is due.)  The step uses the features at
    the job's submission; it is left out if more than ``MAX_USER_RUNS`` of the user's jobs have ended since.  A daemon
    that restarts learns from the last ``HISTORY_DAYS``, and may then answer differently.

    The paper's corrections of predictions that a job outlives are in the simulator (``simulate --correction``), and its
    choice among loss functions is ``softwalltime tune``.
    """

    name: ClassVar[str] = "gaussier"
    summary: ClassVar[str] = "polynomial regression, learned online with a loss that prefers underestimates"
    source: ClassVar[str] = "Gaussier, Glesser, Reis & Trystram 2015, E-Loss; Ross, Mineiro & Langford 2013 (NAG)"
    options: GaussierOptions
    tried_options: ClassVar[tuple[str, ...]] = (
        "",
        "over=linear,under=squared",
        "over=squared,under=squared,weight=one",
    )

    def __init__(self, options: GaussierOptions) -> None:
        super().__init__(options)
        self._users: dict[str, UserRuns] = {}
        # Jobs not learned yet, in order of end: end, job id, server, user, job and features.
        self._pending: list[tuple[int, str, str, str, PastRun, Asked]] = []
        self._newest = 0
        self._function = NormalisedGradient(DIMENSION, options.eta, options.l2)

    @property
    def history(self) -> History:
        return History(per_user=MAX_USER_RUNS, seconds=HISTORY_DAYS * 86400)

    def observe(self, event: Event) -> None:
        if isinstance(event, Started):
            submission = event.submission
            self._user(submission.user).running[submission.job_id] = (event.time, submission.ncpus or 1)
        elif isinstance(event, Ended | Deleted):
            submission = event.job.submission if isinstance(event, Ended) else event.submission
            user = self._users.get(submission.user)
            if user is not None:
                user.running.pop(submission.job_id, None)

    def learn(self, job: CompletedJob) -> None:
        """Add the job to its user's; train with jobs that ended ``MAX_LATENESS_S`` before."""
        submission, end = job.submission, job.end
        if not submission.walltime or job.runtime <= 0:
            return
        start = end - job.runtime if job.start is None else job.start
        asked = _asked(submission)
        run = PastRun(end, asked.submitted, start, min(job.runtime, asked.walltime), asked.ncpus)
        self._user(submission.user).add(run)
        insort(self._pending, (end, asked.job_id, job.server, submission.user, run, asked))
        self._newest = max(self._newest, end)
        due = bisect_left(self._pending, (self._newest - MAX_LATENESS_S + 1,), hi=min(_MAX_STEPS, len(self._pending)))
        for _ in range(due):
            self._train()

    def predict(self, submission: Submission, now: int, elapsed: int = 0) -> Prediction | NoPrediction:
        """Return the polynomial's value without its sign, at least 1 s and the time run, at most the walltime."""
        if not submission.walltime:
            return NoPrediction(Reason.NO_WALLTIME)
        if not self._function.count:
            return NoPrediction(Reason.OTHER, ("no job ended a day ago or earlier: nothing has been learned yet",))
        user = self._users.get(submission.user) or UserRuns()
        seconds = self._function.predict(polynomial(user.features(_asked(submission), now)))
        seconds = min(max(abs(seconds), 1.0, float(elapsed)), float(max(submission.walltime, elapsed)))
        return Prediction(
            seconds, "polynomial regression learned from {} jobs, {} of them of user {}",
            (self._function.count, user.count, submission.user),
        )  # fmt: skip

    def _train(self) -> None:
        _, _, _, name, run, asked = self._pending.pop(0)
        user = self._users[name]
        if not user.knows(run.submitted):
            return
        x = polynomial(user.features(asked, run.submitted))
        error = self._function.rescale(x) - run.runtime
        self._function.step(x, slope(error, run.runtime, run.ncpus, self.options))

    def _user(self, name: str) -> UserRuns:
        return self._users.get(name) or self._users.setdefault(name, UserRuns())


def slope(error: float, runtime: int, ncpus: int, options: GaussierOptions) -> float:
    """Return the derivative of the loss by the prediction; ``error``: prediction less runtime, in seconds."""
    weight = weight_of(runtime, ncpus, options.weight)
    if error >= 0:
        return weight * (2 * error if options.over == "squared" else float(error > 0))
    return weight * (2 * error if options.under == "squared" else -1.0)


def weight_of(runtime: int, ncpus: int, weight: Weight) -> float:
    offset, length, width = _WEIGHTS[weight]
    return max(offset + length * math.log(runtime) + width * math.log(ncpus), 0.0)


def _asked(submission: Submission) -> Asked:
    return Asked(submission.job_id, submission.submitted, submission.walltime or 0, max(submission.ncpus or 1, 1))
