"""The verdict and the figures of a report as a document: the output of ``softwalltime report``."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

from softwalltime.replay.metrics import Scores
from softwalltime.reports.likeness import Likeness
from softwalltime.reports.report import Report
from softwalltime.reports.simulation import SettingWaits, SimulationFigures, SimulationSkipped
from softwalltime.reports.simulation_document import Advice
from softwalltime.simulation.differences import Interval
from softwalltime.simulation.metrics import Metrics

_SHARES = ("broken_promises", "wait_longer", "wait_shorter")


@dataclass(frozen=True, slots=True)
class SettingDocument:
    """What a setting did to waits in the simulation."""

    keeps_order: bool
    """Whether the order of the queue stays as it is."""
    metrics: Metrics
    """Means over the shaken workloads."""
    relative_changes: dict[str, Interval]
    """Difference to today's schedule, divided by today's metric, by metric."""
    broken_promises: Interval
    """Share of the promised starts that came later."""
    wait_longer: Interval
    """Share of the jobs that waited at least an hour longer than today."""
    wait_shorter: Interval
    """Share of the jobs that waited at least an hour shorter than today."""


@dataclass(frozen=True, slots=True)
class ReportDocument:
    """The verdict of a report, and the figures behind it."""

    COLUMNS: ClassVar = (
        "setting",
        "recommended",
        "keeps_order",
        *(field.name for field in fields(Metrics)),
        *(f"{name}{end}" for name in _SHARES for end in ("", "_low", "_high")),
        *(f"change_{name}{end}" for name in ("wait_mean", "wait_p95", "bsld10_mean") for end in ("", "_low", "_high")),
    )

    page: str
    """The file of the HTML page."""
    advice: Advice
    """What is recommended."""
    policy: str
    """Settings of the daemon that do what is recommended, as TOML, in shadow mode first; empty: none are."""
    target: float
    """Greatest share of promised starts that a recommended setting may break."""
    jobs: int
    """Number of jobs."""
    scored: int
    """Number of jobs that ran and had a walltime."""
    users: int
    """Number of users."""
    since: int
    """The first submission, epoch seconds."""
    until: int
    """The last submission, epoch seconds."""
    selection: str | None
    """Which jobs were selected; null: all."""
    predictors: dict[str, Scores]
    """Figures of each predictor over all scored jobs."""
    after_warm_up: dict[str, Scores]
    """The same without the first 1% of the jobs."""
    not_simulated: str | None
    """Why waits were not simulated; null: they were."""
    processors: int | None
    """Size of the simulated machine."""
    processors_estimated: bool
    """Whether that is the most in use at one time."""
    simulated_jobs: int
    """Number of simulated jobs."""
    seeds: tuple[int, ...]
    """Seeds of the shaken workloads."""
    likeness: Likeness | None
    """Recorded waits beside simulated ones; null: not simulated, or starts are not recorded."""
    today: Metrics | None
    """Means over the workloads with what the site runs."""
    settings: dict[str, SettingDocument]
    """Each simulated setting, by name."""

    @classmethod
    def of(cls, found: Report, page: str, selection: str) -> "ReportDocument":
        """Return the document about a report.

        :param selection: which jobs were selected; empty: all.
        """
        simulated = found.simulation if isinstance(found.simulation, SimulationFigures) else None
        return cls(
            page=page,
            advice=Advice.of(found.recommendation),
            policy=found.recommendation.policy,
            target=found.options.target,
            jobs=found.jobs,
            scored=found.scored,
            users=found.users,
            since=found.since,
            until=found.until,
            selection=selection or None,
            predictors={spec: scores for spec, (scores, _) in found.scores.items()},
            after_warm_up={spec: scores for spec, (_, scores) in found.scores.items()},
            not_simulated=found.simulation.reason if isinstance(found.simulation, SimulationSkipped) else None,
            processors=simulated.processors if simulated else None,
            processors_estimated=simulated.estimated if simulated else False,
            simulated_jobs=simulated.jobs if simulated else 0,
            seeds=simulated.seeds if simulated else (),
            likeness=simulated.likeness if simulated else None,
            today=simulated.baseline if simulated else None,
            settings={one.setting.name: _setting(one) for one in (simulated.settings if simulated else ())},
        )

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield today's schedule, then each setting."""
        if self.today is not None:
            yield {"setting": "today", "recommended": False, "keeps_order": True, **asdict(self.today)}
        for name, one in self.settings.items():
            row: dict[str, Any] = {
                "setting": name,
                "recommended": name == self.advice.name,
                "keeps_order": one.keeps_order,
            }
            row |= asdict(one.metrics)
            for key in _SHARES:
                row |= getattr(one, key).columns(key)
            for metric, change in one.relative_changes.items():
                row |= change.columns(f"change_{metric}")
            yield row


def _setting(waits: SettingWaits) -> SettingDocument:
    return SettingDocument(
        waits.setting.keeps_order, waits.metrics, waits.changes, waits.broken, waits.worse, waits.better
    )
