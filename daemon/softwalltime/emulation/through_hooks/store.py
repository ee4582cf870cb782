"""The PostgreSQL of a run, which can be stopped and started again."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

OpenPostgres = Callable[[Path], AbstractContextManager[str]]
"""Starts a PostgreSQL in a folder, returns its DSN, and stops it."""


class Store:
    """A PostgreSQL in a folder."""

    def __init__(self, folder: Path, open_postgres: OpenPostgres) -> None:
        self._folder = folder
        self._open = open_postgres
        self._running: AbstractContextManager[str] | None = None

    def start(self) -> str:
        """Start PostgreSQL; return the DSN, which is the same each time."""
        server = self._open(self._folder)
        dsn = server.__enter__()
        self._running = server
        return dsn

    def stop(self) -> None:
        """Stop PostgreSQL if it runs; close all connections."""
        if self._running is not None:
            server, self._running = self._running, None
            server.__exit__(None, None, None)
