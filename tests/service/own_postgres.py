"""A separate PostgreSQL that a test can stop, suspend, or put on a full disk."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

from softwalltime.store.connections import connect
from softwalltime.store.embedded.postgres_process import embedded_postgres
from softwalltime.store.migrations import upgrade
from tests.fix_postgres import scratch
from tests.service.running import suspend_postgres, until


class OwnPostgres:
    """An embedded PostgreSQL in a folder, with all tables; it runs from ``start`` to ``stop`` or ``kill``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._data = folder / "postgres" / "data"
        self._running = ExitStack()
        self.dsn = ""

    def start(self) -> None:
        """Start PostgreSQL, also after a kill."""
        self.dsn = self._running.enter_context(embedded_postgres(self._folder, durable=False))

    def stop(self) -> None:
        """Stop PostgreSQL as an administrator does."""
        self._running.close()

    def kill(self, number: signal.Signals = signal.SIGQUIT) -> None:
        """End PostgreSQL at once, as in a crash."""
        os.kill(int((self._data / "postmaster.pid").read_text().split()[0]), number)
        until(lambda: not (self._data / "postmaster.pid").exists())

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Suspend PostgreSQL: connections stay open and no answer comes."""
        suspend_postgres(self._data, signal.SIGSTOP)
        try:
            yield
        finally:
            suspend_postgres(self._data, signal.SIGCONT)


def create_tables(dsn: str) -> None:
    """Create all tables of a store."""
    engine = connect(dsn)
    upgrade(engine)
    engine.dispose()


@contextmanager
def own_postgres(folder: Path | None = None) -> Iterator[OwnPostgres]:
    """Run PostgreSQL in a temporary folder, or in this one."""
    with nullcontext(folder) if folder else scratch() as parent:
        postgres = OwnPostgres(parent / "data")
        postgres.start()
        try:
            create_tables(postgres.dsn)
            yield postgres
        finally:
            postgres.stop()
