"""Replay recorded jobs and print how accurate predictors were: the work of ``softwalltime replay``."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from softwalltime.cli.gc_pause import rare_collections
from softwalltime.cli.measure.dump import require_dump, write_dump
from softwalltime.cli.measure.through_hooks import replay_through_hooks
from softwalltime.cli.options import LazySettings
from softwalltime.cli.output import Output, prefixed
from softwalltime.cli.problems import problems
from softwalltime.cli.progress import progress_bar
from softwalltime.cli.selection import JobSelection
from softwalltime.cli.sources import load_columns
from softwalltime.cli.through_hooks import HooksOptions
from softwalltime.policy.site import WALLTIME
from softwalltime.predictors.keys import SIGNATURE
from softwalltime.predictors.registry import BASELINE
from softwalltime.replay.drive import drive_specs
from softwalltime.replay.lower_bound import LowerBound, find_lower_bound
from softwalltime.replay.metrics import WARM_UP, Scores, score
from softwalltime.replay.queue_walltimes import OTHERS
from softwalltime.replay.workload import NO_WALLTIME, OTHER_DAYS, Scoring, Workload
from softwalltime.reports.table import LEGEND, floor_line, scores_table

QUEUES = 8
"""Queues named in the advice for logs without walltimes, at most."""
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
    floor: LowerBound | None = None
    """With --floor: the least possible error."""
    through_hooks: dict[str, dict[str, Any]] | None = None
    """With --through-hooks: the comparison with the fast replay, by predictor."""


@rare_collections()
def replay_sources(
    sources: tuple[str, ...], specs: tuple[str, ...], running: str | None, output: Output, dump: Path | None,
    limit: int | None, walltimes: dict[str, int], minimum: int, hooks: HooksOptions | None, selection: JobSelection,
    scored: tuple[int, int] | None, never_ran: bool, with_floor: bool, keys: tuple[str, ...], settings: LazySettings,
) -> int:  # fmt: skip
    """Replay the sources and print the figures; return the exit status."""
    # Fail before minutes of work.
    if dump is not None:
        require_dump(dump)
    jobs, tally = load_columns(sources, settings, selection=selection, walltimes=walltimes)
    if with_floor:
        memorizer = "memorizer" if keys == SIGNATURE else f"memorizer:keys={'+'.join(keys)}"
        specs = tuple(dict.fromkeys((*specs, memorizer)))
    since, until = scored or (None, None)
    workload = Workload(jobs, limit, settings().teaching, Scoring(since, until, never_ran))
    with progress_bar("replaying", len(workload.jobs) * len(specs)) as progress:
        results = drive_specs(workload, specs, running or WALLTIME, minimum, progress)
    hooked = replay_through_hooks(hooks, workload, sources, results, minimum, settings, running) if hooks else {}
    results |= {spec: hooked_run.result.replayed for spec, hooked_run in hooked.items()}
    scores = {spec: _scores(workload, result.soft_walltimes) for spec, result in results.items()}
    at_start: dict[str, tuple[Scores, Scores]] = {}
    if running is not None:
        at_start = {spec: _scores(workload, result.at_start) for spec, result in results.items() if spec != BASELINE}
    if dump is not None:
        dumped = {spec: result for spec, result in results.items() if spec != BASELINE}
        columns = {spec: result.soft_walltimes for spec, result in dumped.items()}
        if running is not None:
            columns |= {f"{spec} at start": result.at_start for spec, result in dumped.items()}
        write_dump(dump, workload, columns)
    floor = find_lower_bound(workload, keys) if with_floor else None
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
        through_hooks={spec: hooked_run.figures() for spec, hooked_run in hooked.items()} if hooks else None,
    )
    if output.form == "json":
        output.document(document)
    elif output.form == "csv":
        output.rows(COLUMNS, _rows(scores, at_start))
    else:
        _print(output, document, selection.label(sources), scores, at_start, floor)
        for spec, hooked_run in hooked.items():
            output.paragraph(f"\nthrough the hooks, {spec}: {hooked_run.summary()}")
    if not workload.scored.any():
        click.echo(_nothing_scored(workload), err=True)
    for line in problems(tally):
        click.echo(line, err=True)
    return 1 if tally.broken or not all(hooked_run.sound for hooked_run in hooked.values()) else 0


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
    for event, by_spec in (("submission", scores), ("start", at_start)):
        for spec, (overall, warmed_up) in by_spec.items():
            more = prefixed("after_warm_up_", asdict(warmed_up))
            yield {"predictor": spec, "event": event, **asdict(overall), **more}


def _print(
    output: Output, document: ReplayDocument, label: str, scores: dict[str, tuple[Scores, Scores]],
    at_start: dict[str, tuple[Scores, Scores]], floor: LowerBound | None,
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
