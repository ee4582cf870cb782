"""``softwalltime ingest``: fill the store."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import click

from softwalltime.accounting.folders import find_logs
from softwalltime.accounting.log_file import size_on_disk
from softwalltime.accounting.tally import Tally
from softwalltime.cli.command import Result, command
from softwalltime.cli.interruption import Interruption, ending_normally
from softwalltime.cli.options import LOG_FORMAT, StoreOptions, server_name
from softwalltime.cli.output import Output, progress_bar
from softwalltime.cli.parameters import argument, option, options
from softwalltime.cli.sources import problems
from softwalltime.core.formatting import printable
from softwalltime.core.text_table import Meaning

if TYPE_CHECKING:
    from softwalltime.core.settings import Settings

MAX_LINE_CHARS = 200
"""Maximum printed characters of a malformed line."""
VACUUM_MIN_JOBS = 1000
"""New jobs after which ingest runs VACUUM ANALYZE instead of leaving it to autovacuum."""


@dataclass(frozen=True, slots=True)
class IngestDocument:
    """Records read by an ingest."""

    records_read: int
    """Records of the logs."""
    jobs_stored: int
    """Completed jobs that are new in the store."""
    already_known: int
    """Completed jobs that were in the store."""
    array_parents: int
    """Records of whole job arrays, whose subjobs are stored."""
    interrupted_runs: int
    """Runs that were stopped and requeued."""
    other_records: int
    """Records of other types."""
    malformed: int
    """Lines that cannot be read."""
    runtime_in_doubt: int
    """Jobs whose recorded runtime differs from end - start."""


@dataclass(frozen=True, slots=True)
class MalformedLineDocument:
    """A stored malformed line."""

    server: str
    """PBS server; empty: the log had no job id yet."""
    path: str
    """Log file."""
    line_number: int
    """Line in the file, from 1."""
    byte_offset: int
    """Offset of the line in the file, in bytes."""
    field: str
    """Field that cannot be read; empty: the whole line."""
    reason: str
    """What is wrong."""
    line: str
    """The line as text, with at most its first 4,096 bytes."""
    seen_at: str
    """When it was stored, ISO 8601."""


@dataclass(frozen=True, slots=True)
class MalformedDocument:
    """The stored malformed lines."""

    ROWS: ClassVar = "lines"

    kept: int
    """Lines that are stored."""
    dropped: int
    """Older lines that were deleted."""
    lines: tuple[MalformedLineDocument, ...]
    """The lines, newest first."""


@options
class IngestOptions:
    paths: tuple[Path, ...] = argument("PATH...", type=click.Path(exists=True, path_type=Path), nargs=-1)
    server: str | None = option(
        "Name of the PBS server.  Default: from the settings, else from the job ids.", type=server_name, metavar="NAME"
    )
    again: bool = option("Read the logs again from their start.")
    follow: bool = option("Follow the logs until interrupted.  One PATH, or the accounting folder of the settings.")
    malformed: bool = option("Print the stored malformed lines, newest first; read nothing.")
    log_format: str = LOG_FORMAT
    output: Output
    settings: StoreOptions


@command({"": "the run", "--malformed": "a line, newest first"})
def ingest(options: IngestOptions) -> Result[IngestDocument] | Result[MalformedDocument] | None:
    """Store the completed jobs of accounting logs.

    A PATH is a log, gzipped or not, or a folder of logs.  The same paths can be ingested again at any time, also while
    PBS writes them: only new records are read, and no job is stored twice.  The daemon ingests by itself; --follow is
    for sites without the daemon.

    \b
    Example:
      softwalltime ingest accounting --config softwalltime.toml
      softwalltime ingest /var/spool/pbs/server_priv/accounting
      softwalltime ingest --follow /var/spool/pbs/server_priv/accounting
      softwalltime ingest --malformed
    """
    paths, server = options.paths, options.server
    if options.follow + options.malformed + options.again > 1:
        raise click.UsageError("--follow, --malformed and --again exclude each other.")
    if options.malformed and paths:
        raise click.UsageError("--malformed takes no PATH.")
    if options.malformed:
        return _malformed(options.settings(), server)
    if options.follow:
        with ending_normally():
            accounting = paths[0] if paths else None
            _follow(options.settings(server=server, accounting=accounting), paths, options.log_format)
        return None
    if not paths:
        raise click.UsageError("Missing argument 'PATH...'.")
    return _ingest(paths, options.settings(server=server), again=options.again)


def _ingest(paths: tuple[Path, ...], settings: "Settings", *, again: bool) -> Result[IngestDocument]:
    from softwalltime.service.ingest import ingest_logs
    from softwalltime.store.completed_jobs import vacuum_analyze
    from softwalltime.store.opening import open_store

    logs = find_logs(paths)
    files, tally = logs.files, Tally(left_out_files=logs.left_out, broken=logs.broken)
    with (
        open_store(settings) as engine,
        progress_bar("ingesting", sum(map(size_on_disk, files))) as progress,
    ):
        stored, known = ingest_logs(engine, files, tally, settings.server, progress, again=again)
        if stored > VACUUM_MIN_JOBS:
            vacuum_analyze(engine)
    figures = IngestDocument(
        records_read=tally.lines - tally.blank,
        jobs_stored=stored,
        already_known=known,
        array_parents=tally.array_parents,
        interrupted_runs=tally.interrupted,
        other_records=tally.others,
        malformed=tally.malformed,
        runtime_in_doubt=tally.disagreeing,
    )
    return Result(figures, _text, 1 if tally.broken else 0, problems(tally))


def _text(output: Output, document: IngestDocument) -> None:
    figures = asdict(document)
    width = max(len(f"{number:,}") for number in figures.values())
    for name, number in figures.items():
        meaning: Meaning = "warning" if number and name in ("malformed", "runtime_in_doubt") else ""
        output.line(f"{name.replace('_', ' '):<20}{number:>{width},}", meaning)


def _follow(settings: "Settings", paths: tuple[Path, ...], log_format: str) -> None:
    from softwalltime.service.follow import Follower, follow
    from softwalltime.service.log_output import set_up_logging
    from softwalltime.store.opening import open_store

    if len(paths) > 1 or settings.accounting is None:
        raise click.UsageError("--follow takes one PATH, or the accounting folder of the settings file.")
    set_up_logging(log_format)
    follower = Follower(settings.accounting, settings.server)
    follow(follower, lambda: open_store(settings), settings.teaching, Interruption())


def _malformed(settings: "Settings", server: str | None) -> Result[MalformedDocument]:
    from softwalltime.store.logs import dropped_malformed, read_malformed
    from softwalltime.store.opening import open_store

    with open_store(settings) as engine, engine.connect() as connection:
        stored = read_malformed(connection, server=server)
        dropped = dropped_malformed(connection, server=server)
    lines = tuple(
        MalformedLineDocument(
            line.server, line.path, line.line_number, line.offset, line.field, line.reason,
            line.line.decode("utf-8", "backslashreplace"), line.seen_at.isoformat() if line.seen_at else "",
        )
        for line in stored
    )  # fmt: skip

    return Result(MalformedDocument(len(lines), dropped, lines), _malformed_text)


def _malformed_text(_output: Output, document: MalformedDocument) -> None:
    for line in document.lines:
        field = f"{line.field}: " if line.field else ""
        where = f"{printable(line.path)}:{line.line_number}: byte {line.byte_offset}"
        click.echo(f"{where}: {field}{line.reason}: {printable(line.line[:MAX_LINE_CHARS])}")
    click.echo(f"{document.kept:,} malformed lines are kept, {document.dropped:,} older ones were dropped", err=True)
