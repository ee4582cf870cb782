"""``softwalltime starts``: when will waiting jobs start, and when would a job that is not yet submitted?"""

import getpass
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import click

from softwalltime.cli.live import SECONDS, look
from softwalltime.cli.options import LazySettings, store_options
from softwalltime.cli.output import Output, output_options
from softwalltime.cli.progress import progress_bar
from softwalltime.cli.runtime_history import PREDICTOR, learn
from softwalltime.errors import UsageError
from softwalltime.forecast.calibration_file import load_calibration
from softwalltime.forecast.expected import ExpectedStart, expected_starts
from softwalltime.forecast.probes import PROBE, probe_job, probe_of
from softwalltime.forecast.queue_model import ModelledQueue, model_of
from softwalltime.forecast.snapshot import ServerSnapshot, load_snapshot
from softwalltime.forecast.start_times import RUNS
from softwalltime.formatting import MISSING, local_time, number, plural, printable, walltime
from softwalltime.policy.site import WALLTIME, site_policy
from softwalltime.predictors.registry import make
from softwalltime.simulation.policies import SOFT_WALLTIME
from softwalltime.text_table import Cell, TextColumn, TextTable, sentence_column


@dataclass(frozen=True, slots=True)
class StartDocument:
    """The forecast of one job; times in epoch seconds, durations in seconds."""

    job: str
    """Job id, or what --if said."""
    user: str
    """Owner of the job."""
    queue: str
    """Queue of the job."""
    ncpus: int | None
    """Number of processors."""
    walltime: int | None
    """Requested walltime."""
    state: str
    """State of the job in PBS."""
    expected: int | None
    """Expected start; null: no forecast."""
    range50: tuple[int, int] | None
    """Range that holds the start with a probability of 50%."""
    range90: tuple[int, int] | None
    """Range that holds the start with a probability of 90%."""
    waits_for: str
    """What the job waits for."""
    pbs_estimate: int | None
    """Start that PBS itself estimates."""
    runtime: int | None
    """Median of the predicted runtime; null: no prediction."""
    basis: str
    """What the predicted runtime rests on."""


@dataclass(frozen=True, slots=True)
class StartsDocument:
    """Forecasts of the starts of waiting jobs."""

    taken: int
    """Time of the server's state, epoch seconds."""
    server: str
    """Name of the server."""
    runs: int
    """Number of runs for the ranges."""
    runtimes: str
    """What the predicted runtimes are learnt from."""
    remarks: tuple[str, ...]
    """What the forecasts do not take into account."""
    jobs: tuple[StartDocument, ...]
    """The forecasts."""


COLUMNS = (
    *(field.name for field in fields(StartDocument) if not field.name.startswith("range")),
    "range50_from", "range50_to", "range90_from", "range90_to",
)  # fmt: skip
"""Columns of CSV: a row for each job."""
_TABLE = (
    sentence_column("job"),
    TextColumn("user", 1, least=8),
    TextColumn("queue", 2, least=8),
    TextColumn("processors", 3),
    TextColumn("walltime", 4),
    TextColumn("expected"),
    TextColumn("50% range", 6, least=14),
    TextColumn("90% range", 5, least=14),
    sentence_column("waits for", 0, 16),
)


def _start_document(label: str, found: ExpectedStart) -> StartDocument:
    asked = found.job.submission
    return StartDocument(
        label, asked.user, asked.queue, asked.ncpus, asked.walltime, found.job.state, found.expected, found.range50,
        found.range90, found.waits_for, found.job.estimated_start,
        None if found.runtime is None else round(found.runtime.median),
        "" if found.runtime is None else found.runtime.basis,
    )  # fmt: skip


@click.command()
@click.argument("jobs", nargs=-1, metavar="[JOB]...")
@click.option(
    "--snapshot", "file", type=click.Path(dir_okay=False, path_type=Path),
    help="State of the server from softwalltime snapshot, instead of the PBS server's own.",
)  # fmt: skip
@click.option(
    "--if", "probes", multiple=True, metavar="JOB",
    help="A job not yet submitted, as user=alice,ncpus=64,walltime=4:00:00,queue=long; repeatable.",
)  # fmt: skip
@click.option(
    "--log", "logs", multiple=True, metavar="SOURCE",
    help="Learn runtimes from this log, folder of logs or trace, or store; repeatable.  Default: the store of the "
    "settings, if they name one.",
)  # fmt: skip
@click.option(
    "--predictor", "spec", default=PREDICTOR, show_default=True, metavar="SPEC", help="Predictor of runtimes."
)
@click.option(
    "--runs",
    type=click.IntRange(0),
    default=RUNS,
    show_default=True,
    metavar="N",
    help="Runs for the ranges; 0: no ranges.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the drawn runtimes.")
@click.option(
    "--calibration", "calibrated", type=click.Path(dir_okay=False, path_type=Path),
    help="Correct forecasts by past errors: a file of softwalltime replay-starts --save-calibration with the same "
    "predictor.  It needs a history.",
)  # fmt: skip
@click.option(
    "--timeout", type=click.FloatRange(1), default=SECONDS, show_default=True, metavar="SECONDS",
    help="Seconds that PBS's commands may take together.",
)  # fmt: skip
@output_options
@store_options
def starts(
    jobs: tuple[str, ...], file: Path | None, probes: tuple[str, ...], logs: tuple[str, ...], spec: str,
    runs: int, seed: int, calibrated: Path | None, timeout: float, output: Output, settings: LazySettings,
) -> None:  # fmt: skip
    """Forecast when waiting jobs will start.

    The scheduler is run forward from the state of the server, with predicted runtimes.  The expected start comes from
    the medians.  The ranges come from many runs with runtimes drawn from the predicted distributions.  Jobs that will
    be submitted later are not foreseen: starts are too early on average and ranges too narrow, unless --calibration
    corrects both by the errors of past forecasts.

    --if adds a job that has not been submitted, behind all others of its queue, to compare walltimes, sizes or queues.

    \b
    Example:
      softwalltime starts
      softwalltime starts 812 --log /var/spool/pbs/server_priv/accounting
      softwalltime starts --snapshot queue.json --if ncpus=64,walltime=4:00:00 --if ncpus=32,walltime=8:00:00
    """
    wanted = [probe_of(text, getpass.getuser()) for text in probes]
    make(spec)
    calibration = load_calibration(calibrated) if calibrated is not None else None
    found = load_snapshot(file) if file is not None else look(timeout)
    chosen = _chosen(jobs, found) if jobs or not wanted else frozenset()
    policy = site_policy(settings().policy)
    running = WALLTIME if policy.mode == "on" and policy.running == WALLTIME else SOFT_WALLTIME
    queue = model_of(found, running=running)
    models = [model_of(found, [probe_job(probe, found)], running) for probe in wanted]
    learnt, basis, uncorrected = learn(logs, spec, settings, found, calibration)
    rows: list[StartDocument] = []
    with progress_bar("forecasting", runs * (bool(chosen) + len(models))) as progress:
        waiting = expected_starts(queue, learnt, chosen, runs, seed, progress)
        rows += [_start_document(one.job.submission.job_id, one) for one in waiting]
        for probe, model in zip(wanted, models, strict=True):
            answers = expected_starts(model, learnt, frozenset((PROBE,)), runs, seed, progress)
            rows += [_start_document(f"if {probe.text}", one) for one in answers]
    remarks = (*found.remarks, *queue.remarks, *uncorrected)
    if output.form == "json":
        output.document(StartsDocument(found.taken, found.server, runs, basis, remarks, tuple(rows)))
    elif output.form == "csv":
        output.rows(COLUMNS, (_csv_row(row) for row in rows))
    else:
        _print(output, found, queue, rows, basis)
        for remark in remarks:
            click.echo(remark, err=True)


def _csv_row(row: StartDocument) -> dict[str, object]:
    values = asdict(row)
    for name in ("range50", "range90"):
        values[f"{name}_from"], values[f"{name}_to"] = values[name] or (None, None)
    return values


def _chosen(jobs: Sequence[str], snapshot: ServerSnapshot) -> frozenset[str]:
    """The ids of the jobs that the arguments name, whole arrays among them; all waiting jobs without arguments.

    :raises UsageError: if no job that waits has a name.
    """
    waiting = [job.submission.job_id for job in snapshot.jobs if not job.occupies]
    if not jobs:
        return frozenset(waiting)
    found: set[str] = set()
    for name in jobs:
        number = re.match(r"(\d+)(\[\d*\])?(?:\.(.*))?$", name)
        matching = {
            each for each in waiting if each == name or (number is not None and _matches(each, number.groups()))
        }  # fmt: skip
        if not matching:
            runs = next((job for job in snapshot.jobs if job.occupies and job.submission.job_id.startswith(name)), None)
            what = "it runs already" if runs is not None else "no such job waits"
            raise UsageError(f"{name}: {what}: softwalltime starts without a job lists those that wait")
        found |= matching
    return frozenset(found)


def _matches(job_id: str, parts: Sequence[str | None]) -> bool:
    """Whether a job id is meant by a number, an array index and a server, of which the last two may be missing."""
    number, index, server = parts
    head, _, rest = job_id.partition(".")
    bare, bracket, _ = head.partition("[")
    if bare != number or (server and rest != server):
        return False
    return index is None or head == f"{number}{index}" or (index == "[]" and bool(bracket))


def _print(
    output: Output, snapshot: ServerSnapshot, queue: ModelledQueue, rows: Sequence[StartDocument], basis: str
) -> None:
    now = snapshot.taken
    model = queue.model
    waiting = len(model.jobs) - model.running + len(queue.impossible)
    output.paragraph(
        f"{printable(snapshot.server)} at {local_time(now, 0)}: {plural(model.running, 'running job')}, "
        f"{waiting:,} waiting, {model.processors:,} processors"
    )
    output.paragraph(basis, "faint")
    if not rows:
        return
    lines: list[list[Cell | str]] = [
        [
            Cell(printable(row.job), "strong"),
            printable(row.user),
            printable(row.queue),
            number(row.ncpus),
            walltime(row.walltime) if row.walltime else MISSING,
            MISSING if row.expected is None else local_time(row.expected, now),
            Cell(_range(row.range50, now), "faint"),
            Cell(_range(row.range90, now), "faint"),
            printable(row.waits_for),
        ]
        for row in rows
    ]
    output.line()
    output.table(TextTable.of(_TABLE, lines))


def _range(found: tuple[int, int] | None, now: int) -> str:
    if found is None:
        return MISSING
    begin, end = (local_time(each, now) for each in found)
    return begin if begin == end else f"{begin} to {end}"
