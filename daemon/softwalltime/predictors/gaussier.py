"""Online polynomial regression with an asymmetric, weighted loss."""

import math
from bisect import bisect_left, insort
from typing import ClassVar, Literal

from pydantic import Field

from softwalltime.events import Deleted, Ended, Event, Started
from softwalltime.jobs import CompletedJob, NoPrediction, Prediction, Submission
from softwalltime.predictors.base import History, Options, Predictor
from softwalltime.predictors.regression.normalised_gradient import NormalisedGradient
from softwalltime.predictors.regression.user_features import (
    DIMENSION,
    MAX_USER_RUNS,
    Asked,
    PastRun,
    UserRuns,
    polynomial,
)
from softwalltime.reasons import Reason

LATENESS = 86400
"""Seconds by which a job may become known late without a change of any later answer."""
DAYS = 400
"""Days of history from which a new predictor learns."""
_AT_ONCE = 4
"""Jobs at most that one call of ``learn`` trains with, because an answer may be waiting."""

Branch = Literal["linear", "squared"]
Weight = Literal["one", "large", "small", "long-narrow", "short-wide"]
_WEIGHTS = {
    "one": (1, 0, 0), "large": (1, 1, 1), "small": (11, -1, -1), "long-narrow": (5, 1, -1), "short-wide": (5, -1, 1),
}  # fmt: skip
"""Offset, factor of the logarithm of the runtime, and of that of the processors."""


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

    The published method makes its step when a job ends.  This one makes it ``LATENESS`` later and in order of end,
    because the answers must not depend on the order in which jobs became known.  (They may for some jobs after a time
    without ends: at most ``_AT_ONCE`` steps are made for each end, until none is due.)  The step uses the features at
    the job's submission; it is left out if more than ``MAX_USER_RUNS`` of the user's jobs have ended since.  A daemon
    that restarts learns from the last ``DAYS``, and may then answer differently.

    The paper's corrections of predictions that a job outlives are in the simulator (``simulate --correction``), and its
    choice among loss functions is ``softwalltime tune``.
    """

    name: ClassVar[str] = "gaussier"
    summary: ClassVar[str] = "polynomial regression, learned online with a loss that prefers underestimates"
    source: ClassVar[str] = "Gaussier, Glesser, Reis & Trystram 2015, E-Loss; Ross, Mineiro & Langford 2013 (NAG)"
    options_type: ClassVar[type[Options]] = GaussierOptions
    tried_options: ClassVar[tuple[str, ...]] = (
        "",
        "over=linear,under=squared",
        "over=squared,under=squared,weight=one",
    )

    def __init__(self, options: GaussierOptions) -> None:
        super().__init__(options)
        self._loss = options
        self._users: dict[str, UserRuns] = {}
        # End, job id, server and user of jobs that the function has not learned, in order of end, and the job.
        self._pending: list[tuple[int, str, str, str, PastRun, Asked]] = []
        self._newest = 0
        self._function = NormalisedGradient(DIMENSION, options.eta, options.l2)

    @property
    def history(self) -> History:
        """The last jobs of each user, and all of the last ``DAYS``."""
        return History(per_user=MAX_USER_RUNS, seconds=DAYS * 86400)

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
        """Add the job to its user's; train with jobs that ended ``LATENESS`` before."""
        submission, end = job.submission, job.end
        if not submission.walltime or job.runtime <= 0:
            return
        start = end - job.runtime if job.start is None else job.start
        asked = _asked(submission)
        run = PastRun(end, asked.submitted, start, min(job.runtime, asked.walltime), asked.ncpus)
        self._user(submission.user).add(run)
        insort(self._pending, (end, asked.job_id, job.server, submission.user, run, asked))
        self._newest = max(self._newest, end)
        due = bisect_left(self._pending, (self._newest - LATENESS + 1,), hi=min(_AT_ONCE, len(self._pending)))
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
        self._function.step(x, slope(error, run.runtime, run.ncpus, self._loss))

    def _user(self, name: str) -> UserRuns:
        return self._users.get(name) or self._users.setdefault(name, UserRuns())


def slope(error: float, runtime: int, ncpus: int, options: GaussierOptions) -> float:
    """Return the derivative of the loss by the prediction.

    :param error: prediction less runtime, in seconds.
    """
    weight = weight_of(runtime, ncpus, options.weight)
    if error >= 0:
        return weight * (2 * error if options.over == "squared" else float(error > 0))
    return weight * (2 * error if options.under == "squared" else -1.0)


def weight_of(runtime: int, ncpus: int, weight: Weight) -> float:
    """Return the weight of a job's error, at least 0."""
    offset, length, width = _WEIGHTS[weight]
    return max(offset + length * math.log(runtime) + width * math.log(ncpus), 0.0)


def _asked(submission: Submission) -> Asked:
    return Asked(submission.job_id, submission.submitted, submission.walltime or 0, max(submission.ncpus or 1, 1))
