"""Compare forecasts of starts with the starts: the work of ``softwalltime replay-starts``."""

from dataclasses import asdict, dataclass, fields

import click
import numpy as np

from softwalltime.cli.measure.simulate import require_scored
from softwalltime.cli.options import LazySettings
from softwalltime.cli.output import Output
from softwalltime.cli.problems import problems
from softwalltime.cli.progress import progress_bar
from softwalltime.cli.selection import JobSelection
from softwalltime.cli.sources import load_columns
from softwalltime.errors import SourceError
from softwalltime.forecast.judgement import BOUND, COMBINED, METHODS, GivenSchedule, StartScores, judge, sampled, scores
from softwalltime.forecast.runtimes import RuntimeModel
from softwalltime.forecast.start_classes import by_class
from softwalltime.formatting import duration, percent, plural
from softwalltime.predictors.registry import make
from softwalltime.simulation.engine import simulate
from softwalltime.simulation.jobs import Jobs, jobs_of
from softwalltime.simulation.policies import SchedulerPolicy
from softwalltime.text_table import Cell, TextColumn, TextTable, sentence_column

WARM_UP = 0.1
"""Share of the sampled jobs, the first ones, that only calibrate."""
PUBLISHED = "Li et al. 2004 published an error of 18.9% of the mean wait (NIKHEF, 2003)."
LEGEND = """\
error: mean absolute error of the expected start; bias: mean of expected - actual, below 0 if too early; 50%, 90% range:
share of the starts within it; width: mean width of the 90% range.  walltimes: the simulation with the users' walltimes;
like jobs: mean of what like jobs waited lately; predicted runtimes: the simulation with medians; drawn runtimes: median
and ranges of simulations with drawn ones; combined: these, walltimes and like jobs, weighted and corrected by past
errors; known runtimes: a bound, the simulation with the runtimes that jobs will have.  gain of combined: by how much
its error is smaller than the row's, in percentage points of the mean wait, with the 95% interval over weeks.  A job
that waits while enough processors are free waits for its turn, a limit, memory, or for jobs that the log lacks."""


_TABLE = (
    sentence_column("forecast by"),
    TextColumn("error"),
    TextColumn("error / mean wait"),
    TextColumn("bias", 1),
    TextColumn("50% range", 3),
    TextColumn("90% range", 2),
    TextColumn("width", 4),
    TextColumn("gain of combined", 5),
)


@dataclass(frozen=True, slots=True)
class ReplayStartsDocument:
    """Forecasts of start times on recorded jobs, compared with the starts."""

    source: str
    """The sources, as given."""
    jobs: int
    """Number of jobs."""
    refused: int
    """Number of jobs that are larger than the machine."""
    processors: int
    """Size of the machine."""
    schedule: str
    """simulated, or recorded."""
    predictor: str
    """Predictor of runtimes."""
    forecasts: dict[str, dict[str, StartScores]]
    """Figures without the first 10% of the sampled jobs, which only calibrate: by time of the forecast and method."""


COLUMNS = ("time", "method", *(field.name for field in fields(StartScores)))
"""Columns of CSV: a row for each time of the forecast and method."""


def judge_forecasts(
    sources: tuple[str, ...], processors: int | None, recorded: bool, spec: str, sample: int, every: int, runs: int,
    seed: int, by: tuple[str, ...], walltimes: dict[str, int],
    selection: JobSelection, output: Output, settings: LazySettings,
) -> int:  # fmt: skip
    """Forecast, compare and print; return the exit status."""
    predictor = make(spec)
    completed, tally = load_columns(sources, settings, selection=selection, walltimes=walltimes)
    jobs = jobs_of(completed, settings().teaching)
    require_scored(jobs, sources)
    size = processors or tally.machine or jobs.peak()
    jobs, refused = jobs.that_fit(size)
    schedule = as_recorded(jobs, size) if recorded else as_simulated(jobs, size)
    chosen = sampled(schedule, sample)
    if not chosen:
        raise SourceError(f"no job waits on {plural(size, 'processor')}: nothing to forecast")
    with progress_bar("forecasting", len(schedule.jobs)) as progress:
        judged = list(judge(schedule, RuntimeModel(predictor), chosen, runs, every, seed, progress))
    first = set(chosen[int(len(chosen) * WARM_UP) :])
    judged = [forecast for forecast in judged if forecast.job in first]
    parts = {
        "at submission": [forecast for forecast in judged if not forecast.waited],
        f"every {duration(every)} after": [forecast for forecast in judged if forecast.waited],
    }
    parts |= {name: part for kind in dict.fromkeys(by) for name, part in by_class(parts, kind, jobs).items()}
    by_part = {name: {method: scores(part, method) for method in METHODS} for name, part in parts.items() if part}
    document = ReplayStartsDocument(
        selection.label(sources),
        len(jobs),
        refused,
        size,
        "recorded" if recorded else "simulated",
        spec,
        by_part,
    )
    if output.form == "json":
        output.document(document)
    elif output.form == "csv":
        output.rows(COLUMNS, (
            {"time": name, "method": method, **asdict(figures)}
            for name, part in by_part.items() for method, figures in part.items()
        ))  # fmt: skip
    else:
        kind = "as recorded" if recorded else "simulated: first come, first served, EASY, walltimes"
        output.paragraph(
            f"{document.source}: {plural(len(jobs), 'job')} on {plural(size, 'processor')}, {kind}; runtimes by "
            f"{spec}, {plural(runs, 'run')}"
        )
        for name, by_method in by_part.items():
            some = next(iter(by_method.values()))
            output.line()
            output.paragraph(
                f"{name}: {plural(some.forecasts, 'forecast')}, mean wait {duration(some.mean_wait)}, "
                f"{percent(some.enough_free)} while enough processors were free"
            )
            output.line()
            output.table(_table(by_method))
        output.line()
        output.paragraph(PUBLISHED, "faint")
        output.paragraph(LEGEND, "faint")
    for line in problems(tally):
        click.echo(line, err=True)
    return 1 if tally.broken else 0


def as_simulated(jobs: Jobs, processors: int) -> GivenSchedule:
    """The jobs as the simulator schedules them."""
    policy = SchedulerPolicy()
    outcome = simulate(jobs, processors, policy)
    return GivenSchedule(jobs, outcome.start, outcome.duration, processors, policy)


def as_recorded(jobs: Jobs, processors: int) -> GivenSchedule:
    """The jobs as they were recorded."""
    start = np.array([job.end - job.runtime if job.start is None else job.start for job in jobs.completed], np.int64)
    start = np.maximum(start, np.array(jobs.submitted, np.int64))
    return GivenSchedule(
        jobs, start, np.array(jobs.runtime, np.int64), processors, SchedulerPolicy(kill_at_walltime=False)
    )


def _table(by_method: dict[str, StartScores]) -> TextTable:
    least = min(figures.error for method, figures in by_method.items() if method != BOUND)
    rows: list[list[Cell | str]] = [
        [
            Cell(method, "strong"),
            Cell(duration(figures.error), "good" if figures.error == least and method != BOUND else ""),
            Cell(percent(figures.relative), "good" if figures.error == least and method != BOUND else ""),
            duration(figures.bias), percent(figures.covered50), percent(figures.covered90), duration(figures.width90),
            "" if method == COMBINED else _gain(figures),
        ]
        for method, figures in by_method.items()
    ]  # fmt: skip
    return TextTable.of(_TABLE, rows)


def _gain(one: StartScores) -> str:
    return f"{100 * one.gain:+.1f} [{100 * one.gain_low:+.1f}, {100 * one.gain_high:+.1f}]"
