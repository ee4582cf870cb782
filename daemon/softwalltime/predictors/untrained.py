"""Base of the predictors that learn nothing."""

from softwalltime.jobs import CompletedJob
from softwalltime.predictors.base import History, Predictor


class UntrainedPredictor(Predictor):
    """Predicts from the submission and the options alone."""

    @property
    def history(self) -> History:
        return History()

    def learn(self, job: CompletedJob) -> None:
        """Do nothing."""
