"""``softwalltime top``: the daemon's status, its rates and the newest decisions, printed again and again."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from softwalltime.cli.command import Result, command
from softwalltime.cli.daemon import ask_status, print_status
from softwalltime.cli.interruption import ending_normally
from softwalltime.cli.options import StoreOptions
from softwalltime.cli.output import Output
from softwalltime.cli.parameters import option, options
from softwalltime.core.errors import SoftwalltimeError
from softwalltime.core.formatting import MISSING, printable
from softwalltime.core.text_table import TextColumn, TextTable
from softwalltime.service.protocol import NoAnswerError

if TYPE_CHECKING:
    from softwalltime.core.settings import Settings
    from softwalltime.service.status import Status

MAX_ROWS = 10
"""Rows of each list."""
OVERDUE_NAMES = ("job", "user", "queue", "soft walltime", "overdue by", "killed in")
STARTS_NAMES = ("job", "user", "queue", "processors", "expected start", "90% range", "waits for")
RECENT_NAMES = ("time", "event", "job", "user", "mode", "action", "soft walltime", "walltime", "reason")
_RANKS = {"reason": 2, "waits for": 2}
"""Columns of sentences, which a narrow terminal breaks into lines or leaves out."""


@dataclass(frozen=True, slots=True)
class TopDocument:
    """Status of the daemon and its store at one time."""

    status: dict[str, Any]
    """As softwalltime status prints it."""
    running: int | None
    """Number of running jobs; null: the store cannot be read."""
    waiting: int | None
    """Number of waiting jobs."""
    overdue: int | None
    """Number of jobs that run beyond their soft walltime."""
    most_overdue: tuple[dict[str, str], ...]
    """The jobs that are furthest beyond their soft walltimes."""
    last_decisions: tuple[dict[str, str], ...]
    """The newest decisions, the newest first."""
    next_starts: tuple[dict[str, str], ...]
    """The jobs that are expected to start next; none where the daemon forecasts no starts."""
    problem: str
    """Why the store cannot be read; empty: it can."""


@options
class TopOptions:
    socket: Path | None = option("Socket of the daemon.")
    interval: float = option("Seconds between updates.", type=click.FloatRange(0.2, 60), default=1.0)
    once: bool = option("Print one snapshot and exit.")
    output: Output
    settings: StoreOptions


@command({"--once": "a decision, the newest first"}, columns=RECENT_NAMES)
def top(options: TopOptions) -> Result[TopDocument] | None:
    """Print status, rates and decisions again and again.

    It prints what status prints, the requests per second, overdue jobs, expected starts and the last decisions.  Quit
    with Ctrl-C.  Jobs and decisions come from the database; without database access they are omitted.

    \b
    Example:
      softwalltime top --once --config softwalltime.toml
      softwalltime top
    """
    output, loaded = options.output, options.settings(socket=options.socket)
    if output.form != "table" and not options.once:
        raise click.UsageError(f"--format {output.form} prints one snapshot: add --once")
    with ending_normally():
        before, since = ask_status(loaded.socket), time.monotonic()
        if output.form != "table":
            document = _document(before, loaded)
            return Result(document, rows=document.last_decisions)
        while True:
            time.sleep(options.interval)
            try:
                status, now = ask_status(loaded.socket), time.monotonic()
            except NoAnswerError as error:
                if options.once:
                    raise
                click.clear()
                output.paragraph(f"{error}; trying again", "bad")
                continue
            document = _document(status, loaded)
            if not options.once:
                click.clear()
            print_status(output, status)
            _print(output, document, _rates(status, before, now - since))
            if options.once:
                break
            before, since = status, now
    return None


def _document(status: "Status", settings: "Settings") -> TopDocument:
    from softwalltime.store.current import read_overview
    from softwalltime.store.opening import open_engine

    try:
        with open_engine(settings) as engine, engine.connect() as connection:
            jobs = read_overview(connection, MAX_ROWS)
    except SoftwalltimeError as error:
        return TopDocument(status.to_json(), None, None, None, (), (), (), str(error))

    def named(names: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> tuple[dict[str, str], ...]:
        return tuple(dict(zip(names, row, strict=True)) for row in rows)

    return TopDocument(
        status.to_json(), jobs.running, jobs.waiting, jobs.overdue, named(OVERDUE_NAMES, jobs.most_overdue),
        named(RECENT_NAMES, jobs.last_decisions), named(STARTS_NAMES, jobs.next_starts), "",
    )  # fmt: skip


def _rates(status: "Status", before: "Status", seconds: float) -> str:
    from softwalltime.cli.overview import latency

    # After a restart of the daemon the counters begin at 0.
    requests = max(0, status.requests.get("predict", 0) - before.requests.get("predict", 0))
    answers = latency(status.answer_times.since(before.answer_times))
    return f"since the last update: {requests / seconds:,.1f} requests per second, answer {answers}"


def _print(output: Output, document: TopDocument, rates: str) -> None:
    output.paragraph(f"\n{rates}")
    if document.problem:
        output.paragraph(f"jobs and decisions omitted: {document.problem}", "warning")
        return
    output.line(f"jobs: {document.running:,} running, {document.waiting:,} waiting, {document.overdue:,} overdue")
    for title, names, rows in (
        ("overdue", OVERDUE_NAMES, document.most_overdue),
        ("next starts", STARTS_NAMES, document.next_starts),
        ("last decisions", RECENT_NAMES, document.last_decisions),
    ):
        if rows:
            output.line(f"\n{title}", "strong")
            columns = (TextColumn(name, _RANKS.get(name, 0), left=True, least=16 * (name in _RANKS)) for name in names)
            # Users choose some of the texts.
            cells = [[printable(row[name] or MISSING) for name in names] for row in rows]
            output.table(TextTable.of(columns, cells))
