"""Alembic's entry: runs migrations on the connection, and in the transaction, of softwalltime.store.migrations."""

from alembic import context
from alembic.util import CommandError

from softwalltime.store.tables import SCHEMA

connection = context.config.attributes.get("connection")
if connection is None:
    raise CommandError("run softwalltime db upgrade: it also takes the lock and installs the SQL functions")

context.configure(connection=connection, version_table_schema=SCHEMA)
with context.begin_transaction():
    context.run_migrations()
