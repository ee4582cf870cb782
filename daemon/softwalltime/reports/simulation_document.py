"""Simulated schedules as a document: the output of ``softwalltime simulate`` and ``policy compare``."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any, ClassVar

from softwalltime.core.formatting import MISSING, duration, number, percent, printable
from softwalltime.core.text_table import Cell, Meaning, TextColumn, TextTable, sentence_column
from softwalltime.measure.simulation.differences import RELATIVE, Interval, differences, means, relative_changes
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.runs import Results, SimulationPlan
from softwalltime.measure.simulation.schedule_metrics import Metrics
from softwalltime.measure.simulation.shaking import FEW_USERS, few_users
from softwalltime.reports.recommendation import Recommendation

Classes = dict[str, dict[str, dict[str, Metrics]]]
"""Metrics by kind of class, policy and class."""


@dataclass(frozen=True, slots=True)
class Advice:
    """The verdict and its reasons."""

    verdict: str
    """on: switch the policy on; off: do not; unknown: the simulation cannot tell."""
    name: str | None
    """The recommended policy; null: none."""
    sentence: str
    """The verdict in a sentence."""
    reasons: tuple[str, ...]
    """Reasons of the verdict, one sentence for each."""
    cautions: tuple[str, ...]
    """Cautions, one sentence for each."""

    @classmethod
    def of(cls, found: Recommendation) -> "Advice":
        name = None if found.waits is None else found.waits.setting.name
        return cls(found.verdict.name.lower(), name, found.sentence, found.reasons, found.cautions)


@dataclass(frozen=True, slots=True)
class SimulationDocument:
    """Schedules of recorded jobs under several policies, the first one as baseline."""

    COLUMNS: ClassVar = (
        "policy", "kind", "class", *(field.name for field in fields(Metrics)),
        *(f"change_{name}{end}" for name in RELATIVE for end in ("", "_low", "_high")),
    )  # fmt: skip

    source: str
    """The sources, as given."""
    processors: int
    """Size of the machine."""
    jobs: int
    """Number of simulated jobs."""
    scored: int
    """Number of scored jobs, which have a walltime: the basis of the metrics."""
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
    """The difference divided by the first policy's metric; by an hour if that is 0."""
    settings: dict[str, SchedulerPolicy]
    """The policies themselves."""
    classes: Classes | None = None
    """With --by: metrics by kind of class, policy and class."""
    selection: str | None = None
    """Which jobs were selected; null: all."""
    caution: str | None = None
    """Why the intervals allow no verdict; null: they do."""
    advice: Advice | None = None
    """With policy compare: what to do; null: nothing was to be recommended."""

    @classmethod
    def of(cls, plan: SimulationPlan, results: Results, by: tuple[str, ...], **more: Any) -> "SimulationDocument":
        """Return the document about the results of a plan."""
        first, *others = plan.policies
        shake = plan.experiment.shake
        metrics = plan.metrics(results)
        return cls(
            processors=plan.experiment.processors,
            jobs=len(plan.jobs),
            scored=int(plan.jobs.scored.sum()),
            scored_processor_time=plan.jobs.scored_share(),
            left_out=plan.jobs.left_out,
            shake=shake or None,
            seeds=plan.seeds if shake else (),
            policies={name: means(by_workload) for name, by_workload in metrics.items()},
            differences={name: differences(metrics[name], metrics[first]) for name in others},
            relative_changes={name: relative_changes(metrics[name], metrics[first]) for name in others},
            settings=plan.policies,
            classes={kind: _classes(plan, results, kind) for kind in by} or None,
            caution=FEW_USERS if shake and few_users(plan.jobs) else None,
            **more,
        )

    def rows(self) -> Iterator[dict[str, Any]]:
        for name, figures in self.policies.items():
            row: dict[str, Any] = {"policy": name, **asdict(figures)}
            for metric, change in self.relative_changes.get(name, {}).items():
                row |= change.columns(f"change_{metric}")
            yield row
        for kind, policies in (self.classes or {}).items():
            for name, by_class in policies.items():
                for label, figures in by_class.items():
                    yield {"policy": name, "kind": kind, "class": label, **asdict(figures)}


def _classes(plan: SimulationPlan, results: Results, kind: str) -> dict[str, dict[str, Metrics]]:
    """Return the means over the workloads of each class that any of them has, by policy."""
    found: dict[str, dict[str, Metrics]] = {}
    for name, policy in plan.policies.items():
        classes = [results[policy, seed].classes[kind] for seed in plan.seeds]
        labels = dict.fromkeys(label for by_label in classes for label in by_label)
        found[name] = {label: means([metrics[label] for metrics in classes if label in metrics]) for label in labels}
    return found


Changes = Mapping[str, Mapping[str, Interval]]
"""By policy, then by metric."""

LEGEND = """\
wait: submission to start; slowdown: mean of max(1, (wait + runtime) / max(runtime, 10 s)); weighted: mean wait by
processor-seconds; wide p99: of jobs on at least half the machine; backfilled: jobs that overtook the top job;
broken: of the starts promised to top jobs, how many came later; worse, better: jobs that waited at least 1 h more or
less than under the first policy."""
CHANGES_LEGEND = """\
Change against the first policy, workload by workload; in brackets the 95% confidence interval of the mean, which needs
shaken workloads (--shake).  pp: percentage points."""
_UNSCORED = """\
{unscored:,} of the jobs have no walltime.  They hold their processors and are planned without an end, as PBS does.  The
figures are of the {scored:,} other jobs, which are {share} of the processor time (--walltime-from gives walltimes by
queue)."""
TAILS_LEGEND = """\
99th percentile of the waits: of all jobs; of the widest tenth; of jobs on at least half the machine; of the longest
tenth by runtime; and the longest wait.  The first line has the waits, the others the change against it.  A tenth holds
all jobs that equal its smallest one."""
BOUNDS_LEGEND = """\
bound: the start that first come, first served would have given a job when it was submitted, plus the slack; past: jobs
that started later; at most: by how much."""
_SCHEDULE: dict[str, tuple[int, str, Callable[[float | None], str]]] = {
    "wait": (0, "wait_mean", duration), "median": (4, "wait_p50", duration), "p95": (0, "wait_p95", duration),
    "longest": (3, "wait_max", duration), "slowdown": (0, "bsld10_mean", partial(number, digits=2)),
    "weighted": (5, "weighted_wait", duration), "wide p99": (2, "wide_wait_p99", duration),
    "backfilled": (7, "backfilled", percent), "broken": (0, "broken", percent), "worse": (1, "worse_1h", percent),
    "better": (1, "better_1h", percent), "utilisation": (6, "utilisation", percent),
}  # fmt: skip
"""Columns of schedules: which of them a narrow terminal omits first, the metric and its format."""
_TAILS = {
    "wait_p99": ("p99", 5), "widest_wait_p99": ("widest tenth", 3), "wide_wait_p99": ("half machine", 4),
    "longest_wait_p99": ("longest tenth", 2), "wait_max": ("longest wait", 1),
}  # fmt: skip
_CHANGES = {
    "wait_mean": ("wait", 0), "wait_p95": ("p95", 1), "bsld10_mean": ("slowdown", 2), "weighted_wait": ("weighted", 4),
}  # fmt: skip
INTERVAL_WIDTH = 14
"""Width of an interval such as [-40.6, -38.2]."""


def unscored_line(scored: int, jobs: int, share: float) -> str:
    """Report the scored jobs' share of the processor time; empty if all jobs are scored."""
    return "" if scored == jobs else _UNSCORED.format(unscored=jobs - scored, scored=scored, share=percent(share))


def schedules_table(metrics: Mapping[str, Metrics], title: str = "policy") -> TextTable:
    columns = (sentence_column(title), *(TextColumn(name, rank) for name, (rank, *_) in _SCHEDULE.items()))
    rows = [
        _row(name, *(shown(getattr(figures, metric)) for _, metric, shown in _SCHEDULE.values()))
        for name, figures in metrics.items()
    ]
    return TextTable.of(columns, rows)


def changes_table(relative: Changes, differences: Changes) -> TextTable:
    """Return a row for each policy but the first: differences of its metrics from the first one's."""
    rows = [
        _row(name, *(change_cell(changes[metric]) for metric in _CHANGES), change_cell(broken["broken"], " pp"))
        for (name, changes), broken in zip(relative.items(), differences.values(), strict=True)
    ]
    return _changes((*_CHANGES.values(), ("broken", 3)), rows)


def tails_table(baseline: str, today: Metrics, relative: Changes) -> TextTable:
    """Return a row for each policy: tails of the waits by class; the first policy's in absolute values."""
    first = _row(baseline, *(duration(getattr(today, metric)) for metric in _TAILS))
    others = [_row(name, *(change_cell(changes[metric]) for metric in _TAILS)) for name, changes in relative.items()]
    return _changes(_TAILS.values(), [first, *others])


def bounds_table(metrics: Mapping[str, Metrics]) -> TextTable:
    rows = [
        _row(name, percent(figures.past_bound, 2), duration(figures.past_bound_max))
        for name, figures in metrics.items()
        if figures.past_bound is not None
    ]
    return TextTable.of((sentence_column("policy"), TextColumn("past bound"), TextColumn("at most")), rows)


def _changes(columns: Iterable[tuple[str, int]], rows: Iterable[list[Cell | str]]) -> TextTable:
    changed = (TextColumn(name, rank, least=INTERVAL_WIDTH) for name, rank in columns)
    return TextTable.of((sentence_column("policy"), *changed), rows)


def _row(name: str, *cells: Cell | str) -> list[Cell | str]:
    return [Cell(printable(name), "strong"), *cells]


def change_cell(change: Interval, unit: str = "%") -> Cell | str:
    """Return a change, good or bad where zero is outside its interval: less is better in every column."""
    if change.mean is None:
        return MISSING
    if change.low is None or change.high is None:
        return f"{100 * change.mean:+.1f}{unit}"
    meaning: Meaning = "good" if change.below else "bad" if change.above else "faint"
    # An interval that reaches beyond 100% says nothing about tenths, and would not fit its width.
    digits = 1 if max(-change.low, change.high) < 1 else 0
    mean, low, high = (f"{100 * share:+.{digits}f}" for share in (change.mean, change.low, change.high))
    return Cell(f"{mean}{unit} [{low}, {high}]", meaning)
