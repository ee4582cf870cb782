"""The store as the settings have it: a PostgreSQL by its DSN, or one of one's own."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext

from sqlalchemy import Engine

from softwalltime.settings import Settings
from softwalltime.store.embedded.server import embedded_postgres
from softwalltime.store.engine import connect
from softwalltime.store.migrations import require_head, upgrade
from softwalltime.store.statement_timeout import StatementMonitor


@contextmanager
def open_engine(settings: Settings, monitor: StatementMonitor | None = None) -> Iterator[Engine]:
    """The database, whatever state its tables are in; without a DSN the embedded PostgreSQL, running meanwhile.

    :param monitor: limits how long statements may take.
    :raises StoreError: if it cannot be reached or started.
    """
    with ExitStack() as stack:
        dsn = settings.dsn
        if dsn is None:
            dsn = stack.enter_context(embedded_postgres(settings.data_dir))
        engine = connect(dsn, monitor)
        stack.callback(engine.dispose)
        yield engine


@contextmanager
def open_store(
    settings: Settings, *, migrate: bool = False, monitor: StatementMonitor | None = None
) -> Iterator[Engine]:
    """The database with all tables and functions as this version needs them.

    The embedded PostgreSQL is the user's own and upgraded without asking; one given by a DSN only to ``migrate``.

    :param monitor: limits how long statements may take, but those of an upgrade.
    :raises StoreError: if it cannot be reached or started, or needs an upgrade that was not asked for.
    """
    with open_engine(settings, monitor) as engine:
        if migrate or settings.dsn is None:
            with monitor.patient(None) if monitor is not None else nullcontext():
                upgrade(engine)
        else:
            require_head(engine)
        yield engine
