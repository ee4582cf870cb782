"""Baselines without learning: the requested walltime, a share of it, and a fixed runtime."""

from typing import ClassVar

from pydantic import Field

from softwalltime.core.jobs import CompletedJob, NoPrediction, Prediction, Submission
from softwalltime.core.reasons import Reason
from softwalltime.predict.predictors.base import History, Options, Predictor


class UntrainedPredictor(Predictor):
    by_user = True

    @property
    def history(self) -> History:
        return History()

    def learn(self, job: CompletedJob) -> None:
        pass


class RequestedWalltime(UntrainedPredictor):
    """Baseline without predictions: the scheduler plans with the walltime."""

    name: ClassVar[str] = "request"
    summary: ClassVar[str] = "none: the user's walltime is kept (the baseline)"
    source: ClassVar[str] = "what PBS does without soft walltimes"
    tried_options: ClassVar[tuple[str, ...]] = ()

    def predict(self, submission: Submission, now: int, elapsed: int = 0) -> NoPrediction:
        return NoPrediction(Reason.BASELINE)


class FactorOptions(Options):
    share: float = Field(default=0.5, gt=0, le=1, description="share of the walltime")


class Factor(UntrainedPredictor):
    """The walltime times a constant.

    A baseline for learned predictors in the scheduler: half the walltime shortens waits without any history.
    """

    name: ClassVar[str] = "factor"
    summary: ClassVar[str] = "a fixed share of the walltime"
    source: ClassVar[str] = "baseline: halved walltimes need no history"
    options: FactorOptions
    tried_options: ClassVar[tuple[str, ...]] = ("share=0.25|0.5|0.75",)
    main_option: ClassVar[str] = "share"

    def predict(self, submission: Submission, now: int, elapsed: int = 0) -> Prediction | NoPrediction:
        if not submission.walltime:
            return NoPrediction(Reason.NO_WALLTIME)
        share = self.options.share
        return Prediction(share * submission.walltime, "{:g} of the walltime", (share,))


class ConstantOptions(Options):
    seconds: float = Field(default=600.0, gt=0, description="predicted runtime in seconds")


class Constant(UntrainedPredictor):
    """A fixed number of seconds, 10 min by default.

    With a correction of expired estimates it schedules without predictions (Rubio et al. 2021, section 4.4).
    """

    name: ClassVar[str] = "constant"
    summary: ClassVar[str] = "the same runtime for every job"
    source: ClassVar[str] = "Rubio et al. 2021, section 4.4: correction only"
    options: ConstantOptions
    tried_options: ClassVar[tuple[str, ...]] = ()
    main_option: ClassVar[str] = "seconds"

    def predict(self, submission: Submission, now: int, elapsed: int = 0) -> Prediction | NoPrediction:
        if not submission.walltime:
            return NoPrediction(Reason.NO_WALLTIME)
        return Prediction(self.options.seconds, "{:g} s for every job", (self.options.seconds,))
