"""``softwalltime starts``: forecast the starts of waiting jobs, and of a job before its submission."""

import getpass
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from softwalltime.cli.command import Result, command
from softwalltime.cli.forecasting import ForecastOptions, named_jobs
from softwalltime.cli.options import LazySettings
from softwalltime.cli.output import Output, progress_bar
from softwalltime.cli.parameters import argument, option, options
from softwalltime.core.errors import SourceError, UsageError
from softwalltime.core.formatting import local_time, number, plural, printable, time_range, walltime
from softwalltime.core.text_table import Cell, TextColumn, TextTable, sentence_column
from softwalltime.measure.forecast.defaults import FEWER_RUNS, RUNS

if TYPE_CHECKING:
    from softwalltime.measure.forecast.expected import ExpectedStart
    from softwalltime.measure.forecast.queue_model import ModelledQueue
    from softwalltime.measure.forecast.snapshot import ServerSnapshot
    from softwalltime.store.forecast_rows import StoredStart


@dataclass(frozen=True, slots=True)
class StartDocument:
    """The forecast of one job; times in epoch seconds, durations in seconds."""

    job: str
    """Job id, or the text of --if."""
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
    """Source of the predicted runtime."""
    group: str
    """Group of the job."""
    project: str
    """Project of the job."""

    @classmethod
    def of(cls, label: str, found: "ExpectedStart") -> "StartDocument":
        asked = found.job.submission
        return cls(
            label, asked.user, asked.queue, asked.ncpus, asked.walltime, found.job.state, found.expected,
            found.range50, found.range90, found.waits_for, found.job.estimated_start,
            None if found.runtime is None else round(found.runtime.median),
            "" if found.runtime is None else found.runtime.basis, asked.group, asked.project,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class StartsDocument:
    """Forecasts of the starts of waiting jobs."""

    COLUMNS: ClassVar = (
        *(field.name for field in fields(StartDocument) if field.name not in ("range50", "range90")),
        "range50_from", "range50_to", "range90_from", "range90_to",
    )  # fmt: skip

    taken: int
    """Time of the server's state, epoch seconds."""
    server: str
    """Name of the server."""
    runs: int | None
    """Number of runs for the ranges; null: not known of stored forecasts."""
    runtimes: str
    """Source of the predicted runtimes."""
    remarks: tuple[str, ...]
    """What the forecasts do not take into account."""
    jobs: tuple[StartDocument, ...]
    """The forecasts."""

    def rows(self) -> Iterator[dict[str, Any]]:
        for job in self.jobs:
            values = asdict(job)
            for name in ("range50", "range90"):
                values[f"{name}_from"], values[f"{name}_to"] = values[name] or (None, None)
            yield values


@options
class StartSelection:
    """Selection of jobs; an empty text selects all."""

    user: str = option("Only jobs of this user.", default="", metavar="NAME")
    group: str = option("Only jobs of this group.", default="", metavar="NAME")
    project: str = option("Only jobs of this project.", default="", metavar="NAME")
    queue: str = option("Only jobs of this queue.", default="", metavar="NAME")

    def jobs(self, names: Sequence[str], snapshot: "ServerSnapshot") -> frozenset[str]:
        """Return the ids of the waiting jobs that are wanted; ``names`` as in :func:`.forecasting.named_jobs`."""
        waiting = {job.submission.job_id: job.submission for job in snapshot.jobs if not job.occupies}

        def problem(name: str) -> str:
            runs = any(job.occupies and job.submission.job_id.startswith(name) for job in snapshot.jobs)
            what = "it runs already" if runs else "no such job waits"
            return f"{what}: softwalltime starts without a job lists those that wait"

        wanted = [(field, value) for field, value in vars(self).items() if value]
        chosen = named_jobs(waiting, names, problem)
        return frozenset(
            job_id for job_id in chosen if all(getattr(waiting[job_id], field) == value for field, value in wanted)
        )


@options
class StartsOptions:
    jobs: tuple[str, ...] = argument("[JOB]...")
    from_store: bool = option("Print what the daemon forecast last, from the store ([starts]).")
    of: StartSelection
    probes: tuple[str, ...] = option(
        "A job not yet submitted, as user=alice,ncpus=64,walltime=4:00:00,queue=long; repeatable.", "--if",
        metavar="JOB",
    )  # fmt: skip
    runs: int | None = option(
        f"Runs for the ranges; 0: no ranges.  Default: {RUNS}; of many jobs with a formula {FEWER_RUNS}, with limits, "
        f"several vnodes or fair share down to {FEWER_RUNS // 3}.",
        least=0, metavar="N",
    )  # fmt: skip
    source: ForecastOptions
    output: Output


@command("a job")
def starts(options: StartsOptions) -> Result[StartsDocument]:
    """Forecast when waiting jobs will start.

    The command simulates the scheduler many times from the state of the server on, with runtimes drawn from the
    predicted distributions.  The expected start is the median of these runs.  The forecast does not know jobs that are
    submitted later: starts are too early on average and ranges too narrow.  The output names each property of the
    server that is only approximated.

    --from-store prints the daemon's newest forecasts instead, which are corrected by the errors of past ones.  --if
    adds a job behind all others of its queue, to compare walltimes, sizes or queues.

    \b
    Example:
      softwalltime starts
      softwalltime starts --from-store --project chem --format json
      softwalltime starts 812 --log /var/spool/pbs/server_priv/accounting
      softwalltime starts --snapshot queue.json --if ncpus=64,walltime=4:00:00 --if ncpus=32,walltime=8:00:00
    """
    if options.from_store:
        source = options.source
        if source.file is not None or source.at is not None or options.probes or source.logs:
            raise UsageError("--from-store goes with no --snapshot, --at, --if or --log: it prints what is stored")
        return _stored_starts(options.jobs, vars(options.of), options.source.settings)

    from softwalltime.measure.forecast.expected import expected_starts
    from softwalltime.measure.forecast.queue_model import model_of
    from softwalltime.measure.forecast.what_if import PROBE, probe_job, probe_of

    wanted = [probe_of(text, getpass.getuser()) for text in options.probes]
    snapshot = options.source.state()
    chosen = options.of.jobs(options.jobs, snapshot) if options.jobs or not wanted else frozenset()
    running = options.source.running()
    queue = model_of(snapshot, running=running)
    models = [
        model_of(snapshot, [probe_job(text, probe, snapshot)], running)
        for text, probe in zip(options.probes, wanted, strict=True)
    ]
    learnt, basis = options.source.learn(snapshot)
    runs = options.runs
    if runs is None:
        runs = min(modelled.model.affordable_runs() for modelled in (queue, *models))
    rows: list[StartDocument] = []
    with progress_bar("forecasting", runs * (bool(chosen) + len(models))) as progress:
        waiting = expected_starts(queue, learnt, chosen, runs, progress=progress)
        rows += [StartDocument.of(start.job.submission.job_id, start) for start in waiting]
        for text, model in zip(options.probes, models, strict=True):
            answers = expected_starts(model, learnt, frozenset((PROBE,)), runs, progress=progress)
            rows += [StartDocument.of(f"if {text}", start) for start in answers]
    remarks = (*snapshot.remarks, *queue.remarks)
    document = StartsDocument(snapshot.taken, snapshot.server, runs, basis, remarks, tuple(rows))
    return Result(document, partial(_text, queue=queue), remarks=remarks if options.output.form == "table" else ())


def _text(output: Output, document: StartsDocument, queue: "ModelledQueue") -> None:
    model = queue.model
    waiting = len(model.jobs) - model.running + len(queue.impossible)
    output.paragraph(
        f"{printable(document.server)} at {local_time(document.taken, 0)}: {plural(model.running, 'running job')}, "
        f"{waiting:,} waiting, {model.processors:,} processors"
    )
    output.paragraph(document.runtimes, "faint")
    _print_table(output, document.jobs, document.taken)


def _print_table(output: Output, rows: Sequence[StartDocument], now: int) -> None:
    """Print a table, if there are rows; ``now`` (epoch seconds) says which day is today."""
    columns: dict[TextColumn, Callable[[StartDocument], Cell | str]] = {
        sentence_column("job"): lambda row: Cell(printable(row.job), "strong"),
        TextColumn("user", 2, left=True, least=8): lambda row: printable(row.user),
        TextColumn("queue", 3, left=True, least=8): lambda row: printable(row.queue),
        TextColumn("processors", 4): lambda row: number(row.ncpus),
        TextColumn("walltime", 5): lambda row: walltime(row.walltime),
        TextColumn("expected"): lambda row: local_time(row.expected, now),
        TextColumn("50% range", 6, least=14): lambda row: Cell(time_range(row.range50, now), "faint"),
        TextColumn("90% range", 1, least=14): lambda row: Cell(time_range(row.range90, now), "faint"),
        sentence_column("waits for"): lambda row: printable(row.waits_for),
    }
    if rows:
        output.section(TextTable.by_column(rows, columns))


def _stored_starts(jobs: Sequence[str], wanted: Mapping[str, str], settings: LazySettings) -> Result[StartsDocument]:
    """Return the forecasts of the store; ``wanted``: user, group, project and queue, empty for all."""
    from softwalltime.store.forecast_rows import read_expected
    from softwalltime.store.opening import open_store

    with open_store(settings(), create=False) as engine, engine.connect() as connection:
        every = read_expected(connection)
        selected = read_expected(connection, **wanted) if any(wanted.values()) else every
    if not every and not jobs:
        raise SourceError("the store has no forecasts of starts: no job waits, or [starts] is off (deploy/STARTS.md)")
    missing = "no forecast: softwalltime starts --from-store without a job lists all"
    chosen = named_jobs((published.start.job_id for published in every), jobs, lambda _: missing)
    taken = max((published.forecast_at for published in every), default=0)
    servers = " ".join(sorted({published.server for published in every}))
    rows = tuple(_document(published.start) for published in selected if published.start.job_id in chosen)
    basis = "as the daemon has learnt them"
    return Result(StartsDocument(taken, servers, None, basis, (), rows), _print_stored)


def _print_stored(output: Output, document: StartsDocument) -> None:
    now = int(time.time())
    jobs = plural(len(document.jobs), "waiting job")
    output.paragraph(f"{jobs}, forecast by the daemon at {local_time(document.taken, now)}")
    _print_table(output, document.jobs, now)


def _document(start: "StoredStart") -> StartDocument:
    def ends(begin: int | None, end: int | None) -> tuple[int, int] | None:
        return None if begin is None or end is None else (begin, end)

    return StartDocument(
        start.job_id, start.user_name, start.queue, start.ncpus, start.walltime, "", start.expected,
        ends(start.low50, start.high50), ends(start.low90, start.high90), start.waits_for, start.pbs_estimate,
        None, "", start.group_name, start.project,
    )  # fmt: skip
