"""``softwalltime starts``: forecast the starts of waiting jobs, and of a job before its submission."""

import getpass
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from softwalltime.cli.command import Result, command
from softwalltime.cli.completing import complete_source
from softwalltime.cli.options import RUNTIMES, TIMEOUT, LazySettings, StoreOptions
from softwalltime.cli.output import Output, progress_bar
from softwalltime.cli.parameters import argument, option, options
from softwalltime.cli.sources import STORE, load_columns
from softwalltime.core.errors import SourceError, UsageError
from softwalltime.core.formatting import local_time, number, plural, printable, time_range, walltime
from softwalltime.core.text_table import Cell, TextColumn, TextTable, sentence_column
from softwalltime.measure.forecast.defaults import FEWER_RUNS, RUNS

if TYPE_CHECKING:
    from softwalltime.core.jobs import CompletedJob
    from softwalltime.measure.forecast.expected import ExpectedStart, Learnt
    from softwalltime.measure.forecast.queue_model import ModelledQueue
    from softwalltime.measure.forecast.snapshot import ServerSnapshot
    from softwalltime.predict.predictors.base import History
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
        """Return the ids of the waiting jobs that are wanted; ``names`` as in :func:`named_jobs`."""
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
    file: Path | None = option(
        "State of the server from softwalltime snapshot, instead of the PBS server's own.", "--snapshot"
    )
    from_store: bool = option("Print what the daemon forecast last, from the store ([starts]).")
    of: StartSelection
    probes: tuple[str, ...] = option(
        "A job not yet submitted, as user=alice,ncpus=64,walltime=4:00:00,queue=long; repeatable.", "--if",
        metavar="JOB",
    )  # fmt: skip
    logs: tuple[str, ...] = option(
        "Learn runtimes from this log, folder of logs or trace, or store; repeatable.  Default: the store of the "
        "settings, if they name one.",
        "--log", metavar="SOURCE", shell_complete=complete_source,
    )  # fmt: skip
    spec: str = RUNTIMES
    runs: int | None = option(
        f"Runs for the ranges; 0: no ranges.  Default: {RUNS}; of many jobs with limits or a formula {FEWER_RUNS}.",
        least=0, metavar="N",
    )  # fmt: skip
    timeout: float = TIMEOUT
    output: Output
    settings: StoreOptions


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
        if options.file is not None or options.probes or options.logs:
            raise UsageError("--from-store goes with neither --snapshot, --if nor --log: it prints what is stored")
        return _stored_starts(options.jobs, vars(options.of), options.settings)

    from softwalltime.cli.snapshot import look
    from softwalltime.measure.forecast.expected import expected_starts
    from softwalltime.measure.forecast.queue_model import model_of
    from softwalltime.measure.forecast.snapshot import load_snapshot
    from softwalltime.measure.forecast.what_if import PROBE, probe_job, probe_of
    from softwalltime.measure.simulation.policies import SOFT_WALLTIME
    from softwalltime.predict.policy.site import WALLTIME, site_policy
    from softwalltime.predict.predictors.registry import make

    wanted = [probe_of(text, getpass.getuser()) for text in options.probes]
    make(options.spec)
    snapshot = load_snapshot(options.file) if options.file is not None else look(options.timeout)
    chosen = options.of.jobs(options.jobs, snapshot) if options.jobs or not wanted else frozenset()
    policy = site_policy(options.settings().policy)
    running = WALLTIME if policy.mode == "on" and policy.running == WALLTIME else SOFT_WALLTIME
    queue = model_of(snapshot, running=running)
    models = [
        model_of(snapshot, [probe_job(text, probe, snapshot)], running)
        for text, probe in zip(options.probes, wanted, strict=True)
    ]
    learnt, basis = _learn(options, snapshot)
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


def _learn(options: StartsOptions, snapshot: "ServerSnapshot") -> "tuple[Learnt, str]":
    """Return what the history before the snapshot taught, and one sentence about it."""
    from softwalltime.measure.forecast.expected import Learnt
    from softwalltime.measure.forecast.learning import learn_history, note_live
    from softwalltime.measure.forecast.runtimes import RuntimeModel
    from softwalltime.predict.predictors.registry import make

    sources, settings, now = options.logs, options.settings, snapshot.taken
    if not sources and settings().dsn is None:
        sentence = "runtimes: walltimes, without ranges: give a history with --log, or a store with --dsn"
        return Learnt(RuntimeModel(None)), sentence
    predictor = make(options.spec)
    if sources and sources != (STORE,):
        completed: Sequence[CompletedJob] = load_columns(sources, settings)[0]
    else:
        completed = _stored_jobs(settings, predictor.history, now)
    model = RuntimeModel(predictor)
    with progress_bar("learning", len(completed)) as progress:
        count = learn_history(model, completed, now, settings().teaching, progress=progress)
    note_live(model, snapshot.jobs)
    where = " ".join(sources) or "the store"
    return Learnt(model), f"runtimes: {options.spec}, learnt from {plural(count, 'job')} of {where}"


def _stored_jobs(settings: LazySettings, history: "History", now: int) -> "Sequence[CompletedJob]":
    """Return the stored jobs that the predictor learns from, and enough of them to measure its errors."""
    from softwalltime.measure.forecast.learning import MIN_HISTORY
    from softwalltime.predict.predictors.base import needed_history
    from softwalltime.store.learning_jobs import last_ended_since, read_history
    from softwalltime.store.opening import open_store

    with open_store(settings(), create=False) as engine, engine.connect() as connection:
        needed = needed_history([history, MIN_HISTORY], now, partial(last_ended_since, connection, now=now))
        return list(read_history(connection, *needed, now, settings().teaching))


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


def named_jobs(job_ids: Iterable[str], names: Sequence[str], problem: Callable[[str], str]) -> frozenset[str]:
    """Return the ids of the jobs that the names mean, whole arrays among them; all jobs without names.

    :param problem: says why a name means no job.
    :raises UsageError: if a name means no job.
    """
    every = frozenset(job_ids)
    named = {name: {job_id for job_id in every if _matches(job_id, name)} for name in names}
    for name, matching in named.items():
        if not matching:
            raise UsageError(f"{name}: {problem(name)}")
    return frozenset().union(*named.values()) if names else every


def _matches(job_id: str, name: str) -> bool:
    """Whether a job id is meant by a name: itself, or a number, an array index and a server, the last two optional."""
    match = re.match(r"(\d+)(\[\d*\])?(?:\.(.*))?$", name)
    if job_id == name or match is None:
        return job_id == name
    asked, index, server = match.groups()
    head, _, rest = job_id.partition(".")
    bare, bracket, _ = head.partition("[")
    if bare != asked or (server and rest != server):
        return False
    return index is None or head == f"{asked}{index}" or (index == "[]" and bool(bracket))


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
