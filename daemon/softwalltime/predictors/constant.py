"""A fixed runtime for every job."""

from typing import ClassVar

from pydantic import Field

from softwalltime.jobs import NoPrediction, Prediction, Submission
from softwalltime.predictors.base import Options
from softwalltime.predictors.untrained import UntrainedPredictor
from softwalltime.reasons import Reason


class ConstantOptions(Options):
    """Options of ``constant``."""

    seconds: float = Field(default=600.0, gt=0, description="predicted runtime in seconds")


class Constant(UntrainedPredictor):
    """A fixed number of seconds, 10 min by default.

    With a correction of expired estimates it schedules without predictions (Rubio et al. 2021, section 4.4).
    """

    name: ClassVar[str] = "constant"
    summary: ClassVar[str] = "the same runtime for every job"
    source: ClassVar[str] = "Rubio et al. 2021, section 4.4: correction only"
    options_type: ClassVar[type[Options]] = ConstantOptions
    tried_options: ClassVar[tuple[str, ...]] = ()
    main_option: ClassVar[str] = "seconds"

    def __init__(self, options: ConstantOptions) -> None:
        super().__init__(options)
        self._seconds = options.seconds

    def predict(self, submission: Submission, now: int, elapsed: int = 0) -> Prediction | NoPrediction:
        if not submission.walltime:
            return NoPrediction(Reason.NO_WALLTIME)
        return Prediction(self._seconds, "{:g} s for every job", (self._seconds,))
