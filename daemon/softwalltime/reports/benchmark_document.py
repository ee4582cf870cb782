"""A benchmark as a document: predictors, schedules and start times on logs."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from softwalltime.measure.benchmark.cards import DataCard
from softwalltime.measure.benchmark.figures import BenchmarkRow
from softwalltime.measure.forecast.judgement import ReplayStartsDocument
from softwalltime.measure.simulation.differences import Interval
from softwalltime.reports.benchmark_schedules import ScheduleRow

_PREDICTOR = tuple(field.name for field in fields(BenchmarkRow) if field.name not in ("reliability", "ranges"))
_SCHEDULE = tuple(
    column
    for field in fields(ScheduleRow)
    for column in (Interval().columns(field.name) if field.type is Interval else (field.name,))
)


@dataclass(frozen=True, slots=True)
class BenchmarkDocument:
    """Predictors, schedules and start times on logs, by one protocol."""

    COLUMNS: ClassVar = tuple(dict.fromkeys((*_PREDICTOR, *_SCHEDULE, "schedule", *ReplayStartsDocument.COLUMNS)))

    logs: tuple[DataCard, ...]
    """Data cards of the public logs that were measured."""
    missing: tuple[DataCard, ...]
    """Public logs that were not in the sources."""
    figures: tuple[BenchmarkRow, ...]
    """Figures of each predictor on each log."""
    schedules: tuple[ScheduleRow, ...]
    """With --schedules: waits under each policy on each log."""
    starts: tuple[ReplayStartsDocument, ...]
    """With --starts: forecasts of the simulated and of the recorded starts of each log, their source."""

    def rows(self) -> Iterator[dict[str, Any]]:
        for row in self.figures:
            yield {name: getattr(row, name) for name in _PREDICTOR}
        for schedule in self.schedules:
            columns: dict[str, Any] = {}
            for field in fields(schedule):
                value = getattr(schedule, field.name)
                columns |= value.columns(field.name) if isinstance(value, Interval) else {field.name: value}
            yield columns
        for starts in self.starts:
            head = {name: getattr(starts, name) for name in ("predictor", "jobs", "processors", "schedule")}
            yield from ({"log": starts.source, **head, **row} for row in starts.rows())
