"""What PostgreSQL does by itself in time, done at once."""

from sqlalchemy import Engine, text

from softwalltime.store.tables import completed_jobs


def vacuum_analyze(engine: Engine) -> None:
    """Let PostgreSQL take stock of the jobs, after many were added: some seconds for millions.

    Until then it plans queries blindly, and looks up in the table what stands in an index.  Left alone it does this
    within some minutes, but an embedded one is seldom left running that long.
    """
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text(f"VACUUM (ANALYZE) {completed_jobs.fullname}"))
