"""Compute all figures of a report: replay each predictor once."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar

from softwalltime.core.formatting import DAY
from softwalltime.core.progress import ShowProgress, no_progress
from softwalltime.measure.replay.accuracy_metrics import WARM_UP_SHARE, Scores, score
from softwalltime.measure.replay.fast_replay import drive, drive_specs
from softwalltime.measure.replay.workload import SCORED, Recorded
from softwalltime.measure.simulation.differences import Interval
from softwalltime.measure.simulation.schedule_metrics import Metrics
from softwalltime.predict.policy.clamp import MIN_SOFT_WALLTIME_S
from softwalltime.predict.predictors.registry import make
from softwalltime.reports.likeness import Likeness
from softwalltime.reports.recommendation import Recommendation, WaitLimits, simulated_advice, too_early
from softwalltime.reports.simulation import SimulationFigures, SimulationOptions, SimulationSkipped
from softwalltime.reports.simulation_document import Advice
from softwalltime.reports.waits_by_class import Rename
from softwalltime.reports.walltime_use import Walltimes, analyze_walltimes


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """Options of a report.

    ``minimum``: least soft walltime in seconds.
    """

    specs: tuple[str, ...]
    limits: WaitLimits = field(default_factory=WaitLimits)
    minimum: int = MIN_SOFT_WALLTIME_S
    simulation: SimulationOptions = field(default_factory=lambda: SimulationOptions(jobs=0))


_SHARES = ("broken_promises", "wait_longer", "wait_shorter")


@dataclass(frozen=True, slots=True)
class SettingDocument:
    """Simulated effect of a setting on waits."""

    keeps_order: bool
    """Whether the order of the queue is unchanged."""
    metrics: Metrics
    """Means over the shaken workloads."""
    relative_changes: dict[str, Interval]
    """Difference to today's schedule, divided by today's metric, by metric."""
    broken_promises: Interval
    """Share of the promised starts that were late."""
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
        *(metric.name for metric in fields(Metrics)),
        *(f"{name}{end}" for name in _SHARES for end in ("", "_low", "_high")),
        *(f"change_{name}{end}" for name in ("wait_mean", "wait_p95", "bsld10_mean") for end in ("", "_low", "_high")),
    )

    page: str
    """The file of the HTML page."""
    advice: Advice
    """What is recommended."""
    limits: WaitLimits
    """The limits that a recommended policy keeps."""
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
    processors: int | None = None
    """Size of the simulated machine."""
    processors_estimated: bool = False
    """Whether the size is estimated as the maximum in use at one time."""
    simulated_jobs: int = 0
    """Number of simulated jobs."""
    seeds: tuple[int, ...] = ()
    """Seeds of the shaken workloads."""
    likeness: Likeness | None = None
    """Recorded waits beside simulated ones; null: not simulated, or starts are not recorded."""
    today: Metrics | None = None
    """Means over the workloads with the site's current policy."""
    settings: dict[str, SettingDocument] = field(default_factory=dict)
    """Each simulated setting, by name."""

    def rows(self) -> Iterator[dict[str, Any]]:
        if self.today is not None:
            yield {"setting": "today", "recommended": False, "keeps_order": True, **asdict(self.today)}
        for name, setting in self.settings.items():
            recommended = name == self.advice.name
            row = {"setting": name, "recommended": recommended, "keeps_order": setting.keeps_order}
            row |= asdict(setting.metrics)
            for key in _SHARES:
                row |= getattr(setting, key).columns(key)
            for metric, change in setting.relative_changes.items():
                row |= change.columns(f"change_{metric}")
            yield row


@dataclass(frozen=True, slots=True)
class Report:
    """The document about a report, and what only its page shows; missing figures are ``None`` or empty.

    ``scores`` by predictor: of all jobs, and after the warm-up.
    """

    options: ReportOptions
    document: ReportDocument
    skipped: dict[str, int]
    walltimes: Walltimes | None
    scores: dict[str, tuple[Scores, Scores]]
    simulation: SimulationFigures | SimulationSkipped
    recommendation: Recommendation


def make_report(
    workload: Recorded, options: ReportOptions, rename: Rename = lambda kind, name: name,
    show: ShowProgress = no_progress,
) -> Report:  # fmt: skip
    """Compute all figures; the caller names the page and the selection of the jobs.

    :param show: shows the progress of the replay, and of the simulation.
    """
    with show("analyzing", len(options.specs) * len(workload)) as progress:
        replayed = drive_specs(workload, options.specs, minimum=options.minimum, progress=progress)
    users, submitted, of_scored = set[str](), list[int](), list[int]()
    for part in workload.parts((*SCORED, "user")):
        users.update(part.jobs.values("user"))
        submitted += part.submitted[[0, -1]].tolist()
        of_scored += part.submitted[part.scored][[0, -1]].tolist() if part.scored.any() else []
    skipped = workload.skipped()
    scored = len(workload) - sum(skipped.values())
    advice = too_early(scored, float(of_scored[-1] - of_scored[0]) / DAY if of_scored else 0.0)
    simulation: SimulationFigures | SimulationSkipped = SimulationSkipped("there are too few jobs")
    if advice is None:
        advice, simulation = simulated_advice(workload, options.simulation, options.limits, show=show, rename=rename)
    if advice.predictor and advice.predictor not in replayed:
        replayed[advice.predictor] = drive(workload, make(advice.predictor), options.minimum)
    soft = {spec: result.soft_walltimes for spec, result in replayed.items()}
    scores = {spec: (score(workload, values), score(workload, values, WARM_UP_SHARE)) for spec, values in soft.items()}
    document = ReportDocument(
        page="",
        advice=Advice.of(advice),
        limits=options.limits,
        jobs=len(workload),
        scored=scored,
        users=len(users),
        since=submitted[0],
        until=submitted[-1],
        selection=None,
        predictors={spec: overall for spec, (overall, _) in scores.items()},
        after_warm_up={spec: warmed_up for spec, (_, warmed_up) in scores.items()},
        not_simulated=simulation.reason if isinstance(simulation, SimulationSkipped) else None,
        **({} if isinstance(simulation, SimulationSkipped) else _simulated(simulation)),
    )
    return Report(options, document, skipped, analyze_walltimes(workload), scores, simulation, advice)


def _simulated(figures: SimulationFigures) -> dict[str, Any]:
    """Return the fields of the document about a simulation."""
    return {
        "processors": figures.processors, "processors_estimated": figures.estimated, "simulated_jobs": figures.jobs,
        "seeds": figures.seeds, "likeness": figures.likeness, "today": figures.baseline,
        "settings": {
            tried.setting.name: SettingDocument(
                tried.setting.keeps_order, tried.metrics, tried.changes, tried.broken, tried.worse, tried.better
            )
            for tried in figures.settings
        },
    }  # fmt: skip
