"""``softwalltime db``: maintain the tables of the store."""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import click

from softwalltime.cli.command import Result, command
from softwalltime.cli.options import StoreOptions
from softwalltime.cli.output import Output
from softwalltime.cli.parameters import argument, option, options
from softwalltime.core.errors import SoftwalltimeError


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

    COLUMNS: ClassVar = ("difference",)

    correct: bool
    """Whether nothing differs."""
    differences: tuple[str, ...]
    """What is missing, in excess or different, a sentence each."""

    def rows(self) -> Iterator[dict[str, Any]]:
        yield from ({"difference": difference} for difference in self.differences)


@dataclass(frozen=True, slots=True)
class PruneDocument:
    """Deleted rows, and refusals."""

    COLUMNS: ClassVar = ("table", "rows")

    deleted: dict[str, int]
    """Rows deleted, by table."""
    refused: tuple[str, ...]
    """Reasons for not deleting by age, and what to do; empty: none."""
    failure: str | None = None
    """Error that stopped it; null: none."""

    def rows(self) -> Iterator[dict[str, Any]]:
        yield from ({"table": table, "rows": rows} for table, rows in self.deleted.items())


@click.group()
def db() -> None:
    """Create, upgrade, check and prune the store's tables.

    \b
    Example:
      softwalltime db check --config softwalltime.toml
    """


@options
class DbOptions:
    output: Output
    settings: StoreOptions


@command("the store", group=db)
def upgrade(options: DbOptions) -> Result[RevisionDocument]:
    """Create or upgrade the tables and SQL functions.

    \b
    Example:
      softwalltime db upgrade --config softwalltime.toml
      softwalltime db upgrade --dsn postgresql:///softwalltime
    """
    from softwalltime.store.migrations import current
    from softwalltime.store.opening import open_store

    with open_store(options.settings(), migrate=True) as engine:
        return _revision(current(engine))


@options
class DowngradeOptions:
    revision: str = argument()
    output: Output
    settings: StoreOptions


@command("the store", group=db)
def downgrade(options: DowngradeOptions) -> Result[RevisionDocument]:
    """Change the tables back to an older REVISION.

    Do this before you install an older version.  Jobs are kept.  Tables and columns that the older revision does not
    have are dropped.  "softwalltime db check" of the older version prints the revision that it needs.

    \b
    Example:
      softwalltime db downgrade 0001 --config softwalltime.toml
      softwalltime db downgrade 0001 --dsn postgresql:///softwalltime
    """
    from softwalltime.store.migrations import current
    from softwalltime.store.migrations import downgrade as go_back
    from softwalltime.store.opening import open_engine

    if options.revision == "base":
        raise click.UsageError("base has no tables: to delete the store, use PostgreSQL's dropdb.")
    with open_engine(options.settings()) as engine:
        go_back(engine, options.revision)
        return _revision(current(engine))


@command("a difference", group=db)
def check(options: DbOptions) -> Result[CheckDocument]:
    """Compare the tables with those that this version needs.

    SQL functions are compared too.  The exit status is 1 if something differs.

    \b
    Example:
      softwalltime db check --config softwalltime.toml
      softwalltime db check --dsn postgresql:///softwalltime
    """
    from softwalltime.store.migrations import check as differences
    from softwalltime.store.opening import open_engine

    with open_engine(options.settings()) as engine:
        lines = tuple(differences(engine))

    def text(output: Output, document: CheckDocument) -> None:
        for difference in document.differences:
            output.line(difference, "bad")
        output.line("run: softwalltime db upgrade" if lines else "tables and functions are as this version needs them")

    return Result(CheckDocument(not lines, lines), text, 1 if lines else 0)


@options
class PruneOptions:
    force: bool = option("Delete also where a large share of the store is old, or the clock seems wrong.")
    output: Output
    settings: StoreOptions


@command("a table", group=db)
def prune(options: PruneOptions) -> Result[PruneDocument]:
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
    from softwalltime.store.retention import RetentionRun

    deleted: Counter[str] = Counter()
    given = options.settings()

    def result(refused: tuple[str, ...] = (), failure: str | None = None) -> Result[PruneDocument]:
        document = PruneDocument(dict(deleted), refused, failure)
        return Result(document, text, 1 if refused else 0, refused)

    def text(output: Output, document: PruneDocument) -> None:
        for table, rows in document.deleted.items():
            output.line(f"{table:<20}{rows:>12,} rows deleted")

    try:
        with open_store(given) as engine:
            run = RetentionRun(engine, given.keep_days, int(time.time()), force=options.force)
            for table, rows in run:
                deleted[table] += rows
            refused = tuple(refusal.text for refusal in run.refused)
    except BaseException as error:
        # Report the committed deletions even if a later step fails.
        if deleted:
            failure = str(error) if isinstance(error, SoftwalltimeError) else "interrupted"
            result(failure=failure).print(options.output, PruneDocument.COLUMNS)
        raise
    return result(refused)


def _revision(revision: str) -> Result[RevisionDocument]:
    from softwalltime.store.migrations import head

    def text(output: Output, document: RevisionDocument) -> None:
        output.line(f"the store is at revision {document.revision or 'none'}")

    return Result(RevisionDocument(revision or None, head(), revision == head()), text)
