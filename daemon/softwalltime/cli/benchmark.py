"""``softwalltime benchmark``: compare predictors, schedules and start times on public logs by one protocol."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from softwalltime.cli.command import Result, command
from softwalltime.cli.completing import complete_source
from softwalltime.cli.options import LIMIT, PROCESSES, PROCESSORS, named_specs, numbers, predictors
from softwalltime.cli.output import Output, progress_bar
from softwalltime.cli.parameters import argument, option, options
from softwalltime.cli.replay_starts import SampleOptions
from softwalltime.cli.simulate import SEEDS, checked_policies
from softwalltime.cli.sources import problems
from softwalltime.core.errors import SoftwalltimeError, SourceError, UsageError
from softwalltime.core.formatting import duration, number, percent, printable
from softwalltime.core.text_table import Cell, TextColumn, TextTable, sentence_column
from softwalltime.core.written import require_folder, write_text
from softwalltime.measure.forecast.defaults import PREDICTOR

if TYPE_CHECKING:
    from softwalltime.accounting.tally import Tally
    from softwalltime.measure.benchmark.cards import NamedLog
    from softwalltime.measure.benchmark.figures import BenchmarkRow, HeldRange
    from softwalltime.measure.forecast.judgement import ReplayStartsDocument, StartScores
    from softwalltime.measure.simulation.policies import SchedulerPolicy
    from softwalltime.reports.benchmark_document import BenchmarkDocument
    from softwalltime.reports.benchmark_schedules import ScheduleRow

T = TypeVar("T")
R = TypeVar("R")
ENTRIES = (
    "request", "v1", "v2", "v3", "v4", "percentile:p=90|95|98", "memorizer", "calibrated:target=0.1|0.05|0.02",
)  # fmt: skip
"""The published predictors, and calibrated at three targets."""
SCHEDULES_LEGEND = """\
wait, slowdown: means of all jobs over shaken workloads; changes against today, workload by workload, with their 95%
intervals; worst class: by runtime, size, queue or user, that whose mean wait grows most; broken: of the starts promised
to top jobs, how many came later; chance: a placebo."""
STARTS_LEGEND = """\
error: mean absolute error of the expected start that the daemon would publish; by walltimes, known runtimes: that of
simulations with the users' walltimes and, as a bound, with the runtimes that jobs will have; bias: mean of expected -
actual; 50%, 90% range: share of the starts within it; recorded: a log says neither priorities nor limits."""
_INTERVAL = 14
"""Width of an interval such as [-40.6, -38.2]."""


@options
class BenchmarkOptions:
    sources: tuple[str, ...] = argument("SOURCE...", required=True, shell_complete=complete_source)
    runtimes: bool = option("Measure predictors of runtimes; the default without --schedules and --starts.")
    schedules: bool = option("Measure waits and slowdowns under policies, on shaken workloads.")
    starts: bool = option("Measure forecasts of start times, on simulated and on recorded waits.")
    listed: tuple[str, ...] = predictors("Predictors or grids")
    file: Path | None = option("TOML file with a table for each policy, in place of the published ones.", "--policies")
    seeds: tuple[int, ...] | None = option("A shaken workload for each.  Default: 31-40.", type=numbers, metavar="LIST")
    forecasts: SampleOptions
    processors: int | None = PROCESSORS
    page: Path | None = option("Write an HTML page too, with tables and plots of each log.", metavar="FILE")
    limit: int | None = LIMIT
    processes: int | None = PROCESSES
    output: Output

    @property
    def of_runtimes(self) -> bool:
        return self.runtimes or not (self.schedules or self.starts)

    def size(self, log: "NamedLog") -> int | None:
        return log.card.processors if log.card else self.processors

    def check(self) -> None:
        """Refuse options that nothing uses, and a page that cannot be written."""
        if not self.schedules and (self.file is not None or self.seeds is not None):
            raise UsageError("--policies and --seeds are for schedules: add --schedules")
        if self.listed and not (self.of_runtimes or self.starts):
            raise UsageError("--predictors is not for --schedules: add --runtimes or --starts")
        if self.page is not None:
            require_folder(self.page)


@dataclass(slots=True)
class _Remarks:
    """What could not be read of each log, what failed, and what a log does not have."""

    tallies: dict[Path, "Tally"] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)


@command("a predictor, a policy, or a forecast of start times on a log")
def benchmark(options: BenchmarkOptions) -> Result["BenchmarkDocument"]:
    """Compare predictors, schedules and start times on logs.

    A SOURCE is a trace, or a folder of traces.  Public logs are known by their contents; those that are missing are
    listed with where to get them.

    Every event comes in the order of time to the process of a predictor, which is asked at the submission of each job,
    at its start, and later.  Jobs of the first 30 days are not scored.  The predictor of another package enters by its
    name, such as --predictors mine,calibrated.

    With --schedules, policies schedule the same shaken workloads.  Waits and slowdowns are compared with those of
    today: first come, first served, PBS's cycle, walltimes.  An order of your own enters as a policy in a file.

    With --starts, the starts of a sample of the jobs that waited are forecast as replay-starts does, on a simulated
    schedule and on the recorded one, with calibrated or each of the predictors for the runtimes.

    \b
    Example:
      softwalltime benchmark accounting --predictors v3,percentile
      softwalltime benchmark traces --format json > benchmark.json
      softwalltime benchmark traces --predictors mine:depth=3,calibrated
      softwalltime benchmark LOGS --schedules --policies policies.toml --seeds 31-32
      softwalltime benchmark accounting --starts --sample 20 --runs 5
    """
    from softwalltime.measure.benchmark.cards import cards, named_logs
    from softwalltime.measure.replay.sweep.grid import expand_all
    from softwalltime.reports.benchmark_document import BenchmarkDocument
    from softwalltime.reports.benchmark_schedules import published_policies

    options.check()
    listed = expand_all(named_specs(options.listed))
    policies = published_policies() if options.file is None else checked_policies(options.file, {})
    logs = named_logs([Path(source).absolute() for source in options.sources])
    known, remarks = [log.card for log in logs if log.card], _Remarks()
    document = BenchmarkDocument(
        tuple(known), tuple(card for card in cards() if card not in known),
        tuple(_predicted(options, logs, listed or expand_all(list(ENTRIES)), remarks) if options.of_runtimes else ()),
        tuple(_scheduled(options, logs, policies, remarks) if options.schedules else ()),
        tuple(_forecast(options, logs, listed or [PREDICTOR], remarks) if options.starts else ()),
    )  # fmt: skip
    if options.page is not None:
        from softwalltime.reports.benchmark_page import render_benchmark

        write_text(options.page, render_benchmark(document))
    unread = [line for log in logs for line in problems(remarks.tallies[log.path])]
    failed = bool(remarks.failures) or any(tally.broken for tally in remarks.tallies.values())
    return Result(document, _text, 1 if failed else 0, (*unread, *dict.fromkeys((*remarks.failures, *remarks.lacking))))


def _predicted(
    options: BenchmarkOptions, logs: "Sequence[NamedLog]", specs: Sequence[str], remarks: _Remarks
) -> "list[BenchmarkRow]":
    """Measure each predictor on each log."""
    from softwalltime import __version__
    from softwalltime.measure.benchmark.figures import BenchmarkTask, run_task
    from softwalltime.predict.predictors.learned.network import SHIPPED, load

    trained = {Path(name).name.removesuffix(".gz") for name in load(SHIPPED).about["logs"]}
    tasks = [
        BenchmarkTask(log.name, log.path, spec, _is_trained(spec, log.card.file if log.card else "", trained),
                      options.limit, __version__)
        for log in logs for spec in specs
    ]  # fmt: skip
    rows = []
    for task, (row, tally) in _done("measuring", run_task, tasks, options.processes):
        rows.append(row)
        remarks.tallies[task.path] = tally
        if row.failure:
            remarks.failures.append(f"{f'{row.predictor} on ' if row.jobs else ''}{row.log}: {row.failure}")
    return rows


def _done(
    title: str, function: Callable[[T], tuple[T, R]], tasks: Sequence[T], processes: int | None
) -> list[tuple[T, R]]:
    """Return the results of the tasks, in the order of the tasks."""
    from softwalltime.measure.replay.sweep.workers import local_workers

    with closing(local_workers(processes).do(function, tasks)) as results, progress_bar(title, len(tasks)) as progress:
        done = {}
        for task, result in results:
            done[task] = result
            progress(1)
    return [(task, done[task]) for task in tasks]


def _scheduled(
    options: BenchmarkOptions, logs: "Sequence[NamedLog]", policies: "dict[str, SchedulerPolicy]", remarks: _Remarks
) -> "list[ScheduleRow]":
    """Simulate each policy on each log."""
    from softwalltime.measure.benchmark.cards import jobs_on_machine
    from softwalltime.measure.benchmark.figures import NOTHING
    from softwalltime.reports.benchmark_schedules import schedule_rows
    from softwalltime.reports.simulation import SimulationOptions

    rows: list[ScheduleRow] = []
    for log in logs:
        jobs, size, remarks.tallies[log.path] = jobs_on_machine(log.path, options.limit, options.size(log))
        if not jobs.scored.any():
            remarks.failures.append(f"{log.name}: {NOTHING}")
            continue
        settings = SimulationOptions(processors=size, seeds=options.seeds or SEEDS, processes=options.processes)
        try:
            rows += schedule_rows(log.name, jobs, policies, settings, progress_bar)
        except SoftwalltimeError as error:
            remarks.failures.append(f"schedules of {log.name}: {error}")
    return rows


def _forecast(
    options: BenchmarkOptions, logs: "Sequence[NamedLog]", specs: Sequence[str], remarks: _Remarks
) -> "list[ReplayStartsDocument]":
    """Forecast start times on each log with each predictor of runtimes."""
    from softwalltime import __version__
    from softwalltime.measure.benchmark.starts import StartsTask, run_starts

    plans = [options.forecasts.plan(spec, recorded=recorded) for spec in specs for recorded in (False, True)]
    tasks = [
        StartsTask(log.name, log.path, options.size(log), options.limit, plan, __version__)
        for log in logs
        for plan in plans
    ]
    documents = []
    for task, (found, tally) in _done("forecasting", run_starts, tasks, options.processes):
        remarks.tallies[task.path] = tally
        if not isinstance(found, SoftwalltimeError):
            documents.append(found)
            continue
        what = f"{'recorded' if task.plan.recorded else 'simulated'} starts of {task.log}"
        (remarks.lacking if isinstance(found, SourceError) else remarks.failures).append(f"{what}: {found}")
    return documents


def _is_trained(spec: str, file: str, trained: set[str]) -> bool:
    return spec.partition(":")[0] == "calibrated" and "weights=" not in spec and file in trained


@dataclass(frozen=True, slots=True)
class _StartsLine:
    """A line of the table of start times: forecasts at one time, by method."""

    of: "ReplayStartsDocument"
    time: str
    scores: "dict[str, StartScores]"

    @property
    def ours(self) -> "StartScores":
        return self.scores["combined"]


def _text(output: Output, document: "BenchmarkDocument") -> None:
    from softwalltime.measure.benchmark.figures import distributions
    from softwalltime.measure.simulation.shaking import FEW_USERS
    from softwalltime.reports.simulation_document import change_cell

    rows = [row for row in document.figures if not row.failure]
    if rows:
        output.section(TextTable.by_column(rows, _COLUMNS))
    ranged = distributions(rows)
    if ranged:
        output.line()
        output.paragraph("jobs within their middle 50% / 90% range", "strong")
        classes = dict.fromkeys(held.name for row in ranged for held in row.ranges if held.kind != "month")
        columns = _NAMES | {TextColumn(name): _class(name) for name in classes} | {TextColumn("months"): _months}
        output.section(TextTable.by_column(ranged, columns))
    if document.schedules:
        changes: dict[TextColumn, Callable[[ScheduleRow], Cell | str]] = {
            TextColumn("change", 0, least=_INTERVAL): lambda row: change_cell(row.change_wait_mean),
            TextColumn("slowdown", 2): lambda row: number(row.bsld10_mean, 1),
            TextColumn("its change", 3, least=_INTERVAL): lambda row: change_cell(row.change_bsld10_mean),
            sentence_column("worst class", 0, 14): lambda row: row.worst_class,
            TextColumn("its wait", 4): lambda row: duration(row.worst_wait_mean) if row.worst_class else "",
            TextColumn("its wait's change", 0, least=_INTERVAL): lambda row: change_cell(row.change_worst_class),
            TextColumn("broken", 1): lambda row: percent(row.broken, 1),
        }
        output.section(TextTable.by_column(document.schedules, _WAITS | changes), SCHEDULES_LEGEND)
        if any(row.shake != "week" for row in document.schedules):
            output.paragraph(FEW_USERS, "warning")
    if document.starts:
        rows_of = [
            _StartsLine(starts, time, by_method)
            for starts in document.starts
            for time, by_method in starts.forecasts.items()
        ]
        output.section(TextTable.by_column(rows_of, _STARTS), STARTS_LEGEND)
    output.line()
    if any(row.trained for row in rows):
        output.paragraph("*: the weights in the package were trained on this log too", "faint")
    for card in document.missing:
        output.paragraph(f"not measured: {card.name}, {card.institution}: {card.source}", "faint")


def _share(value: float | None) -> str:
    return "" if value is None else percent(value, 1)


def _held(some: "list[HeldRange]") -> str:
    """Return the shares of the 50% and of the 90% range, of several classes the least and the greatest."""
    ends = [
        dict.fromkeys(f"{100 * value:.0f}" for value in (min(shares), max(shares)))
        for shares in ([held.held50 for held in some], [held.held90 for held in some])
        if shares
    ]
    return "/".join("-".join(of_range) for of_range in ends)


def _class(name: str) -> "Callable[[BenchmarkRow], Cell | str]":
    return lambda row: _held([held for held in row.ranges if held.name == name])


def _months(row: "BenchmarkRow") -> str:
    return _held([held for held in row.ranges if held.kind == "month"])


_NAMES: "dict[TextColumn, Callable[[BenchmarkRow], Cell | str]]" = {
    TextColumn("log", left=True): lambda row: Cell(row.log, "strong"),
    sentence_column("predictor", least=12): lambda row: f"{row.predictor}{'*' if row.trained else ''}",
}
_WAITS: "dict[TextColumn, Callable[[ScheduleRow], Cell | str]]" = {
    TextColumn("log", left=True): lambda row: Cell(row.log, "strong"),
    sentence_column("policy", least=12): lambda row: printable(row.policy),
    TextColumn("wait"): lambda row: duration(row.wait_mean),
}
_STARTS: "dict[TextColumn, Callable[[_StartsLine], Cell | str]]" = {
    TextColumn("log", left=True): lambda line: Cell(line.of.source, "strong"),
    sentence_column("waits", least=10): lambda line: f"{line.of.schedule}, {line.time}",
    sentence_column("runtimes", 5, 12): lambda line: line.of.predictor,
    TextColumn("mean wait", 3): lambda line: duration(line.ours.mean_wait),
    TextColumn("error / mean wait"): lambda line: percent(line.ours.relative),
    TextColumn("by walltimes", 1): lambda line: percent(line.scores["walltimes"].relative),
    TextColumn("known runtimes", 4): lambda line: percent(line.scores["known runtimes"].relative),
    TextColumn("bias", 2): lambda line: duration(line.ours.bias),
    TextColumn("50% range"): lambda line: percent(line.ours.covered50),
    TextColumn("90% range"): lambda line: percent(line.ours.covered90),
    TextColumn("its width", 6): lambda line: duration(line.ours.width90),
}
_COLUMNS: "dict[TextColumn, Callable[[BenchmarkRow], Cell | str]]" = _NAMES | {
    TextColumn("accuracy"): lambda row: number(row.accuracy, 3),
    TextColumn("underestimated"): lambda row: _share(row.underestimated),
    TextColumn("worst month", 3): lambda row: _share(row.worst_month),
    TextColumn("users above twice", 4): lambda row: _share(row.users_above),
    TextColumn("at start", 2): lambda row: number(row.accuracy_at_start, 3),
    TextColumn("MAE, s", 1): lambda row: number(row.mean_absolute_error),
    TextColumn("of the median", 5): lambda row: number(row.median_absolute_error),
    TextColumn("quantile loss", 5): lambda row: number(row.quantile_loss),
    TextColumn("us a job", 6): lambda row: number(row.microseconds),
}
