"""The same runtime for every job: what corrections alone begin with."""

from typing import ClassVar

from pydantic import Field

from softwalltime.jobs import ColdStart, CompletedJob, Prediction, Submission
from softwalltime.predictors.base import History, Options, Predictor
from softwalltime.reasons import Reason


class ConstantOptions(Options):
    """Options of ``constant``."""

    seconds: float = Field(default=600.0, gt=0, description="predicted runtime in seconds")


class Constant(Predictor):
    """A fixed number of seconds, 10 min by default.

    With a correction of estimates that run out, this is scheduling without prediction (Rubio et al. 2021, section 4.4).
    """

    name: ClassVar[str] = "constant"
    summary: ClassVar[str] = "the same runtime for every job"
    source: ClassVar[str] = "Rubio et al. 2021, section 4.4: correction only"
    options_type: ClassVar[type[Options]] = ConstantOptions
    main_option: ClassVar[str] = "seconds"

    def __init__(self, options: ConstantOptions) -> None:
        super().__init__(options)
        self._seconds = options.seconds

    @property
    def history(self) -> History:
        """Nothing."""
        return History()

    def learn(self, job: CompletedJob) -> None:
        """Nothing."""

    def predict(self, submission: Submission, now: int, elapsed: int = 0) -> Prediction | ColdStart:
        """The constant."""
        if not submission.walltime:
            return ColdStart(Reason.NO_WALLTIME)
        return Prediction(self._seconds, "{:g} s for every job", (self._seconds,))
