"""A fixed share of the walltime."""

from typing import ClassVar

from pydantic import Field

from softwalltime.jobs import NoPrediction, Prediction, Submission
from softwalltime.predictors.base import Options
from softwalltime.predictors.untrained import UntrainedPredictor
from softwalltime.reasons import Reason


class FactorOptions(Options):
    """Options of ``factor``."""

    share: float = Field(default=0.5, gt=0, le=1, description="share of the walltime")


class Factor(UntrainedPredictor):
    """The walltime times a constant.

    A baseline for learned predictors in the scheduler: half the walltime shortens waits without any history.
    """

    name: ClassVar[str] = "factor"
    summary: ClassVar[str] = "a fixed share of the walltime"
    source: ClassVar[str] = "baseline: halved walltimes need no history"
    options_type: ClassVar[type[Options]] = FactorOptions
    tried_options: ClassVar[tuple[str, ...]] = ("share=0.25|0.5|0.75",)
    main_option: ClassVar[str] = "share"

    def __init__(self, options: FactorOptions) -> None:
        super().__init__(options)
        self._share = options.share

    def predict(self, submission: Submission, now: int, elapsed: int = 0) -> Prediction | NoPrediction:
        if not submission.walltime:
            return NoPrediction(Reason.NO_WALLTIME)
        return Prediction(self._share * submission.walltime, "{:g} of the walltime", (self._share,))
