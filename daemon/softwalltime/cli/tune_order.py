"""Search the order of the queue on a log: the work of ``softwalltime tune --order``."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from softwalltime.cli.command import Result
from softwalltime.cli.output import Output, progress_bar
from softwalltime.cli.recommendation_output import print_advice, write_plan
from softwalltime.cli.sources import problems
from softwalltime.core.errors import SourceError
from softwalltime.core.formatting import day
from softwalltime.core.text_table import Cell, TextColumn, TextTable, sentence_column
from softwalltime.measure.simulation.differences import Interval
from softwalltime.reports.candidates import Candidate
from softwalltime.reports.likeness import measure_likeness
from softwalltime.reports.order_search import OrderTrial, parts_of, recommend_order, search_order
from softwalltime.reports.recommendation import WaitLimits
from softwalltime.reports.simulation import (
    JOBS,
    SimulationFigures,
    SimulationInput,
    SimulationOptions,
    SimulationSkipped,
    prepare,
    simulate_candidates,
)
from softwalltime.reports.simulation_document import Advice, change_cell

if TYPE_CHECKING:
    from softwalltime.cli.tune_options import TuneOptions

_CHANGES = ("wait_mean", "bsld10_mean", "worst_p99", "wait_max", "broken")
_LEGEND = """\
Change against what the site runs, means over the shaken workloads with the 95% interval.  Worst class: the class of
jobs whose 99th percentile wait grows most.  Broken: promised starts that an order breaks more, in percentage points."""
_INTERVAL = 14
_TABLE: dict[TextColumn, Callable[["TriedOrder"], Cell | str]] = {
    sentence_column("order"): lambda tried: Cell(tried.order, "strong"),
    TextColumn("wait", least=_INTERVAL): lambda tried: change_cell(tried.wait_mean),
    TextColumn("slowdown", 2, least=_INTERVAL): lambda tried: change_cell(tried.bsld10_mean),
    TextColumn("worst class p99", least=_INTERVAL): lambda tried: change_cell(tried.worst_p99),
    sentence_column("worst class", 3): lambda tried: tried.worst_class,
    TextColumn("longest wait", 1, least=_INTERVAL): lambda tried: change_cell(tried.wait_max),
    TextColumn("broken", 1, least=_INTERVAL): lambda tried: change_cell(tried.broken, " pp"),
    sentence_column("exceeded"): lambda tried: (
        Cell(", ".join(tried.exceeded), "bad") if tried.exceeded else Cell("none", "good")
    ),
}


@dataclass(frozen=True, slots=True)
class TriedOrder:
    """An order on a part of the log: changes against what the site runs, relative except of ``broken``."""

    part: str
    """earlier: searched; middle: chosen; last: checked."""
    order: str
    """The order, as softwalltime simulate --order takes it; live values off: waiting jobs keep their walltimes."""
    gain: float
    """Mean of the relative reductions of mean wait and mean bounded slowdown."""
    wait_mean: Interval
    """Of the mean wait."""
    bsld10_mean: Interval
    """Of the mean bounded slowdown."""
    worst_class: str
    """The class of jobs whose 99th percentile wait grows most."""
    worst_p99: Interval
    """Of its 99th percentile wait."""
    wait_max: Interval
    """Of the longest wait."""
    broken: Interval
    """Share of the promised starts that the order breaks more."""
    exceeded: dict[str, str]
    """By what they limit, the limits that it exceeds, and by what; p99: of the wait."""


@dataclass(frozen=True, slots=True)
class OrderDocument:
    """The orders that were tried on the parts of a log, and the one that is recommended."""

    source: str
    """The sources, as given."""
    selection: str | None
    """Which jobs were selected; null: all."""
    processors: int
    """Size of the machine."""
    jobs: tuple[int, ...]
    """Number of simulated jobs of the earlier, the middle and the last part."""
    since: tuple[int, ...]
    """First submission of each part, epoch seconds."""
    limits: WaitLimits
    """The limits."""
    orders: tuple[TriedOrder, ...]
    """All orders that were tried."""
    formula: str | None
    """The recommended job_sort_formula; null: none."""
    advice: Advice
    """What is recommended."""

    COLUMNS: ClassVar[tuple[str, ...]] = (
        "part", "order", "gain", "worst_class", *(f"{name}{end}" for name in _CHANGES for end in ("", "_low", "_high")),
        "exceeded",
    )  # fmt: skip


def find_order(given: "TuneOptions") -> Result[OrderDocument]:
    """Search an order, choose it, check it, and write its plan.

    :raises SourceError: if the log is too short, or cannot be simulated.
    """
    given.check()
    site, source = given.site, given.recorded.source
    workload, tally = given.recorded.workload(site.walltimes)
    baseline = site.baseline(given.minimum)
    limits = given.limits.shares
    options = SimulationOptions(
        baseline, site.processors or tally.machine or None, given.seeds, len(workload), given.processes, given.keep
    )
    whole = prepare(workload, options)
    if isinstance(whole, SimulationSkipped):
        raise SourceError(f"{source}: no order can be searched: {whole.reason}")
    parts = parts_of(whole, given.split, given.simulated_jobs)
    if not all(part.jobs.scored.any() for part in parts):
        raise SourceError(f"{source}: too few jobs with a runtime and a walltime to split: give a longer log")

    def simulate(recorded: SimulationInput, candidates: Sequence[Candidate]) -> SimulationFigures:
        return simulate_candidates(recorded, candidates, options, progress_bar)

    search = search_order(parts, baseline, limits, simulate)
    # A part is too short to tell whether the simulation is like the machine.
    newest_jobs = whole.jobs.chosen(range(max(0, len(whole.jobs) - JOBS), len(whole.jobs)))
    likeness = measure_likeness(newest_jobs, whole.processors, baseline.policy)
    search = replace(search, figures=replace(search.figures, likeness=likeness))
    recommended = recommend_order(search, limits)
    last = () if search.last is None else (search.last,)
    rows = [
        _tried(part, trial)
        for part, trials in (("earlier", search.tried), ("middle", search.middle), ("last", last))
        for trial in trials
    ]
    chosen = recommended.waits.setting if recommended.waits is not None else None
    document = OrderDocument(
        source=source,
        selection=given.recorded.selected,
        processors=whole.processors,
        jobs=tuple(len(part.jobs) for part in parts),
        since=tuple(part.jobs.submitted[0] for part in parts),
        limits=limits,
        orders=tuple(rows),
        formula=chosen.policy.formula if chosen is not None else None,
        advice=Advice.of(recommended),
    )
    front = {trial.waits.setting.name for trial in search.front}
    text = partial(_print, label=given.recorded.label, front=front, seeds=len(given.seeds))
    write = partial(write_plan, file=given.plan, found=recommended, simulated=search.figures)
    return Result(
        document, text, 1 if tally.broken else 0, problems(tally), rows=[_row(tried) for tried in rows], then=write
    )


def _tried(part: str, trial: OrderTrial) -> TriedOrder:
    waits = trial.waits
    name, growth = trial.worst
    return TriedOrder(
        part, waits.setting.name, trial.gain, waits.changes["wait_mean"], waits.changes["bsld10_mean"], name, growth,
        waits.changes["wait_max"], waits.added, trial.exceeded,
    )  # fmt: skip


def _row(tried: TriedOrder) -> dict[str, Any]:
    row = asdict(tried)
    for name in _CHANGES:
        row |= getattr(tried, name).columns(name)
    return row


def _print(output: Output, document: OrderDocument, label: str, front: set[str], seeds: int) -> None:
    output.paragraph(f"{label}: {document.processors:,} processors, {seeds} shaken workloads of each part")
    titles = {
        "earlier": "{count} orders were tried; those that no other one beats in both gain and worst class:",
        "middle": "the best of them within the limits:",
        "last": "the one chosen by the middle part:",
    }
    for (part, title), jobs, since in zip(titles.items(), document.jobs, document.since, strict=True):
        tried = [order for order in document.orders if order.part == part]
        if not tried:
            continue
        said = title.format(count=len(tried))
        output.line()
        output.paragraph(f"The {part} part, {jobs:,} jobs from {day(since)}: {said}")
        shown = sorted(
            (order for order in tried if part != "earlier" or order.order in front),
            key=lambda order: order.worst_p99.mean or 0.0,
        )
        output.section(TextTable.by_column(shown, _TABLE))
    output.line()
    output.paragraph(_LEGEND, "faint")
    print_advice(output, document.advice)
    if document.formula is not None:
        output.paragraph("job_sort_formula:")
        output.line(document.formula)
