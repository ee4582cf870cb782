"""Sockets that accept no connection, and those of this process."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def listener(folder: Path) -> Iterator[str]:
    """A listening socket that accepts no connection; the value is its path."""
    path = str(folder / "hook.sock")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen(1)
        yield path


@contextmanager
def full_backlog(path: str) -> Iterator[None]:
    """Connections that fill the backlog of a listening socket."""
    clients = []
    try:
        while True:
            client = socket.socket(socket.AF_UNIX)
            clients.append(client)
            client.setblocking(False)
            try:
                client.connect(path)
            except BlockingIOError:
                break
        yield
    finally:
        for client in clients:
            client.close()


def open_sockets() -> set[str]:
    """Return the open sockets of this process, as the kernel names them."""
    found = set()
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found.add(str(link.readlink()))
    return {name for name in found if name.startswith("socket:")}
