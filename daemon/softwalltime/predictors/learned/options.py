"""Options of the predictor calibrated."""

from typing import Literal

from pydantic import Field

from softwalltime.predictors.base import Options
from softwalltime.predictors.learned.objectives import Objective


class CalibratedOptions(Options):
    weights: str = Field(
        default="learned", description="learned: those in the package; or a file that softwalltime train wrote"
    )
    target: float = Field(default=0.05, gt=0, lt=0.5, description="share of the jobs to underestimate")
    statistic: Literal["target", "mean", "median", "quantile"] = Field(
        default="target",
        description="target: the most accurate prediction at the target; or mean, median or quantile q",
    )
    objective: Objective = Field(
        default="accuracy",
        description="for statistic=target: highest mean accuracy, least mean absolute error in seconds, "
        "or least mean absolute error in node-seconds",
    )
    q: float = Field(default=0.9, gt=0, lt=1, description="the quantile, for statistic=quantile")
    minimum: float = Field(default=1.0, ge=1, description="least prediction in seconds")
    compiled: Literal["auto", "no"] = Field(
        default="auto", description="auto: numba compiles the estimate where it is installed (extra fast); no: numpy"
    )
