"""Results of predictors on the two parts of a log: the output of ``softwalltime tune``."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

from softwalltime.measure.replay.accuracy_metrics import Scores
from softwalltime.measure.replay.sweep.trials import Trial
from softwalltime.measure.simulation.schedule_metrics import Metrics
from softwalltime.measure.tuning.choice import Chosen, Split
from softwalltime.reports.simulation_document import Advice


@dataclass(frozen=True, slots=True)
class TuneDocument:
    """Predictors on the earlier and on the later part of a log."""

    COLUMNS: ClassVar = (
        "predictor", "seconds", "failure",
        *(f"{part}_{field.name}" for part in ("before", "after") for field in fields(Scores)),
    )  # fmt: skip

    source: str
    """The sources, as given."""
    selection: str | None
    """Which jobs were selected; null: all."""
    split: Split
    """The times that separate the parts, epoch seconds."""
    target: float
    """Greatest share of underestimated jobs."""
    trials: dict[str, Trial]
    """The figures by predictor: of the earlier part, then of the later one."""
    front: tuple[str, ...]
    """Pareto front of accuracy and underestimated jobs on the earlier part."""
    chosen: Chosen
    """The predictors that were chosen by the earlier part."""
    policies: dict[str, Metrics]
    """Metrics of the simulated settings."""
    advice: Advice
    """The recommendation."""

    def rows(self) -> Iterator[dict[str, Any]]:
        for spec, trial in self.trials.items():
            row: dict[str, Any] = {"predictor": spec, "seconds": trial.seconds, "failure": trial.failure}
            for name, part in zip(("before", "after"), trial.parts, strict=False):
                row |= {f"{name}_{figure}": value for figure, value in asdict(part).items()}
            yield row
