"""``softwalltime db``: maintain the tables of the store."""

import time
from collections import Counter
from dataclasses import asdict, dataclass, fields

import click

from softwalltime.cli.lazy import LazyCommands
from softwalltime.cli.options import LazySettings, store_options
from softwalltime.cli.output import Output, output_options
from softwalltime.errors import SoftwalltimeError


@dataclass(frozen=True, slots=True)
class RevisionDocument:
    """The revision of the tables."""

    revision: str | None
    """The revision of the store; null: it has no tables of softwalltime."""
    needed: str
    """The revision that this version needs."""
    current: bool
    """Whether the two are the same."""


@dataclass(frozen=True, slots=True)
class CheckDocument:
    """The tables compared with those that this version needs."""

    correct: bool
    """Whether nothing differs."""
    differences: tuple[str, ...]
    """What is missing, in excess or different, a sentence each."""


@dataclass(frozen=True, slots=True)
class PruneDocument:
    """What was deleted."""

    deleted: dict[str, int]
    """Rows deleted, by table."""
    refused: tuple[str, ...]
    """Why nothing was deleted by age, and what to do; empty: it was."""
    failure: str | None = None
    """What stopped it before its end; null: nothing did."""


REVISION_COLUMNS = tuple(field.name for field in fields(RevisionDocument))
"""Columns of CSV: one row."""
CHECK_COLUMNS = ("difference",)
"""Columns of CSV: a row for each difference."""
PRUNE_COLUMNS = ("table", "rows")
"""Columns of CSV: a row for each table."""


@click.group(commands=LazyCommands({"downgrade": "softwalltime.cli.downgrade"}))
def db() -> None:
    """Create, upgrade, check and prune the store's tables.

    \b
    Example:
      softwalltime db current --config softwalltime.toml
    """


@db.command()
@output_options
@store_options
def upgrade(output: Output, settings: LazySettings) -> None:
    """Create or upgrade the tables and SQL functions.

    \b
    Example:
      softwalltime db upgrade --config softwalltime.toml
      softwalltime db upgrade --dsn postgresql:///softwalltime
    """
    from softwalltime.store.migrations import current
    from softwalltime.store.opening import open_store

    with open_store(settings(), migrate=True) as engine:
        print_revision(output, current(engine))


@db.command("current")
@output_options
@store_options
def current_revision(output: Output, settings: LazySettings) -> None:
    """Print the current and the required revision of the tables.

    \b
    Example:
      softwalltime db current --config softwalltime.toml
      softwalltime db current --dsn postgresql:///softwalltime
    """
    from softwalltime.store.migrations import current
    from softwalltime.store.opening import open_engine

    with open_engine(settings()) as engine:
        print_revision(output, current(engine), needed=True)


@db.command()
@output_options
@store_options
def check(output: Output, settings: LazySettings) -> int:
    """Compare the tables with those that this version needs.

    SQL functions are compared too.  The exit status is 1 if something differs.

    \b
    Example:
      softwalltime db check --config softwalltime.toml
      softwalltime db check --dsn postgresql:///softwalltime
    """
    from softwalltime.store.migrations import check as differences
    from softwalltime.store.opening import open_engine

    with open_engine(settings()) as engine:
        lines = differences(engine)
    if output.form == "json":
        output.document(CheckDocument(not lines, tuple(lines)))
    elif output.form == "csv":
        output.rows(CHECK_COLUMNS, [{"difference": difference} for difference in lines])
    else:
        for difference in lines:
            output.line(difference, "bad")
        output.line("run: softwalltime db upgrade" if lines else "tables and functions are as this version needs them")
    return 1 if lines else 0


@db.command()
@click.option(
    "--force", is_flag=True, help="Delete also where a large share of the store is old, or the clock seems wrong."
)
@output_options
@store_options
def prune(force: bool, output: Output, settings: LazySettings) -> int:
    """Delete jobs and predictions older than keep_days.

    The daemon does this daily, in small transactions.  Age is measured from the newest stored job.  The exit status is
    1 and nothing is deleted by age if a large share of the store is old or the clock differs by more than a day from
    the newest job.

    \b
    Example:
      softwalltime db prune --config softwalltime.toml
      softwalltime db prune --dsn postgresql:///softwalltime
    """
    from softwalltime.store.opening import open_store
    from softwalltime.store.retention import Retention
    from softwalltime.store.retention import prune as start_pruning

    deleted: Counter[str] = Counter()
    refused: tuple[str, ...] = ()
    given = settings()
    failure: str | None = "interrupted"
    try:
        with open_store(given) as engine:
            retention = Retention(given.keep_days, given.keep_jobs_per_user)
            run = start_pruning(engine, retention, int(time.time()), force=force)
            for table, rows in run:
                deleted[table] += rows
            refused = tuple(map(str, run.refused))
        failure = None
    except SoftwalltimeError as error:
        failure = str(error)
        raise
    finally:
        # What is deleted stays deleted, whatever comes after it.
        if deleted or failure is None:
            _print_pruned(output, PruneDocument(dict(deleted), refused, failure))
    for refusal in refused:
        click.echo(refusal, err=True)
    return 1 if refused else 0


def _print_pruned(output: Output, document: PruneDocument) -> None:
    if output.form == "json":
        output.document(document)
    elif output.form == "csv":
        output.rows(PRUNE_COLUMNS, [{"table": table, "rows": rows} for table, rows in document.deleted.items()])
    else:
        for table, rows in document.deleted.items():
            output.line(f"{table:<20}{rows:>12,} rows deleted")


def print_revision(output: Output, revision: str, *, needed: bool = False) -> None:
    """Print the revision of the store, and in a text where ``needed`` the one that this version needs."""
    from softwalltime.store.migrations import head

    document = RevisionDocument(revision or None, head(), revision == head())
    if output.form == "json":
        output.document(document)
    elif output.form == "csv":
        output.rows(REVISION_COLUMNS, [asdict(document)])
    else:
        needs = f"; this version needs {head()}" if needed else ""
        output.line(f"the store is at revision {revision or 'none'}{needs}")
