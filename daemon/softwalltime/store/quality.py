"""Quality of a predictor, as the monitoring figures have it."""

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
