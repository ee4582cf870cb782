"""A substitute for a daemon that keeps connections open, with a scripted reaction to each request."""

import json
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

LINE = 65536
PATIENT = 60.0
"""Seconds: longer than any step on a busy machine."""

Reaction = Callable[[socket.socket], bool]
"""Answers on a connection; returns whether it stays open."""


def answer(seconds: int) -> bytes:
    """Return the answer that sets this soft walltime."""
    return json.dumps({"v": 1, "action": "set", "soft_walltime": seconds, "basis": "as scripted"}).encode() + b"\n"


def says(data: bytes, *, keep: bool = True) -> Reaction:
    """Send these bytes."""

    def react(client: socket.socket) -> bool:
        client.sendall(data)
        return keep

    return react


def sets(seconds: int, *, keep: bool = True) -> Reaction:
    """Answer with this soft walltime."""
    return says(answer(seconds), keep=keep)


def closes(_: socket.socket) -> bool:
    """Close the connection without an answer."""
    return False


def hangs(_: socket.socket) -> bool:
    """Send no answer."""
    return True


class KeepingPeer:
    """A listening socket in threads of this process.

    ``requests`` has the number of the connection and the request, for each; ``clients`` has the connections, of which
    the first has number 0.  ``script`` has the reactions to the next requests; after them it answers 600.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.requests: list[tuple[int, dict[str, Any]]] = []
        self.clients: list[socket.socket] = []
        self.script: list[Reaction] = []
        self.ended = [threading.Event() for _ in range(100)]
        """Set when the hook's end of the connection with this number was closed."""
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def connections(self) -> list[int]:
        """The connection of each request."""
        return [number for number, _ in self.requests]

    def start(self) -> None:
        """Listen."""
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen()
        self._run(self._accept, self._listener)

    def stop(self) -> None:
        """Close the socket and all connections, as the end of a daemon does."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        for client in self.clients:
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENT)
            assert not thread.is_alive()
        self._threads.clear()
        self._listener.close()
        self.path.unlink(missing_ok=True)

    def restart(self) -> None:
        """Close everything and listen again."""
        self.stop()
        self.start()

    def _run(self, target: Callable[..., None], *arguments: object) -> None:
        self._threads.append(threading.Thread(target=target, args=arguments))
        self._threads[-1].start()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                self.clients.append(client)
                self._run(self._serve, len(self.clients) - 1, client)

    def _serve(self, number: int, client: socket.socket) -> None:
        with client, suppress(OSError):
            while line := _line(client):
                self.requests.append((number, json.loads(line)))
                react = self.script.pop(0) if self.script else sets(600)
                if not react(client):
                    break
        self.ended[number].set()


def _line(client: socket.socket) -> bytes:
    """Return the next request; nothing at the end of the connection."""
    line = b""
    while not line.endswith(b"\n"):
        part = client.recv(LINE)
        if not part:
            return b""
        line += part
    return line
