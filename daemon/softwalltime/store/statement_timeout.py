"""Time limit of every statement, enforced by the client: a hung server enforces none.

TCP keepalives do not help where the kernel of a suspended PostgreSQL still acknowledges, and libpq has no timeout for
statements.  psycopg runs every exchange with the server through ``Connection.wait``, so the limit is there.
"""

import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

import psycopg


class StatementMonitor:
    """Time limit of the statements of an engine's connections, and for how long a statement has been waiting.

    :param timeout: seconds that the server may take for one exchange; ``None``: no limit.
    """

    def __init__(self, timeout: float | None) -> None:
        self._timeout = timeout
        self._local = threading.local()
        self._waits: dict[int, tuple[float, bool]] = {}
        """Start of each current wait, and whether the usual limit applies."""

    def waiting(self) -> float:
        """Return for how many seconds the longest current wait has lasted; 0 if there is none.

        Statements within :meth:`patient` are not counted.
        """
        # A copy in one step, because other threads change it.
        return max((monotonic() - since for since, usual in list(self._waits.values()) if usual), default=0.0)

    def longest_wait(self) -> float:
        """Return the same with the statements within :meth:`patient`, which may be slow while PostgreSQL works."""
        return max((monotonic() - since for since, _ in list(self._waits.values())), default=0.0)

    @contextmanager
    def patient(self, timeout: float | None) -> Iterator[None]:
        """Give the statements of this thread another limit, for work that is expected to take long."""
        before = getattr(self._local, "timeout", ())
        self._local.timeout = (timeout,)
        try:
            yield
        finally:
            self._local.timeout = before

    def limited(self, exchange: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """Return the generator of an exchange with a limit.

        :raises TimeoutError: in the generator, if the server takes longer.
        """
        try:
            wanted = next(exchange)
        except StopIteration as end:
            return end.value
        own = getattr(self._local, "timeout", ())
        timeout = own[0] if own else self._timeout
        began = monotonic()
        self._waits[id(exchange)] = began, not own
        try:
            while True:
                # psycopg resumes the generator without readiness several times a second.
                ready = yield wanted
                if not ready and timeout is not None and monotonic() - began > timeout:
                    raise TimeoutError(f"no answer within {timeout:g} s")
                try:
                    wanted = exchange.send(ready)
                except StopIteration as end:
                    return end.value
        finally:
            self._waits.pop(id(exchange), None)


class MonitoredConnection(psycopg.Connection[Any]):
    """Connection whose statements have a time limit, once ``monitor`` is set."""

    where: str = ""
    """The server and the database, for messages."""
    monitor: StatementMonitor | None = None

    def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:
        """Run an exchange with the server.

        :raises psycopg.OperationalError: if the server takes too long; the connection is closed then.
        """
        if self.monitor is None:
            return super().wait(gen, *args, **kwargs)
        try:
            return super().wait(self.monitor.limited(gen), *args, **kwargs)
        except TimeoutError as error:
            # The server may answer later, so that the connection cannot be used for another statement.
            self.close()
            raise psycopg.OperationalError(str(error)) from None
