"""``softwalltime benchmark``: compare predictors, schedules and start times on public logs by one protocol."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

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
means over shaken workloads, changes against today with their 95% intervals; worst class: by runtime, size, queue or
user, that whose mean wait, or mean slowdown, grows most; broken: late starts of those promised to top jobs; chance: a
placebo."""
STARTS_LEGEND = """\
error: mean absolute error of the combined forecast, which the daemon publishes; by walltimes, known runtimes (a bound):
that of simulations with these; bias: mean of expected - actual start; 50%, 90% range: share of the starts within it."""


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

    def check(self) -> None:
        """Refuse policies, seeds and predictors that nothing uses, and a page that cannot be written."""
        if not self.schedules and (self.file is not None or self.seeds is not None):
            raise UsageError("--policies and --seeds are for schedules: add --schedules")
        if self.listed and not (self.of_runtimes or self.starts):
            raise UsageError("--predictors is not for --schedules: add --runtimes or --starts")
        require_folder(self.page)


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
    known, measured = [log.card for log in logs if log.card], _Measurement(options, logs)
    document = BenchmarkDocument(
        tuple(known), tuple(card for card in cards() if card not in known),
        tuple(measured.predictors(listed or expand_all(list(ENTRIES))) if options.of_runtimes else ()),
        tuple(measured.schedules(policies) if options.schedules else ()),
        tuple(measured.starts(listed or [PREDICTOR]) if options.starts else ()),
    )  # fmt: skip
    if options.page is not None:
        from softwalltime.reports.benchmark_page import render_benchmark

        write_text(options.page, render_benchmark(document))
    unread = [line for log in logs for line in problems(measured.tallies[log.path])]
    failed = bool(measured.failures) or any(tally.broken for tally in measured.tallies.values())
    return Result(document, _text, 1 if failed else 0, (*unread, *dict.fromkeys(measured.failures + measured.lacking)))


@dataclass(slots=True)
class _Measurement:
    """Measures logs, and notes what could not be read of them, what failed, and what a log does not have."""

    options: BenchmarkOptions
    logs: "Sequence[NamedLog]"
    tallies: dict[Path, "Tally"] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)

    def predictors(self, specs: Sequence[str]) -> "Iterator[BenchmarkRow]":
        from softwalltime import __version__
        from softwalltime.measure.benchmark.figures import BenchmarkTask, run_task
        from softwalltime.predict.predictors.learned.network import SHIPPED, load

        trained = {Path(name).name.removesuffix(".gz") for name in load(SHIPPED).about["logs"]}
        tasks = [
            BenchmarkTask(log.name, log.path, spec, _is_trained(spec, log.card.file if log.card else "", trained),
                          self.options.limit, __version__)
            for log in self.logs for spec in specs
        ]  # fmt: skip
        for task, (row, tally) in self._done("measuring", run_task, tasks):
            self.tallies[task.path] = tally
            if row.failure:
                self.failures.append(f"{f'{row.predictor} on ' if row.jobs else ''}{row.log}: {row.failure}")
            yield row

    def schedules(self, policies: "dict[str, SchedulerPolicy]") -> "Iterator[ScheduleRow]":
        from softwalltime.measure.benchmark.cards import jobs_on_machine
        from softwalltime.measure.benchmark.figures import NOTHING
        from softwalltime.reports.benchmark_schedules import schedule_rows
        from softwalltime.reports.simulation import SimulationOptions

        for log in self.logs:
            jobs, size, self.tallies[log.path] = jobs_on_machine(log, self.options.limit, self.options.processors)
            settings = SimulationOptions(
                processors=size, seeds=self.options.seeds or SEEDS, processes=self.options.processes
            )
            try:
                if not jobs.scored.any():
                    raise SoftwalltimeError(NOTHING)
                yield from schedule_rows(log.name, jobs, policies, settings, progress_bar)
            except SoftwalltimeError as error:
                self.failures.append(f"{log.name}: {error}")

    def starts(self, specs: Sequence[str]) -> "Iterator[ReplayStartsDocument]":
        from softwalltime import __version__
        from softwalltime.measure.benchmark.starts import StartsTask, run_starts
        from softwalltime.measure.forecast.judgement import StartsPlan

        sample = vars(self.options.forecasts)
        tasks = [
            StartsTask(log, self.options.limit, self.options.processors, StartsPlan(spec, how, **sample), __version__)
            for log in self.logs for spec in specs for how in (False, True)
        ]  # fmt: skip
        for task, (found, tally) in self._done("forecasting", run_starts, tasks):
            self.tallies[task.log.path] = tally
            if not isinstance(found, SoftwalltimeError):
                yield found
                continue
            line = f"{'recorded' if task.plan.recorded else 'simulated'} starts of {task.log.name}: {found}"
            (self.lacking if isinstance(found, SourceError) else self.failures).append(line)

    def _done(self, title: str, function: Callable[[T], tuple[T, R]], tasks: Sequence[T]) -> list[tuple[T, R]]:
        """Return the results of the tasks, in the order of the tasks."""
        from softwalltime.measure.replay.sweep.workers import local_workers

        workers, done = local_workers(self.options.processes), {}
        with closing(workers.do(function, tasks)) as results, progress_bar(title, len(tasks)) as progress:
            for task, result in results:
                done[task] = result
                progress(1)
        return [(task, done[task]) for task in tasks]


def _is_trained(spec: str, file: str, trained: set[str]) -> bool:
    return spec.partition(":")[0] == "calibrated" and "weights=" not in spec and file in trained


class _StartsLine(NamedTuple):
    """Forecasts at one time, by method."""

    of: "ReplayStartsDocument"
    time: str
    scores: "dict[str, StartScores]"
    ours: "StartScores"


def _text(output: Output, document: "BenchmarkDocument") -> None:
    from softwalltime.measure.benchmark.figures import distributions
    from softwalltime.measure.simulation.shaking import FEW_USERS
    from softwalltime.reports.simulation_document import INTERVAL_WIDTH, change_cell

    rows = [row for row in document.figures if not row.failure]
    if rows:
        output.section(TextTable.by_column(rows, _COLUMNS))
    ranged = distributions(rows)
    if ranged:
        output.line()
        output.paragraph("jobs within their middle 50% / 90% range", "strong")
        classes = dict.fromkeys(held.name for row in ranged for held in row.ranges if held.kind != "month")
        columns = _NAMES | {TextColumn(name): _class(name) for name in classes} | {TextColumn("months"): _months}
        output.section(TextTable.by_column(ranged, columns), "!: beyond its 95% interval; a week's jobs are one sample")
    if document.schedules:
        waits: dict[TextColumn, Callable[[ScheduleRow], Cell | str]] = {
            TextColumn("log", left=True): lambda row: Cell(row.log, "strong"),
            sentence_column("policy", least=12): lambda row: printable(row.policy),
            TextColumn("wait"): lambda row: duration(row.wait_mean),
            TextColumn("change", 0, least=INTERVAL_WIDTH): lambda row: change_cell(row.change_wait_mean),
            TextColumn("slowdown", 2): lambda row: number(row.bsld10_mean, 1),
            TextColumn("its change", 3, least=INTERVAL_WIDTH): lambda row: change_cell(row.change_bsld10_mean),
            sentence_column("worst class", 0, 14): lambda row: row.worst_class,
            TextColumn("its wait", 4): lambda row: duration(row.worst_wait_mean) if row.worst_class else "",
            TextColumn("its wait's change", 0, least=INTERVAL_WIDTH): lambda row: change_cell(row.change_worst_class),
            sentence_column("worst by slowdown", 5, 14): lambda row: row.worst_slowdown_class,
            TextColumn("its slowdown's change", 5, least=INTERVAL_WIDTH): lambda row: change_cell(
                row.change_worst_slowdown
            ),
            TextColumn("broken", 1): lambda row: percent(row.broken, 1),
        }
        output.section(TextTable.by_column(document.schedules, waits), SCHEDULES_LEGEND)
        if any(row.shake != "week" for row in document.schedules):
            output.paragraph(FEW_USERS, "warning")
    if document.starts:
        forecasts = ((starts, *times) for starts in document.starts for times in starts.forecasts.items())
        lines = (_StartsLine(starts, time, scores, scores["combined"]) for starts, time, scores in forecasts)
        output.section(TextTable.by_column(lines, _STARTS), STARTS_LEGEND)
    output.line()
    if any(row.trained for row in rows):
        output.paragraph("*: the weights in the package were trained on this log too", "faint")
    for card in document.missing:
        output.paragraph(f"not measured: {card.name}, {card.institution}: {card.source}", "faint")


def _share(value: float | None) -> str:
    return "" if value is None else percent(value, 1)


def ranges_cell(some: "list[HeldRange]") -> str:
    """Return the shares of the 50% and of the 90% range, of several classes the least and the greatest.

    ``!`` marks what is beyond chance.
    """
    ends = [
        dict.fromkeys(f"{100 * value:.0f}{mark}" for value, mark in (min(shares), max(shares)))
        for shares in (
            [(held.held50, "!" * held.beyond_chance[0]) for held in some],
            [(held.held90, "!" * held.beyond_chance[1]) for held in some],
        )
        if shares
    ]
    return "/".join("-".join(of_range) for of_range in ends)


def _class(name: str) -> "Callable[[BenchmarkRow], Cell | str]":
    return lambda row: ranges_cell([held for held in row.ranges if held.name == name])


def _months(row: "BenchmarkRow") -> str:
    return ranges_cell([held for held in row.ranges if held.kind == "month"])


_NAMES: "dict[TextColumn, Callable[[BenchmarkRow], Cell | str]]" = {
    TextColumn("log", left=True): lambda row: Cell(row.log, "strong"),
    sentence_column("predictor", least=12): lambda row: f"{row.predictor}{'*' if row.trained else ''}",
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
    TextColumn("by chance", 4): lambda row: _share(row.users_above_by_chance),
    TextColumn("at start", 2): lambda row: number(row.accuracy_at_start, 3),
    TextColumn("MAE, s", 1): lambda row: number(row.mean_absolute_error),
    TextColumn("of the median", 5): lambda row: number(row.median_absolute_error),
    TextColumn("quantile loss", 5): lambda row: number(row.quantile_loss),
    TextColumn("us a job", 6): lambda row: number(row.microseconds),
}
