"""A Unix socket on which one line is asked and one is answered, for many clients at once.

One thread waits for all connections and never for a single one: a client that connects and says nothing, or reads
nothing, costs a file descriptor until its time is up and delays nobody.  There is no thread or coroutine per
connection, because a connection lives for one exchange of some 50 microseconds.
"""

import os
import select
import socket
import stat
import struct
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from softwalltime.errors import SoftwalltimeError
from softwalltime.service.protocol import LONGEST

BACKLOG = 512
"""Connections that may wait to be accepted: a PBS server runs one hook at a time, so this is never reached."""
PATIENCE = 5.0
"""Seconds that a client has for its exchange."""
MOST = 256
"""Connections at once; further ones wait in the backlog."""
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
    """The event of epoll for which it is registered, if any."""


class Server:
    """Answers lines on a Unix socket until told to stop.

    :param answer: from one line, without its end, to the line to send back, which must not raise.
    :param users: user ids that may ask; the kernel says who is at the other end.
    :param answered: called once an answer was sent, for what nobody needs to wait for.
    """

    def __init__(
        self,
        path: Path,
        answer: Callable[[bytes], bytes],
        users: Collection[int],
        answered: Callable[[], None] = lambda: None,
    ) -> None:
        self.path = path
        self.refused = 0
        self.answered = 0
        self._answer = answer
        self._answered = answered
        self._users = frozenset(users)
        # Not through selectors: pbs_server stands still for each microsecond here, and that would be a tenth of them.
        self._epoll = select.epoll()
        self._open: dict[int, _Connection] = {}
        self._listener = _listen(path)
        # A byte on this pair wakes the loop up when another thread, or a signal handler, wants it to end.
        self._woken, self._wake = socket.socketpair()
        self._epoll.register(self._listener, select.EPOLLIN)
        self._epoll.register(self._woken, select.EPOLLIN)
        self._full = False
        self._running = True

    def stop(self) -> None:
        """Make :meth:`serve` return soon; may be called from any thread and from a signal handler."""
        self._running = False
        with suppress(OSError):
            self._wake.send(b"x")

    def serve(self, idle: Callable[[], None] = lambda: None, interval: float = 1.0) -> None:
        """Answer until :meth:`stop`; ``idle`` is called about every ``interval`` seconds, and must be quick."""
        next_idle = monotonic() + interval
        listener, woken = self._listener.fileno(), self._woken.fileno()
        while self._running:
            for descriptor, events in self._epoll.poll(max(0.0, next_idle - monotonic())):
                if descriptor == listener:
                    self._accept()
                elif descriptor != woken:
                    self._exchange(descriptor, events)
            now = monotonic()
            if now >= next_idle:
                self._drop_the_slow(now)
                idle()
                next_idle = now + interval

    def close(self) -> None:
        """Close everything and remove the socket."""
        for connection in list(self._open.values()):
            self._close(connection)
        self._epoll.close()
        for each in (self._listener, self._woken, self._wake):
            each.close()
        with suppress(OSError):
            self.path.unlink()

    def _accept(self) -> None:
        while len(self._open) < MOST:
            try:
                descriptor, _ = self._listener._accept()  # type: ignore[attr-defined]  # what accept() itself calls
            except OSError:
                # Nobody is waiting any more, or there are no file descriptors left: the next round tries again.
                return
            # The bare socket: to make one of the class around it takes as long as all the rest.
            client = socket.SocketType(fileno=descriptor)
            credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            if _CREDENTIALS.unpack(credentials)[1] not in self._users:
                self.refused += 1
                client.close()
                continue
            # As a rule the line is there already, and all is over before there is anything to remember.
            connection = _Connection(client, monotonic() + PATIENCE)
            self._receive(connection)
        self._epoll.unregister(self._listener)
        self._full = True

    def _exchange(self, descriptor: int, events: int) -> None:
        connection = self._open.get(descriptor)
        if connection is None:
            return
        # An event may be that of a connection that was closed in this round and had the same number.
        if events & select.EPOLLOUT and connection.to_send:
            self._send(connection)
        else:
            self._receive(connection)

    def _receive(self, connection: _Connection) -> None:
        try:
            data = connection.client.recv(LONGEST, socket.MSG_DONTWAIT)
        except BlockingIOError:
            self._wait(connection, select.EPOLLIN)
            return
        except OSError:
            self._close(connection)
            return
        received = connection.received + data if connection.received else data
        line, end, _ = received.partition(b"\n")
        if end or len(received) >= LONGEST:
            self.answered += 1
            connection.to_send = self._answer(line)
            self._send(connection)
            self._answered()
        elif data:
            connection.received = received
            self._wait(connection, select.EPOLLIN)
        else:
            self._close(connection)

    def _send(self, connection: _Connection) -> None:
        try:
            sent = connection.client.send(connection.to_send, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._close(connection)
            return
        if sent == len(connection.to_send):
            self._close(connection)
            return
        connection.to_send = connection.to_send[sent:]
        self._wait(connection, select.EPOLLOUT)

    def _wait(self, connection: _Connection, event: int) -> None:
        """Come back to this connection when it can go on."""
        if not connection.waiting:
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
        if self._full:
            self._epoll.register(self._listener, select.EPOLLIN)
            self._full = False

    def _drop_the_slow(self, now: float) -> None:
        for connection in [each for each in self._open.values() if each.deadline < now]:
            self._close(connection)


def _listen(path: Path) -> socket.socket:
    """A listening socket at ``path``, in the place of one that a dead daemon left behind.

    :raises ServerError: if a daemon listens there already, or the path cannot be used.
    """
    listener = socket.socket(socket.AF_UNIX)
    try:
        _clear(path)
        # 0600 from the first moment on.
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


def _clear(path: Path) -> None:
    """Remove a socket at which nobody listens any more."""
    if not (path.exists() and stat.S_ISSOCK(path.stat().st_mode)):
        return
    with socket.socket(socket.AF_UNIX) as probe, suppress(ConnectionRefusedError):
        probe.settimeout(1.0)
        probe.connect(str(path))
        raise ServerError(f"{path}: another daemon answers here already; stop it first")
    path.unlink()
