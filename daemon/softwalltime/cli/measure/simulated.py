"""Print simulated schedules: tables, JSON and CSV."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from softwalltime.cli.advice import Advice, advice_of, print_advice
from softwalltime.cli.output import Output, prefixed
from softwalltime.cli.selection import JobSelection
from softwalltime.formatting import plural
from softwalltime.reports.recommendation import Recommendation
from softwalltime.reports.schedule_table import (
    CHANGES_LEGEND,
    LEGEND,
    TAILS_LEGEND,
    changes_table,
    schedules_table,
    tails_table,
    unscored_line,
)
from softwalltime.simulation.differences import RELATIVE, Interval, differences, means, relative_changes
from softwalltime.simulation.jobs import Jobs
from softwalltime.simulation.metrics import Metrics
from softwalltime.simulation.policies import SchedulerPolicy
from softwalltime.simulation.shaking import FEW_USERS, few_users
from softwalltime.simulation.tasks import Experiment

Classes = dict[str, dict[str, dict[str, Metrics]]]
"""Metrics by kind of class, policy and class."""
_METRICS = [field.name for field in fields(Metrics)]
COLUMNS = (
    "policy", "kind", "class", *_METRICS,
    *(f"change_{name}{end}" for name in RELATIVE for end in ("", "_low", "_high")),
)  # fmt: skip
"""Columns of CSV: a row for each policy, and with --by for each policy and class."""


@dataclass(frozen=True, slots=True)
class SimulationPlan:
    """The simulations: policies by name, the first one as baseline, on one workload or several shaken ones."""

    experiment: Experiment
    policies: dict[str, SchedulerPolicy]
    seeds: tuple[int, ...]
    jobs: Jobs


@dataclass(frozen=True, slots=True)
class SimulationDocument:
    """Schedules of recorded jobs under several policies, the first one as baseline."""

    source: str
    """The sources, as given."""
    processors: int
    """Size of the machine."""
    jobs: int
    """Number of simulated jobs."""
    scored: int
    """Number of them with a walltime: the metrics are of these."""
    scored_processor_time: float
    """Share of the processor time that the scored jobs used, by recorded runtimes."""
    refused: int
    """Number of jobs that are larger than the machine."""
    left_out: Mapping[str, int]
    """Number of jobs that cannot be simulated, by reason."""
    shake: str | None
    """How workloads were shaken; null: the recorded workload alone."""
    seeds: tuple[int, ...]
    """The shaken workloads."""
    policies: dict[str, Metrics]
    """Metrics by policy: means over the workloads."""
    differences: dict[str, dict[str, Interval]]
    """Metric minus the first policy's, by policy and metric, in the metric's unit."""
    relative_changes: dict[str, dict[str, Interval]]
    """The difference divided by the first policy's metric."""
    settings: dict[str, SchedulerPolicy]
    """The policies themselves."""
    classes: Classes | None = None
    """With --by: metrics by kind of class, policy and class."""
    selection: str | None = None
    """Which jobs were selected; null: all."""
    caution: str | None = None
    """Why no verdict follows from the intervals; null: nothing speaks against it."""
    recommendation: Advice | None = None
    """With policy compare: what to do; null: nothing was to be recommended."""


def print_simulation(
    output: Output, sources: tuple[str, ...], selection: JobSelection, plan: SimulationPlan, refused: int,
    metrics: dict[str, list[Metrics]], classes: Classes, advice: Recommendation | None = None,
) -> None:  # fmt: skip
    """Print the metrics of each policy, and the changes against the first policy."""
    first, *others = plan.policies
    experiment = plan.experiment
    document = SimulationDocument(
        source=" ".join(sources),
        processors=experiment.processors,
        jobs=len(plan.jobs),
        scored=int(plan.jobs.scored.sum()),
        scored_processor_time=plan.jobs.scored_share(),
        refused=refused,
        left_out=plan.jobs.left_out,
        shake=experiment.shake or None,
        seeds=plan.seeds if experiment.shake else (),
        policies={name: means(by_workload) for name, by_workload in metrics.items()},
        differences={name: differences(metrics[name], metrics[first]) for name in others},
        relative_changes={name: relative_changes(metrics[name], metrics[first]) for name in others},
        settings=plan.policies,
        classes=classes or None,
        selection=str(selection) or None,
        caution=FEW_USERS if experiment.shake and few_users(plan.jobs) else None,
        recommendation=None if advice is None else advice_of(advice),
    )
    if output.form == "json":
        output.document(document)
    elif output.form == "csv":
        output.rows(COLUMNS, _rows(document))
    else:
        _print(output, document, selection.label(sources), unscored_line(plan.jobs))


def _rows(document: SimulationDocument) -> Iterator[dict[str, Any]]:
    for name, figures in document.policies.items():
        changes: dict[str, Any] = {}
        for metric, change in document.relative_changes.get(name, {}).items():
            changes |= {f"{metric}": change.mean, f"{metric}_low": change.low, f"{metric}_high": change.high}
        yield {"policy": name, **asdict(figures), **prefixed("change_", changes)}
    for kind, policies in (document.classes or {}).items():
        for name, by_class in policies.items():
            for label, figures in by_class.items():
                yield {"policy": name, "kind": kind, "class": label, **asdict(figures)}


def _print(output: Output, document: SimulationDocument, label: str, unscored: str) -> None:
    counts = [f"{count:,} left out ({reason})" for reason, count in document.left_out.items()]
    counts += [f"{document.refused:,} refused (larger than the machine)"] if document.refused else []
    size = plural(document.processors, "processor")
    output.paragraph(", ".join([f"{label}: {document.jobs:,} jobs on {size}", *counts]))
    if unscored:
        output.paragraph(unscored)
    if document.shake:
        output.paragraph(f"means over {len(document.seeds)} shaken workloads ({document.shake})")
    output.line()
    output.table(schedules_table(document.policies))
    output.line()
    output.paragraph(LEGEND, "faint")
    if document.relative_changes:
        output.line()
        output.table(changes_table(document.relative_changes, document.differences))
        output.line()
        output.paragraph(CHANGES_LEGEND, "faint")
        output.line()
        baseline, today = next(iter(document.policies.items()))
        output.table(tails_table(baseline, today, document.relative_changes))
        output.line()
        output.paragraph(TAILS_LEGEND, "faint")
        if document.caution:
            output.paragraph(document.caution, "warning")
    if document.recommendation is not None:
        print_advice(output, document.recommendation)
    for kind, policies in (document.classes or {}).items():
        for name, figures in policies.items():
            output.line()
            output.paragraph(f"{name}, by {kind}:")
            output.line()
            output.table(schedules_table(figures, kind))
