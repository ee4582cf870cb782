"""Comments of tables and columns: written once, in the tables of the code, and installed by an upgrade."""

from sqlalchemy import Connection
from sqlalchemy.schema import SetColumnComment, SetTableComment

from softwalltime.store.queries import query
from softwalltime.store.tables import SCHEMA, metadata


def install_comments(connection: Connection) -> None:
    """Set the comments that differ from those in the code; a table with the right ones is not locked."""
    found = connection.execute(query("installed_comments"), {"schema": SCHEMA})
    installed = {(row.table, row.column): row.comment for row in found}
    for table in metadata.tables.values():
        if installed.get((table.name, None)) != table.comment:
            connection.execute(SetTableComment(table))
        for column in table.columns:
            if installed.get((table.name, column.name)) != column.comment:
                connection.execute(SetColumnComment(column))
