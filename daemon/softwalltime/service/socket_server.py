"""Unix socket server: one request line in, one response line out, many clients at once.

A single thread serves all connections through epoll and never blocks on one of them: a silent client costs a file
descriptor until its timeout.  There is no thread or coroutine per connection, because an exchange takes about 50
microseconds.  A connection is closed after the response unless the request asks to keep it for the next one.
"""

import fcntl
import os
import select
import socket
import stat
import struct
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from softwalltime.core.errors import SoftwalltimeError
from softwalltime.service.protocol import MAX_LINE_BYTES

BACKLOG = 512
"""Connections that may wait to be accepted. A PBS server runs one hook at a time, so it never needs as many."""
EXCHANGE_TIMEOUT = 5.0
"""Seconds that a client has for its exchange."""
IDLE_TIMEOUT = 60.0
"""Seconds that a kept connection stays open without a request."""
MAX_CONNECTIONS = 256
"""Open connections. A further one replaces the one whose last exchange is the oldest: the hook sends its request at
once, and connects again if its kept connection was closed."""
ANSWERED_DELAY_S = 0.002
"""Delay in seconds before ``answered`` is called, so that it does not compete with pbs_server for the processor."""
RECEIVE_BYTES = 8192
"""Receive buffer in bytes: a request has about 800, and a buffer for the longest takes time to allocate."""
MAX_ROUND_CONNECTIONS = 16
"""Maximum connections accepted and served before the loop checks for signals and the idle interval."""
_CREDENTIALS = struct.Struct("3i")


class ServerError(SoftwalltimeError):
    """The socket cannot be opened."""


@dataclass(slots=True, eq=False)
class _Connection:
    client: socket.SocketType
    deadline: float
    received: bytes = b""
    to_send: bytes = b""
    waiting: int = 0
    """The epoll event for which it is registered, if any."""
    kept: bool = False
    """Whether it stays open after the response."""


class SocketServer:
    """Answer request lines on a Unix socket until :meth:`stop`.

    :param answer: maps a request line, without its line end, to the response line. It must not raise.
    :param users: user ids that may connect, by the peer credentials of the kernel.
    :param answered: called after a response, for work that need not delay the client; its argument is whether the
        response was delivered.
    :param keeps: whether the last request asks to keep its connection open.
    """

    def __init__(
        self,
        path: Path,
        answer: Callable[[bytes], bytes],
        users: Collection[int],
        answered: Callable[[bool], None] = lambda _: None,
        keeps: Callable[[], bool] = lambda: False,
    ) -> None:
        self.path = path
        self.refused = 0
        self._answer = answer
        self._answered = answered
        self._keeps = keeps
        self._unnoted: bool | None = None
        """Whether the last response was delivered; ``None`` after ``answered`` was called for it."""
        self._users = frozenset(users)
        # epoll instead of selectors: selectors take a tenth of the exchange, and pbs_server waits.
        self._epoll = select.epoll()
        self._open: dict[int, _Connection] = {}
        """Connections that wait for their client, by file descriptor, the one with the oldest exchange first."""
        self._listener = _listen(path)
        # A byte on this pair wakes the loop from another thread or from a signal handler.
        self._woken, self._wake = socket.socketpair()
        self._epoll.register(self._listener, select.EPOLLIN)
        self._epoll.register(self._woken, select.EPOLLIN)
        self._running = True

    def stop(self) -> None:
        """Make :meth:`serve` return after the current round; safe from any thread and from a signal handler."""
        self._running = False
        with suppress(OSError):
            self._wake.send(b"x")

    def serve(self, idle: Callable[[], None] = lambda: None, interval: float = 1.0) -> None:
        """Answer until :meth:`stop`; call ``idle``, which must be quick, about every ``interval`` seconds.

        A round serves a bounded number of connections, so that a flood of requests delays neither ``idle`` (the
        watchdog) nor the end.
        """
        next_idle = monotonic() + interval
        listener, woken = self._listener.fileno(), self._woken.fileno()
        while self._running:
            ready = self._epoll.poll(self._pause(next_idle), MAX_ROUND_CONNECTIONS)
            if not ready:
                self._note()
            for descriptor, events in ready:
                if descriptor == listener:
                    self._accept()
                elif descriptor != woken:
                    self._exchange(descriptor, events)
            now = monotonic()
            if now >= next_idle:
                for connection in [late for late in self._open.values() if late.deadline < now]:
                    self._close(connection)
                self._listen_again()
                listener = self._listener.fileno()
                idle()
                next_idle = now + interval
        self._note()

    def _listen_again(self) -> None:
        """Create the socket again if something has removed it, such as a cleaner of temporary folders."""
        if os.path.lexists(self.path):
            return
        # The next call tries again: the folder may be missing too.
        with suppress(ServerError, OSError):
            listener = _listen(self.path)
            self._epoll.unregister(self._listener)
            self._listener.close()
            self._listener = listener
            self._epoll.register(listener, select.EPOLLIN)

    def _pause(self, next_idle: float) -> float:
        """Return how long to wait for an event, in seconds."""
        pause = max(0.0, next_idle - monotonic())
        return pause if self._unnoted is None else min(pause, ANSWERED_DELAY_S)

    def _note(self) -> None:
        delivered, self._unnoted = self._unnoted, None
        if delivered is not None:
            self._answered(delivered)

    def close(self) -> None:
        """Close all connections and remove the socket; a second call does nothing."""
        if self._epoll.closed:
            return
        for connection in list(self._open.values()):
            self._close(connection)
        # Unlink before closing the listener: afterwards another daemon may own the path.
        with suppress(OSError):
            self.path.unlink()
        self._epoll.close()
        for descriptor in (self._listener, self._woken, self._wake):
            descriptor.close()

    def _accept(self) -> None:
        for _ in range(MAX_ROUND_CONNECTIONS):
            try:
                descriptor, _address = self._listener._accept()  # type: ignore[attr-defined]  # accept() calls it too
            except OSError:
                # No connection is pending, or no file descriptor is free; the next round tries again.
                return
            # The C socket type: Python's socket class takes as long as the rest of the exchange.
            client = socket.SocketType(fileno=descriptor)
            credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            if _CREDENTIALS.unpack(credentials)[1] not in self._users:
                self.refused += 1
                client.close()
                continue
            # The request has usually arrived already.
            connection = _Connection(client, monotonic() + EXCHANGE_TIMEOUT)
            self._receive(connection)

    def _exchange(self, descriptor: int, events: int) -> None:
        connection = self._open.get(descriptor)
        if connection is None:
            return
        # The event may belong to a connection that was closed in this round and had the same descriptor.
        if events & select.EPOLLOUT and connection.to_send:
            self._send(connection)
        else:
            self._receive(connection)

    def _receive(self, connection: _Connection) -> None:
        try:
            data = connection.client.recv(RECEIVE_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            self._wait(connection, select.EPOLLIN)
            return
        except OSError:
            self._close(connection)
            return
        received = connection.received + data if connection.received else data
        line, end, rest = received.partition(b"\n")
        if end or len(received) >= MAX_LINE_BYTES:
            self._note()
            connection.received = b""
            connection.to_send = self._answer(line)
            # A client that sends more before the response does not follow the protocol.
            connection.kept = self._keeps() and not rest
            self._unnoted = self._send(connection)
        elif data:
            connection.received = received
            self._wait(connection, select.EPOLLIN)
        else:
            self._close(connection)

    def _send(self, connection: _Connection) -> bool:
        """Send what the socket accepts now; return whether the client is still connected."""
        try:
            sent = connection.client.send(connection.to_send, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._close(connection)
            return False
        if sent < len(connection.to_send):
            connection.to_send = connection.to_send[sent:]
            self._wait(connection, select.EPOLLOUT)
        elif connection.kept:
            connection.to_send = b""
            connection.deadline = monotonic() + IDLE_TIMEOUT
            self._wait(connection, select.EPOLLIN)
            descriptor = connection.client.fileno()
            self._open[descriptor] = self._open.pop(descriptor)
        else:
            self._close(connection)
        return True

    def _wait(self, connection: _Connection, event: int) -> None:
        if not connection.waiting:
            if len(self._open) >= MAX_CONNECTIONS:
                self._close(next(iter(self._open.values())))
            descriptor = connection.client.fileno()
            self._open[descriptor] = connection
            self._epoll.register(descriptor, event)
        elif connection.waiting != event:
            self._epoll.modify(connection.client.fileno(), event)
        connection.waiting = event

    def _close(self, connection: _Connection) -> None:
        if connection.waiting:
            descriptor = connection.client.fileno()
            del self._open[descriptor]
            self._epoll.unregister(descriptor)
        connection.client.close()


def _listen(path: Path) -> socket.socket:
    """Return a listening socket at ``path``; replace the socket of a dead daemon.

    :raises ServerError: if a daemon listens there already or starts at this moment, or the path cannot be used.
    """
    listener = socket.socket(socket.AF_UNIX)
    try:
        with _start_lock(path):
            _clear(path)
            # Create the socket with mode 0600, without a moment of wider permissions.
            before = os.umask(0o177)
            try:
                listener.bind(str(path))
            finally:
                os.umask(before)
            listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise ServerError(f"{path}: cannot listen here: {error.strerror or error}") from error
    except ServerError:
        listener.close()
        raise
    return listener


@contextmanager
def _start_lock(path: Path) -> Iterator[None]:
    """Lock ``path`` against other daemons that start: one could remove the new socket as a stale one.

    The lock file stays, because a file that is removed may still be locked by another process.  Only its owner can
    open it, so no other user can hold the lock.

    :raises ServerError: if another daemon starts here, or the lock file cannot be opened.
    """
    file = path.with_name(f"{path.name}.lock")
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except PermissionError as error:
        message = f"{file}: cannot be opened: {error.strerror}. Remove it, or give a folder of the daemon's user"
        raise ServerError(message) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ServerError(f"{path}: another daemon starts here at this moment; start only one") from error
        yield
    finally:
        os.close(descriptor)


def _clear(path: Path) -> None:
    if not (path.exists() and stat.S_ISSOCK(path.stat().st_mode)):
        return
    with socket.socket(socket.AF_UNIX) as probe, suppress(ConnectionRefusedError):
        probe.settimeout(1.0)
        probe.connect(str(path))
        raise ServerError(f"{path}: another daemon answers here already; stop it first")
    path.unlink()
