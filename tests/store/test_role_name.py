"""The role may be called as our schema is, which PostgreSQL then takes for the place of everything without a schema."""

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from softwalltime.store.connections import connect
from softwalltime.store.migrations import check, upgrade

pytestmark = pytest.mark.postgres

ROLE = "softwalltime"


def test_a_role_called_as_the_schema_finds_nothing_missing(empty_database: str) -> None:
    name = sql.Identifier(str(conninfo_to_dict(empty_database)["dbname"]))
    role = sql.Identifier(ROLE)
    with psycopg.connect(empty_database, autocommit=True) as connection:
        if connection.execute("SELECT FROM pg_roles WHERE rolname = %s", [ROLE]).fetchone():
            pytest.skip(f"this server has a role {ROLE}, which is left alone")
        connection.execute(sql.SQL("CREATE ROLE {}").format(role))
        connection.execute(sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(name, role))
    engine = connect(make_conninfo(empty_database, options=f"-c role={ROLE}"))
    try:
        upgrade(engine)
        assert check(engine) == []
    finally:
        engine.dispose()
        with psycopg.connect(empty_database, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP OWNED BY {}").format(role))
            connection.execute(sql.SQL("DROP ROLE {}").format(role))
