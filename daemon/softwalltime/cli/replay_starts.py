"""``softwalltime replay-starts``: measure forecasts of start times on recorded jobs."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from softwalltime.cli.command import Result, command
from softwalltime.cli.options import PROCESSORS, RUNTIMES, WALLTIMES
from softwalltime.cli.output import Output, progress_bar
from softwalltime.cli.parameters import option, options
from softwalltime.cli.sources import RecordedJobs, problems
from softwalltime.core.formatting import duration, percent, plural
from softwalltime.core.text_table import Cell, TextColumn, TextTable, sentence_column

if TYPE_CHECKING:
    from softwalltime.measure.forecast.judgement import ReplayStartsDocument, StartScores

LEGEND = """\
error: mean absolute error of the expected start; bias: mean of expected - actual, below 0 if too early; 50%, 90%
range: share of the starts within it; width: mean width of the 90% range.  walltimes: the simulation with the users'
walltimes; like jobs: mean of what like jobs waited lately; the user's last waits: the median of five, of a job that
has waited long as like jobs; predicted runtimes: the simulation with medians; drawn runtimes: median and ranges of
simulations with drawn ones; combined: these, walltimes and like jobs, weighted and corrected by past errors; known
runtimes: a bound, the simulation with the runtimes that jobs will have.  gain of combined: by how much its error is
smaller than the row's, in percentage points of the mean wait, with the 95% interval over weeks.  A job that waits
while enough processors are free waits for its turn, a limit, memory, or for jobs that the log lacks."""


@options
class SampleOptions:
    """Which jobs to forecast, and how."""

    sample: int = option("Jobs to forecast, of those that waited.", least=1, default=400, metavar="N")
    every: int = option("Time between two forecasts of a job.", least=60, default=3600, metavar="SECONDS")
    runs: int = option("Runs for the ranges of a forecast.", least=1, default=100, metavar="N")


@options
class ReplayStartsOptions:
    processors: int | None = PROCESSORS
    as_recorded: bool = option("Judge against the recorded starts instead of a simulated schedule.", "--recorded")
    spec: str = RUNTIMES
    forecasts: SampleOptions
    walltimes: Mapping[str, int] = WALLTIMES
    output: Output
    recorded: RecordedJobs


@command("a time of the forecast and method")
def replay_starts(options: ReplayStartsOptions) -> Result["ReplayStartsDocument"]:
    """Measure forecasts of start times on recorded jobs.

    A SOURCE is the same as for replay.  The jobs are scheduled first come, first served with EASY backfilling and
    walltimes, or as recorded (--recorded).  Of a sample of the jobs that waited, the start is forecast at the
    submission and every hour after, from what was known then, and compared with the actual start.  Forecasts are
    corrected by earlier ones as the daemon corrects its own; the first tenth of the sample only calibrates.

    \b
    Example:
      softwalltime replay-starts accounting --processors 128 --sample 50 --runs 20
      softwalltime replay-starts LOGS --recorded --predictor memorizer:window=30d
    """
    from softwalltime.measure.forecast.judgement import StartsPlan, replay_forecasts
    from softwalltime.predict.predictors.registry import make

    make(options.spec)
    jobs, tally = options.recorded.simulable(options.walltimes)
    size = options.processors or tally.machine or jobs.peak()
    plan = StartsPlan(options.spec, options.as_recorded, **vars(options.forecasts))
    document = replay_forecasts(options.recorded.label, jobs, size, plan, progress_bar)
    return Result(document, partial(_text, runs=options.forecasts.runs), 1 if tally.broken else 0, problems(tally))


def _text(output: Output, document: "ReplayStartsDocument", runs: int) -> None:
    kind = "as recorded" if document.schedule == "recorded" else "simulated: first come, first served, EASY, walltimes"
    output.paragraph(
        f"{document.source}: {plural(document.jobs, 'job')} on {plural(document.processors, 'processor')}, {kind}; "
        f"runtimes by {document.predictor}, {plural(runs, 'run')}"
    )
    at_once = document.at_once
    shares = ((at_once.started, "started at once", at_once.foreseen), (at_once.waited, "waited", at_once.missed))
    parts = (f"of {plural(jobs, 'job')} that {did}, {percent(share)}" for jobs, did, share in shares if jobs)
    output.paragraph(f"expected to start within a minute: {'; '.join(parts)}")
    for name, by_method in document.forecasts.items():
        some = next(iter(by_method.values()))
        output.line()
        output.paragraph(
            f"{name}: {plural(some.forecasts, 'forecast')}, mean wait {duration(some.mean_wait)}, "
            f"{percent(some.enough_free)} while enough processors were free"
        )
        output.section(_table(by_method))
    output.line()
    output.paragraph(LEGEND, "faint")


def _table(by_method: "dict[str, StartScores]") -> TextTable:
    from softwalltime.measure.forecast.judgement import BOUND, COMBINED

    least = min(figures.error for method, figures in by_method.items() if method != BOUND)

    def marked(text: str, method: str) -> Cell:
        return Cell(text, "good" if by_method[method].error == least and method != BOUND else "")

    def gain(method: str) -> str:
        figures = by_method[method]
        interval = f"{100 * figures.gain_low:+.1f}, {100 * figures.gain_high:+.1f}"
        return "" if method == COMBINED else f"{100 * figures.gain:+.1f} [{interval}]"

    columns: dict[TextColumn, Callable[[str], Cell | str]] = {
        sentence_column("forecast by"): lambda method: Cell(method, "strong"),
        TextColumn("error"): lambda method: marked(duration(by_method[method].error), method),
        TextColumn("error / mean wait"): lambda method: marked(percent(by_method[method].relative), method),
        TextColumn("bias", 1): lambda method: duration(by_method[method].bias),
        TextColumn("50% range", 3): lambda method: percent(by_method[method].covered50),
        TextColumn("90% range", 2): lambda method: percent(by_method[method].covered90),
        TextColumn("width", 4): lambda method: duration(by_method[method].width90),
        TextColumn("gain of combined", 5): gain,
    }
    return TextTable.by_column(by_method, columns)
