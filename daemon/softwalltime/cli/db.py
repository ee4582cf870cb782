"""``softwalltime db``: maintain the tables of the store."""

import time
from collections import Counter

import click

from softwalltime.cli.command import command
from softwalltime.cli.options import StoreOptions
from softwalltime.cli.parameters import argument, option, options

_CORRECT = "tables and functions are as this version needs them"


@click.group()
def db() -> None:
    """Create, upgrade, check, prune and reindex the tables.

    \b
    Example:
      softwalltime db check --config softwalltime.toml
    """


@options
class DbOptions:
    settings: StoreOptions


@command(group=db)
def upgrade(options: DbOptions) -> None:
    """Create or upgrade the tables and SQL functions.

    \b
    Example:
      softwalltime db upgrade --config softwalltime.toml
      softwalltime db upgrade --dsn postgresql:///softwalltime
    """
    from softwalltime.store.migrations import current
    from softwalltime.store.opening import open_store

    with open_store(options.settings(), migrate=True) as engine:
        click.echo(f"the store is at revision {current(engine) or 'none'}")


@options
class DowngradeOptions:
    revision: str = argument()
    settings: StoreOptions


@command(group=db)
def downgrade(options: DowngradeOptions) -> None:
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
        click.echo(f"the store is at revision {current(engine) or 'none'}")


@command(group=db)
def check(options: DbOptions) -> int:
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
        lines = list(differences(engine))
    click.echo("\n".join((*lines, "run: softwalltime db upgrade")) if lines else _CORRECT)
    return 1 if lines else 0


@options
class PruneOptions:
    force: bool = option("Delete also where a large share of the store is old, or the clock seems wrong.")
    settings: StoreOptions


@command(group=db)
def prune(options: PruneOptions) -> int:
    """Delete jobs and predictions older than keep_days.

    The daemon does this daily.  Age is measured from the newest stored job.  The exit status is 1 and nothing is
    deleted by age if a large share of the store is old or the clock differs by more than a day from the newest job.

    \b
    Example:
      softwalltime db prune --config softwalltime.toml
      softwalltime db prune --dsn postgresql:///softwalltime
    """
    from softwalltime.store.opening import open_store
    from softwalltime.store.retention import RetentionRun

    deleted: Counter[str] = Counter()
    given = options.settings()
    try:
        with open_store(given) as engine:
            run = RetentionRun(engine, given.keep_days, int(time.time()), force=options.force)
            for table, rows in run:
                deleted[table] += rows
    finally:
        # Report the committed deletions even if a later step fails.
        for table, rows in deleted.items():
            click.echo(f"{table:<20}{rows:>12,} rows deleted")
    for refusal in run.refused:
        click.echo(refusal.text, err=True)
    return 1 if run.refused else 0


@command(group=db)
def reindex(options: DbOptions) -> None:
    """Rebuild the indexes of jobs and predictions.

    Indexes grow half empty: do this after old logs were ingested, and then once a year.  The daemon and all queries
    continue meanwhile.  The disk needs free space for the largest index.  An interrupted run can be repeated.

    \b
    Example:
      softwalltime db reindex --config softwalltime.toml
      softwalltime db reindex --dsn postgresql:///softwalltime
    """
    from softwalltime.store.completed_jobs import rebuild_indexes
    from softwalltime.store.opening import open_store

    with open_store(options.settings()) as engine:
        for name, before, after in rebuild_indexes(engine):
            click.echo(f"{name:<30}{before / 2**20:>10,.1f} MB, now {after / 2**20:,.1f} MB")
