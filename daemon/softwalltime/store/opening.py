"""Open the store that the settings name: a PostgreSQL by its DSN, or the embedded one."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext

from sqlalchemy import Engine

from softwalltime.core.errors import SourceError
from softwalltime.core.settings import Settings, service_user
from softwalltime.store.connections import StatementMonitor, connect
from softwalltime.store.embedded.postgres_process import embedded_postgres, has_data
from softwalltime.store.migrations import require_head, upgrade


@contextmanager
def open_engine(settings: Settings, monitor: StatementMonitor | None = None) -> Iterator[Engine]:
    """Open the database without checking its tables; without a DSN, start the embedded PostgreSQL.

    If PostgreSQL refuses root, a command run by root connects as the daemon's user.

    :param monitor: statement timeout.  With it, as in the daemon, the current user always connects: a process with
        threads cannot change its user temporarily.
    :raises StoreError: if it cannot be reached or started.
    """
    with ExitStack() as stack:
        dsn = settings.dsn
        if dsn is None:
            dsn = stack.enter_context(embedded_postgres(settings.data_dir))
        engine = connect(dsn, monitor, service_user(settings) if monitor is None else "")
        stack.callback(engine.dispose)
        yield engine


@contextmanager
def open_store(
    settings: Settings, *, migrate: bool = False, monitor: StatementMonitor | None = None, create: bool = True
) -> Iterator[Engine]:
    """Open the database with all tables and functions that this version needs.

    The embedded PostgreSQL is always upgraded; a database with a DSN is upgraded only with ``migrate``.

    :param monitor: statement timeout, except for an upgrade.
    :param create: create the embedded PostgreSQL if there is none; commands that only read do not.
    :raises StoreError: if it cannot be reached or started, or needs an upgrade that was not asked for.
    :raises SourceError: if there is none and ``create`` is false.
    """
    if not create and settings.dsn is None and not has_data(settings.data_dir):
        raise SourceError(
            f"{settings.data_dir}: no store is there.  Give accounting logs or a trace instead (as --log SOURCE or "
            "SOURCE), a PostgreSQL with --dsn, or make a store with softwalltime ingest LOGS"
        )
    with open_engine(settings, monitor) as engine:
        if migrate or settings.dsn is None:
            with monitor.patient(None) if monitor is not None else nullcontext():
                upgrade(engine)
        else:
            require_head(engine)
        yield engine
