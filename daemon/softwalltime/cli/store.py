"""``softwalltime ingest``: fill the store."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from softwalltime.accounting.folders import find_logs
from softwalltime.accounting.log_file import size_on_disk
from softwalltime.accounting.tally import Tally
from softwalltime.cli.command import command
from softwalltime.cli.interruption import Interruption, ending_normally
from softwalltime.cli.options import StoreOptions, server_name
from softwalltime.cli.output import Output, progress_bar
from softwalltime.cli.parameters import argument, option, options
from softwalltime.cli.sources import problems
from softwalltime.core.formatting import printable

if TYPE_CHECKING:
    from softwalltime.core.settings import Settings

MAX_LINE_CHARS = 200
"""Maximum printed characters of a malformed line."""
VACUUM_MIN_JOBS = 1000
"""New jobs after which ingest runs VACUUM ANALYZE instead of leaving it to autovacuum."""


@options
class IngestOptions:
    paths: tuple[Path, ...] = argument("PATH...", type=click.Path(exists=True, path_type=Path), nargs=-1)
    server: str | None = option(
        "Name of the PBS server.  Default: from the settings, else from the job ids.", type=server_name, metavar="NAME"
    )
    again: bool = option("Read the logs again from their start.")
    follow: bool = option("Follow the logs until interrupted.  One PATH, or the accounting folder of the settings.")
    malformed: bool = option("Print the stored malformed lines, newest first; read nothing.")
    settings: StoreOptions


@command()
def ingest(options: IngestOptions) -> int:
    """Store the completed jobs of accounting logs.

    A PATH is a log, gzipped or not, or a folder of logs.  The same paths can be ingested again at any time, also while
    PBS writes them: only new records are read, and no job is stored twice.  The daemon ingests by itself; --follow is
    for sites without the daemon.

    \b
    Example:
      softwalltime ingest accounting --config softwalltime.toml
      softwalltime ingest /var/spool/pbs/server_priv/accounting
      softwalltime ingest --follow /var/spool/pbs/server_priv/accounting
    """
    paths, server = options.paths, options.server
    if options.follow + options.malformed + options.again > 1:
        raise click.UsageError("--follow, --malformed and --again exclude each other.")
    if options.malformed and paths:
        raise click.UsageError("--malformed takes no PATH.")
    if options.malformed:
        _print_malformed(options.settings(), server)
        return 0
    if options.follow:
        with ending_normally():
            accounting = paths[0] if paths else None
            _follow(options.settings(server=server, accounting=accounting), paths)
        return 0
    if not paths:
        raise click.UsageError("Missing argument 'PATH...'.")
    return _ingest(paths, options.settings(server=server), again=options.again)


def _ingest(paths: tuple[Path, ...], settings: "Settings", *, again: bool) -> int:
    from softwalltime.service.ingest import ingest_logs
    from softwalltime.store.completed_jobs import vacuum_analyze
    from softwalltime.store.opening import open_store

    logs = find_logs(paths)
    files, tally = logs.files, Tally(left_out_files=logs.left_out, broken=logs.broken)
    with open_store(settings) as engine, progress_bar("ingesting", sum(map(size_on_disk, files))) as progress:
        stored, known = ingest_logs(engine, files, tally, settings.server, progress, again=again)
        if stored > VACUUM_MIN_JOBS:
            vacuum_analyze(engine)
    figures = {
        "records read": tally.lines - tally.blank,
        "jobs stored": stored,
        "already known": known,
        "array parents": tally.array_parents,
        "interrupted runs": tally.interrupted,
        "other records": tally.others,
        "malformed": tally.malformed,
        "runtime in doubt": tally.disagreeing,
    }
    output = Output.given()
    width = max(len(f"{number:,}") for number in figures.values())
    for name, number in figures.items():
        warning = number and name in ("malformed", "runtime in doubt")
        output.line(f"{name:<20}{number:>{width},}", "warning" if warning else "")
    for line in problems(tally):
        click.echo(line, err=True)
    return 1 if tally.broken else 0


def _follow(settings: "Settings", paths: tuple[Path, ...]) -> None:
    from softwalltime.service.follow import Follower, follow
    from softwalltime.service.log_output import set_up_logging
    from softwalltime.store.opening import open_store

    if len(paths) > 1 or settings.accounting is None:
        raise click.UsageError("--follow takes one PATH, or the accounting folder of the settings file.")
    set_up_logging()
    follower = Follower(settings.accounting, settings.server)
    follow(follower, lambda: open_store(settings), settings.teaching, Interruption())


def _print_malformed(settings: "Settings", server: str | None) -> None:
    from softwalltime.store.logs import dropped_malformed, read_malformed
    from softwalltime.store.opening import open_store

    with open_store(settings) as engine, engine.connect() as connection:
        stored = list(read_malformed(connection, server=server))
        dropped = dropped_malformed(connection, server=server)
    for line in stored:
        field = f"{line.field}: " if line.field else ""
        where = f"{printable(line.path)}:{line.line_number}: byte {line.byte_offset}"
        text = line.line.decode("utf-8", "backslashreplace")[:MAX_LINE_CHARS]
        click.echo(f"{where}: {field}{line.reason}: {printable(text)}")
    click.echo(f"{len(stored):,} malformed lines are kept, {dropped:,} older ones were dropped", err=True)
