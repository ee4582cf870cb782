"""``softwalltime benchmark``: compare predictors on public logs by one protocol."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from softwalltime.cli.command import Result, command
from softwalltime.cli.completing import complete_source
from softwalltime.cli.options import LIMIT, PROCESSES, named_specs, predictors
from softwalltime.cli.output import Output, progress_bar
from softwalltime.cli.parameters import argument, option, options
from softwalltime.cli.sources import problems
from softwalltime.core.formatting import number, percent
from softwalltime.core.text_table import Cell, TextColumn, TextTable, sentence_column
from softwalltime.core.written import require_folder, write_text

if TYPE_CHECKING:
    from softwalltime.accounting.tally import Tally
    from softwalltime.measure.benchmark.figures import BenchmarkDocument, BenchmarkRow, HeldRange

ENTRIES = (
    "request", "v1", "v2", "v3", "v4", "percentile:p=90|95|98", "memorizer", "calibrated:target=0.1|0.05|0.02",
)  # fmt: skip
"""The published predictors, and calibrated at three targets."""


@options
class BenchmarkOptions:
    sources: tuple[str, ...] = argument("SOURCE...", required=True, shell_complete=complete_source)
    listed: tuple[str, ...] = predictors("Predictors or grids")
    page: Path | None = option("Write an HTML page too, with a plot of reliability for each log.", metavar="FILE")
    limit: int | None = LIMIT
    processes: int | None = PROCESSES
    output: Output


@command("a predictor on a log")
def benchmark(options: BenchmarkOptions) -> Result["BenchmarkDocument"]:
    """Compare predictors on public logs.

    A SOURCE is a trace, or a folder of traces.  Public logs are known by their contents; those that are missing are
    listed with where to get them.  Every event comes in the order of time to the process of a predictor, which is
    asked at the submission of each job, at its start, and later.  Jobs of the first 30 days are not scored.  The
    predictor of another package enters by its name, such as --predictors mine,calibrated.

    \b
    Example:
      softwalltime benchmark accounting --predictors v3,percentile
      softwalltime benchmark traces --format json > benchmark.json
      softwalltime benchmark traces --predictors mine:depth=3,calibrated
    """
    from softwalltime import __version__
    from softwalltime.measure.benchmark.cards import cards, named_logs
    from softwalltime.measure.benchmark.figures import BenchmarkDocument, BenchmarkTask, run_task
    from softwalltime.measure.replay.sweep.grid import expand_all
    from softwalltime.measure.replay.sweep.workers import local_workers
    from softwalltime.predict.predictors.learned.network import SHIPPED, load

    if options.page is not None:
        require_folder(options.page)
    specs = expand_all(named_specs(options.listed) or list(ENTRIES))
    logs = named_logs([Path(source).absolute() for source in options.sources])
    trained = {Path(name).name.removesuffix(".gz") for name in load(SHIPPED).about["logs"]}
    tasks = [
        BenchmarkTask(log.name, log.path, spec, _is_trained(spec, log.card.file if log.card else "", trained),
                      options.limit, __version__)
        for log in logs for spec in specs
    ]  # fmt: skip
    done: dict[BenchmarkTask, BenchmarkRow] = {}
    tallies: dict[Path, Tally] = {}
    with (
        closing(local_workers(options.processes).do(run_task, tasks)) as results,
        progress_bar("measuring", len(tasks)) as progress,
    ):
        for task, row, tally in results:
            done[task] = row
            tallies[task.path] = tally
            progress(1)
    known = [log.card for log in logs if log.card]
    document = BenchmarkDocument(
        tuple(known), tuple(card for card in cards() if card not in known), tuple(done[task] for task in tasks)
    )
    if options.page is not None:
        from softwalltime.reports.benchmark_page import render_benchmark

        write_text(options.page, render_benchmark(document))
    unread = [line for log in logs for line in problems(tallies[log.path])]
    failures = dict.fromkeys(
        f"{f'{row.predictor} on ' if row.jobs else ''}{row.log}: {row.failure}"
        for row in document.figures
        if row.failure
    )
    failed = bool(failures) or any(tally.broken for tally in tallies.values())
    return Result(document, _text, 1 if failed else 0, (*unread, *failures))


def _is_trained(spec: str, file: str, trained: set[str]) -> bool:
    return spec.partition(":")[0] == "calibrated" and "weights=" not in spec and file in trained


def _text(output: Output, document: "BenchmarkDocument") -> None:
    from softwalltime.measure.benchmark.figures import distributions

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
