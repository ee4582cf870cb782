"""``softwalltime ingest`` and ``softwalltime db``: completed jobs into PostgreSQL, and its tables."""

from pathlib import Path

import click

from softwalltime.accounting.files import expand
from softwalltime.accounting.reader import Tally
from softwalltime.cli.options import LazySettings, store_options
from softwalltime.cli.progress import progress_bar
from softwalltime.cli.sources import problems

MANY = 1000
"""New jobs after which PostgreSQL is told at once what its tables look like now, instead of finding out some time."""


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path), metavar="PATH...")
@click.option("--server", metavar="NAME", default="", help="The PBS server's name.  Default: as in the job ids.")
@click.option("--again", is_flag=True, help="Read the logs from their start, also what was read before.")
@store_options
def ingest(paths: tuple[Path, ...], server: str, again: bool, settings: LazySettings) -> int:
    """Store the completed jobs of accounting logs.

    A PATH is a log, gzipped or not, or a folder of them.  The same paths may be ingested again at any time, also
    while PBS goes on writing: only what is new is read, and no job is stored twice.

    \b
    Example:
      softwalltime ingest /var/spool/pbs/server_priv/accounting
    """
    from softwalltime.service.ingest import ingest_logs
    from softwalltime.store import open_store, take_stock

    files = expand(paths)
    tally = Tally()
    with (
        open_store(settings()) as engine,
        progress_bar("ingesting", sum(file.stat().st_size for file in files)) as progress,
    ):
        stored, known = ingest_logs(engine, files, tally, server, progress, again=again)
        if stored > MANY:
            take_stock(engine)
    figures = {
        "records read": tally.lines - tally.blank,
        "jobs stored": stored,
        "already known": known,
        "array parents": tally.array_parents,
        "not completed jobs": tally.others,
        "malformed": tally.malformed,
    }
    width = max(len(f"{number:,}") for number in figures.values())
    for name, number in figures.items():
        click.echo(f"{name:<20}{number:>{width},}")
    for line in problems(tally):
        click.echo(line, err=True)
    return 1 if tally.broken else 0


@click.group()
def db() -> None:
    """Create, upgrade and check the store's tables.

    \b
    Example:
      softwalltime db upgrade --dsn postgresql:///softwalltime
    """


@db.command()
@store_options
def upgrade(settings: LazySettings) -> None:
    """Create the tables and SQL functions, or bring them to this version.

    \b
    Example:
      softwalltime db upgrade --dsn postgresql:///softwalltime
    """
    from softwalltime.store import open_store
    from softwalltime.store.migrations import current

    with open_store(settings(), migrate=True) as engine:
        click.echo(f"the store is at revision {current(engine)}")


@db.command("current")
@store_options
def current_revision(settings: LazySettings) -> None:
    """Show which revision the store's tables are at, and which this version needs.

    \b
    Example:
      softwalltime db current --dsn postgresql:///softwalltime
    """
    from softwalltime.store import open_engine
    from softwalltime.store.migrations import current, head

    with open_engine(settings()) as engine:
        click.echo(f"the store is at revision {current(engine) or 'none'}; this version needs {head()}")


@db.command()
@store_options
def check(settings: LazySettings) -> int:
    """Compare the store's tables and SQL functions with what this version needs; exit status 1 if they differ.

    \b
    Example:
      softwalltime db check --dsn postgresql:///softwalltime
    """
    from softwalltime.store import open_engine
    from softwalltime.store.migrations import check as differences

    with open_engine(settings()) as engine:
        found = differences(engine)
    for difference in found:
        click.echo(difference)
    click.echo("run: softwalltime db upgrade" if found else "tables and functions are as this version needs them")
    return 1 if found else 0
