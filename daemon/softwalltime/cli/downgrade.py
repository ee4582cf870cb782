"""``softwalltime db downgrade``: the store's tables back to what an older version needs."""

import click

from softwalltime.cli.options import LazySettings, store_options


@click.command()
@click.argument("revision")
@store_options
def downgrade(revision: str, settings: LazySettings) -> None:
    """Take the store's tables back to REVISION, before an older version is installed.

    Jobs stay; what that version has no table or column for is dropped.  The older version says which revision it needs:
    softwalltime db current.

    \b
    Example:
      softwalltime db downgrade 0002 --dsn postgresql:///softwalltime
    """
    from softwalltime.store.migrations import current
    from softwalltime.store.migrations import downgrade as go_back
    from softwalltime.store.opening import open_engine

    if revision == "base":
        raise click.UsageError("base has no tables at all: to give up what is stored, use PostgreSQL's dropdb.")
    with open_engine(settings()) as engine:
        go_back(engine, revision)
        click.echo(f"the store is at revision {current(engine) or 'none'}")
