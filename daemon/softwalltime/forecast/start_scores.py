"""Forecasts of starts compared with the starts, as a document: the output of ``softwalltime replay-starts``."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

from softwalltime.forecast.judgement import StartScores


@dataclass(frozen=True, slots=True)
class ReplayStartsDocument:
    """Forecasts of start times on recorded jobs, compared with the starts."""

    COLUMNS: ClassVar = ("time", "method", *(field.name for field in fields(StartScores)))

    source: str
    """The sources, as given."""
    jobs: int
    """Number of jobs."""
    refused: int
    """Number of jobs that are larger than the machine."""
    processors: int
    """Size of the machine."""
    schedule: str
    """simulated, or recorded."""
    predictor: str
    """Predictor of runtimes."""
    forecasts: dict[str, dict[str, StartScores]]
    """Figures without the first 10% of the sampled jobs, which only calibrate: by time of the forecast and method."""

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row for each time of the forecast and method."""
        for name, by_method in self.forecasts.items():
            for method, figures in by_method.items():
                yield {"time": name, "method": method, **asdict(figures)}
