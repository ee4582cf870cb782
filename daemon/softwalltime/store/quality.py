"""Quality of predictors and of forecasts of starts, as the monitoring figures have it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quality:
    """Quality of one predictor in the last week: shares of 1 over its scored jobs.

    ``request_accuracy`` is what ``accuracy`` would be with the users' own walltimes.
    """

    mode: str
    predictor: str
    jobs: int
    accuracy: float
    underestimated: float
    badly_underestimated: float
    request_accuracy: float


@dataclass(frozen=True, slots=True)
class StartQuality:
    """How good a queue's forecasts were in the last seven days.

    ``mean_wait`` and ``bias`` (expected minus actual) in seconds; ``relative_error`` is the mean absolute error divided
    by the mean wait, ``None`` if no job waited; the others are shares of the starts within the ranges.
    """

    queue: str
    forecasts: int
    mean_wait: float
    relative_error: float | None
    bias: float
    within50: float
    within90: float
