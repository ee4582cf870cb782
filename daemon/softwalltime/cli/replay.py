"""``softwalltime replay``: measure predictors on recorded jobs."""

import csv
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from softwalltime.accounting.queue_limits import OTHERS, read_queue_limits, with_queue_limits
from softwalltime.cli.completing import complete_source
from softwalltime.cli.garbage import rare_collections
from softwalltime.cli.options import Keys, LazySettings, minimum_option, policy_options, store_options
from softwalltime.cli.output import Output, output_options, prefixed
from softwalltime.cli.problems import problems
from softwalltime.cli.progress import progress_bar
from softwalltime.cli.selection import JobSelection, Period, selection_options
from softwalltime.cli.sources import load_columns
from softwalltime.cli.through_hooks import HooksOptions, hooks_options, replay_through_hooks
from softwalltime.errors import SourceError
from softwalltime.policy.site import WALLTIME
from softwalltime.predictors.registry import BASELINE
from softwalltime.replay.drive import ReplayResult, drive_specs
from softwalltime.replay.floor import SIGNATURE, Floor, find_floor
from softwalltime.replay.job_columns import JobColumns
from softwalltime.replay.metrics import WARM_UP, Scores, score
from softwalltime.replay.workload import NO_WALLTIME, OTHER_DAYS, Scoring, Workload
from softwalltime.reports.table import LEGEND, floor_line, scores_table

QUEUES = 8
"""Queues named in the advice for logs without walltimes, at most."""
JOB_COLUMNS = ("job_id", "user", "queue", "walltime", "runtime")
"""The first columns of ``--dump``; a column for each predictor follows."""
_SCORES = [field.name for field in fields(Scores)]
COLUMNS = ("predictor", "event", *_SCORES, *(f"after_warm_up_{name}" for name in _SCORES))
"""Columns of CSV: a row for each predictor, and another for each at the start with ``--running``."""


@dataclass(frozen=True, slots=True)
class ReplayScores(Scores):
    """One predictor's figures, and the speed of the replay."""

    jobs_per_second: int
    """Jobs replayed per second of wall-clock time."""


@dataclass(frozen=True, slots=True)
class RunningScores:
    """Predictions at the start of the jobs."""

    predictor: str
    """Predictor for running jobs."""
    predictors: dict[str, Scores]
    """Figures over the scored jobs, by predictor for waiting jobs."""
    after_warm_up: dict[str, Scores]
    """The same without the first 1% of the scored jobs."""


@dataclass(frozen=True, slots=True)
class ReplayDocument:
    """Accuracy of predictors on recorded jobs."""

    source: str
    """The sources, as given."""
    jobs: int
    """Number of jobs."""
    scored: int
    """Number of jobs on which predictions can be judged."""
    skipped: dict[str, int]
    """Number of jobs that are not scored, by reason."""
    predictors: dict[str, ReplayScores]
    """Figures over the scored jobs, by predictor."""
    after_warm_up: dict[str, Scores]
    """Figures without the first 1% of the scored jobs, by predictor."""
    selection: str | None = None
    """Which jobs were selected; null: all."""
    running: RunningScores | None = None
    """With --running: predictions at the start."""
    floor: Floor | None = None
    """With --floor: the least possible error."""
    through_hooks: dict[str, dict[str, Any]] | None = None
    """With --through-hooks: the comparison with the fast replay, by predictor."""


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...", shell_complete=complete_source)
@policy_options
@click.option(
    "--dump",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write every job and its soft walltimes to this CSV file.",
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Replay only the first N submitted jobs.")
@click.option(
    "--walltime-from",
    "limits",
    metavar="PAIRS|FILE",
    help="Walltimes of jobs that have none, by queue: queue=HH:MM:SS,...; * for other queues; or a file of such lines.",
)
@selection_options
@click.option(
    "--score",
    "scored",
    type=Period(),
    metavar="FROM..TO",
    help="Score only jobs submitted in this period; predictors learn from all.",
)
@click.option("--never-ran", is_flag=True, help="Score the jobs that never ran too, with a runtime of 0 s.")
@click.option(
    "--floor",
    "with_floor",
    is_flag=True,
    help="Print the least possible mean absolute error of predictions that are equal for jobs with the same signature, "
    "and add memorizer, which predicts the median runtime of recent jobs with the same signature.",
)
@click.option(
    "--floor-keys",
    "keys",
    type=Keys(),
    default="+".join(SIGNATURE),
    show_default=True,
    metavar="KEYS",
    help="The signature, joined by +.",
)
@minimum_option
@hooks_options
@output_options
@store_options
@rare_collections()
def replay(
    sources: tuple[str, ...], specs: tuple[str, ...], running: str | None, output: Output, dump: Path | None,
    limit: int | None, limits: str | None, minimum: int, hooks: HooksOptions | None, selection: JobSelection,
    scored: tuple[int, int] | None, never_ran: bool, with_floor: bool, keys: tuple[str, ...], settings: LazySettings,
) -> int:  # fmt: skip
    """Measure predictors on recorded jobs.

    A SOURCE is an accounting log or a folder of logs, a trace in Standard Workload Format, or the word "store" for the
    ingested jobs.  Each predictor predicts a job at its submission and learns from it at its end, as it would have at
    the time.  The command changes nothing.

    --running SPEC predicts each job at its start too, as the hook does, and reports both predictions.

    With --through-hooks each submission, start and alter of a job runs the PBS hook, which asks a daemon that follows
    an accounting log.  Daemon and PostgreSQL are started for the run and removed afterwards.  Each soft walltime is
    compared with the fast replay's.  The exit status is 1 if one differs or a job was not accepted.

    \b
    Example:
      softwalltime replay accounting
      softwalltime replay /var/spool/pbs/server_priv/accounting
      softwalltime replay KTH-SP2.swf.gz --predictors v1,v3,percentile:p=95,keys=user
      softwalltime replay KTH-SP2.swf.gz --waiting v1 --running v3
      softwalltime replay CEA-Curie.swf.gz --score 2012-07-25..2012-08-23 --floor
      softwalltime replay metacentrum.swf --walltime-from "q_2h=2:00:00,*=24:00:00"
      softwalltime replay KTH-SP2.swf.gz --through-hooks --faults kill-daemon,garbage
    """
    # Fail before minutes of work.
    if dump is not None and not os.access(dump.parent, os.W_OK):
        raise SourceError(f"{dump}: cannot be written: the folder does not exist or is not writable")
    by_queue = {} if limits is None else read_queue_limits(limits)
    jobs, tally = load_columns(sources, settings, selection=selection)
    if by_queue:
        jobs = JobColumns.of(with_queue_limits(jobs, by_queue))
    if with_floor:
        memorizer = "memorizer" if keys == SIGNATURE else f"memorizer:keys={'+'.join(keys)}"
        specs = tuple(dict.fromkeys((*specs, memorizer)))
    since, until = scored or (None, None)
    workload = Workload(jobs, limit, settings().teaching, Scoring(since, until, never_ran))
    with progress_bar("replaying", len(workload.jobs) * len(specs)) as progress:
        results = drive_specs(workload, specs, running or WALLTIME, minimum, progress)
    hooked = replay_through_hooks(hooks, workload, sources, results, minimum, settings, running) if hooks else {}
    results |= {spec: one.result.replayed for spec, one in hooked.items()}
    scores = {spec: _scores(workload, result.soft_walltimes) for spec, result in results.items()}
    at_start: dict[str, tuple[Scores, Scores]] = {}
    if running is not None:
        at_start = {spec: _scores(workload, result.at_start) for spec, result in results.items() if spec != BASELINE}
    if dump is not None:
        _dump(dump, workload, {spec: result for spec, result in results.items() if spec != BASELINE}, running)
    floor = find_floor(workload, keys) if with_floor else None
    document = ReplayDocument(
        source=" ".join(sources),
        jobs=len(workload.jobs),
        scored=int(workload.scored.sum()),
        skipped=workload.skipped(),
        predictors={
            spec: ReplayScores(**asdict(overall), jobs_per_second=round(results[spec].jobs_per_second))
            for spec, (overall, _) in scores.items()
        },
        after_warm_up={spec: warmed_up for spec, (_, warmed_up) in scores.items()},
        selection=str(selection) or None,
        running=RunningScores(running, *_both(at_start)) if running is not None else None,
        floor=floor,
        through_hooks={spec: one.figures() for spec, one in hooked.items()} if hooks else None,
    )
    if output.form == "json":
        output.document(document)
    elif output.form == "csv":
        output.rows(COLUMNS, _rows(scores, at_start))
    else:
        _print(output, document, selection.label(sources), scores, at_start, floor)
        for spec, one in hooked.items():
            output.paragraph(f"\nthrough the hooks, {spec}: {one.summary()}")
    if not workload.scored.any():
        click.echo(_nothing_scored(workload), err=True)
    for line in problems(tally):
        click.echo(line, err=True)
    return 1 if tally.broken or not all(one.sound for one in hooked.values()) else 0


def _nothing_scored(workload: Workload) -> str:
    """Say why no job can be scored, and what to do."""
    skipped = workload.skipped()
    if OTHER_DAYS in skipped:
        return "No job can be scored: correct --score."
    if NO_WALLTIME not in skipped:
        return "No job can be scored, because none ran."
    queues = sorted({job.submission.queue or OTHERS for job in workload.jobs if job.ran})
    pairs = ",".join(f"{queue}=HH:MM:SS" for queue in (queues if len(queues) <= QUEUES else [OTHERS]))
    return (
        "No job can be scored, because none that ran has a walltime.  "
        f"Give the limits of the queues: --walltime-from {pairs}"
    )


def _scores(workload: Workload, soft_walltimes: NDArray[np.int64]) -> tuple[Scores, Scores]:
    return score(workload, soft_walltimes), score(workload, soft_walltimes, WARM_UP)


def _both(scores: dict[str, tuple[Scores, Scores]]) -> tuple[dict[str, Scores], dict[str, Scores]]:
    overall = {spec: overall for spec, (overall, _) in scores.items()}
    return overall, {spec: warmed_up for spec, (_, warmed_up) in scores.items()}


def _rows(
    scores: dict[str, tuple[Scores, Scores]], at_start: dict[str, tuple[Scores, Scores]]
) -> Iterator[Mapping[str, Any]]:
    for event, found in (("submission", scores), ("start", at_start)):
        for spec, (overall, warmed_up) in found.items():
            more = prefixed("after_warm_up_", asdict(warmed_up))
            yield {"predictor": spec, "event": event, **asdict(overall), **more}


def _print(
    output: Output, document: ReplayDocument, label: str, scores: dict[str, tuple[Scores, Scores]],
    at_start: dict[str, tuple[Scores, Scores]], floor: Floor | None,
) -> None:  # fmt: skip
    left_out = "".join(f", {count:,} {reason}" for reason, count in document.skipped.items())
    output.paragraph(f"{label}: {document.jobs:,} jobs, {document.scored:,} scored{left_out}")
    output.line()
    output.table(scores_table(scores))
    output.line()
    if document.running is not None:
        output.paragraph(f"From the start on, running jobs by {document.running.predictor}:")
        output.line()
        output.table(scores_table(at_start))
        output.line()
    if floor is not None:
        output.paragraph(floor_line(floor))
        output.line()
    output.paragraph(LEGEND, "faint")


def _dump(path: Path, workload: Workload, results: dict[str, ReplayResult], running: str | None) -> None:
    columns = {spec: result.soft_walltimes.tolist() for spec, result in results.items()}
    if running is not None:
        columns |= {f"{spec} at start": result.at_start.tolist() for spec, result in results.items()}
    try:
        with path.open("w", newline="", encoding="utf-8", errors="backslashreplace") as stream:
            writer = csv.writer(stream)
            writer.writerow([*JOB_COLUMNS, *columns])
            for job, *values in zip(workload.jobs, *columns.values(), strict=True):
                asked = job.submission
                described = (asked.job_id, asked.user, asked.queue, asked.walltime, job.runtime)
                writer.writerow([*described, *("" if value < 0 else value for value in values)])
    except OSError as error:
        raise SourceError(f"{path}: cannot be written: {error.strerror}") from error
