"""Quality of predictors and of start forecasts, and waits by job size, from the monitoring figures."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quality:
    """Quality of one predictor in the last week."""

    mode: str
    """Mode of the policy when the jobs were predicted."""
    predictor: str
    """The predictor."""
    jobs: int
    """Number of scored jobs."""
    accuracy: float
    """Mean of min(p, t) / max(p, t)."""
    underestimated: float
    """Share of the jobs with p < t."""
    badly_underestimated: float
    """Share of the jobs underestimated by more than 30 min."""
    request_accuracy: float
    """Accuracy of the requested walltimes."""


@dataclass(frozen=True, slots=True)
class StartQuality:
    """Accuracy of a queue's start forecasts in the last seven days."""

    queue: str
    """The queue."""
    forecasts: int
    """Number of forecasts."""
    mean_wait: float
    """Mean wait in seconds."""
    relative_error: float | None
    """Mean absolute error divided by the mean wait; null: no job waited."""
    bias: float
    """Mean of expected minus actual start, in seconds."""
    within50: float
    """Share of the starts within the 50% range."""
    within90: float
    """Share of the starts within the 90% range."""


@dataclass(frozen=True, slots=True)
class WaitOfSize:
    """Waits of the jobs of one size in the last seven days, and in the eight weeks before."""

    processors: str
    """Class of the processors requested."""
    widest: bool
    """Whether it is the largest size with 20 jobs or more in both periods."""
    week_wait_jobs: int
    """Scored jobs of the last seven days."""
    week_wait: float
    """Their mean wait in seconds."""
    weeks_before_wait_jobs: int
    """Scored jobs of the eight weeks before."""
    weeks_before_wait: float
    """Their mean wait in seconds."""
