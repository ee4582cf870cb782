"""The user's walltime, the baseline of every predictor."""

from typing import ClassVar

from softwalltime.jobs import NoPrediction, Prediction, Submission
from softwalltime.predictors.untrained import UntrainedPredictor
from softwalltime.reasons import Reason


class RequestedWalltime(UntrainedPredictor):
    """Baseline without predictions: the scheduler plans with the walltime."""

    name: ClassVar[str] = "request"
    summary: ClassVar[str] = "none: the user's walltime is kept (the baseline)"
    source: ClassVar[str] = "what PBS does without soft walltimes"
    tried_options: ClassVar[tuple[str, ...]] = ()

    def predict(self, submission: Submission, now: int, elapsed: int = 0) -> Prediction | NoPrediction:
        return NoPrediction(Reason.BASELINE)
