"""``softwalltime db downgrade``: change the store's tables back to an older revision."""

import click

from softwalltime.cli.db import print_revision
from softwalltime.cli.options import LazySettings, store_options
from softwalltime.cli.output import Output, output_options


@click.command()
@click.argument("revision")
@output_options
@store_options
def downgrade(revision: str, output: Output, settings: LazySettings) -> None:
    """Change the tables back to an older REVISION.

    Do this before you install an older version.  Jobs are kept.  Tables and columns that the older revision does not
    have are dropped.  "softwalltime db current" of the older version prints the revision that it needs.

    \b
    Example:
      softwalltime db downgrade 0015 --config softwalltime.toml
      softwalltime db downgrade 0015 --dsn postgresql:///softwalltime
    """
    from softwalltime.store.migrations import current
    from softwalltime.store.migrations import downgrade as go_back
    from softwalltime.store.opening import open_engine

    if revision == "base":
        raise click.UsageError("base has no tables: to delete the store, use PostgreSQL's dropdb.")
    with open_engine(settings()) as engine:
        go_back(engine, revision)
        print_revision(output, current(engine))
