"""The user's own walltime: what every predictor is measured against."""

from typing import ClassVar

from softwalltime.jobs import ColdStart, CompletedJob, Prediction, Submission
from softwalltime.predictors.base import History, Predictor
from softwalltime.reasons import Reason


class RequestedWalltime(Predictor):
    """Baseline without predictions: the scheduler plans with the walltime."""

    name: ClassVar[str] = "request"
    summary: ClassVar[str] = "none: the user's walltime is kept (the baseline)"
    source: ClassVar[str] = "what PBS does without soft walltimes"

    @property
    def history(self) -> History:
        """Nothing."""
        return History()

    def learn(self, job: CompletedJob) -> None:
        """Nothing."""

    def predict(self, submission: Submission, now: int, elapsed: int = 0) -> Prediction | ColdStart:
        """Always none."""
        return ColdStart(Reason.BASELINE)
