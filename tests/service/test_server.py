"""The socket: many clients, slow ones, silent ones, strangers, and a daemon that died."""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from softwalltime.service import server as server_module
from softwalltime.service.protocol import LONGEST
from softwalltime.service.server import Server, ServerError
from tests.service.running import PATIENT

Start = Callable[..., Path]


def echo(line: bytes) -> bytes:
    return b"got " + line[:20] + b"\n"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    running: list[tuple[Server, threading.Thread]] = []

    def begin(answer: Callable[[bytes], bytes] = echo, users: tuple[int, ...] = (os.getuid(),)) -> Path:
        server = Server(tmp_path / "s", answer, users)
        thread = threading.Thread(target=server.serve, args=(lambda: None, 0.05))
        thread.start()
        running.append((server, thread))
        return server.path

    yield begin
    for server, thread in running:
        server.stop()
        thread.join(PATIENT)
        assert not thread.is_alive()
        server.close()
        assert not server.path.exists()


def connect(path: Path) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(PATIENT)
    client.connect(str(path))
    return client


def ask(path: Path, data: bytes) -> bytes:
    with connect(path) as client:
        client.sendall(data)
        return b"".join(iter(lambda: client.recv(65536), b""))


def test_one_line_is_asked_and_one_answered(start: Start) -> None:
    assert ask(start(), b"hello\n") == b"got hello\n"


def test_a_line_may_come_in_pieces(start: Start) -> None:
    with connect(start()) as client:
        for piece in (b"he", b"ll", b"o", b"\n"):
            client.sendall(piece)
        assert client.recv(100) == b"got hello\n"


def test_silent_clients_delay_nobody(start: Start) -> None:
    path = start()
    silent = [connect(path) for _ in range(50)]
    assert ask(path, b"hello\n") == b"got hello\n"
    for client in silent:
        client.close()


def test_a_silent_client_is_dropped_when_its_time_is_up(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "PATIENCE", 0.1)
    with connect(start()) as client:
        assert client.recv(1) == b""


def test_more_clients_than_places_are_served_in_turn(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "PATIENCE", PATIENT)
    monkeypatch.setattr(server_module, "MOST", 3)
    path = start()
    clients = [connect(path) for _ in range(20)]
    for client in clients:
        client.sendall(b"x\n")
    for client in clients:
        assert client.recv(100) == b"got x\n"
        client.close()


def test_a_client_that_reads_slowly_gets_all_of_a_long_answer(start: Start) -> None:
    path = start(lambda line: b"y" * 2_000_000 + b"\n")
    assert len(ask(path, b"x\n")) == 2_000_001


def test_an_endless_line_is_cut_off_and_answered(start: Start) -> None:
    path = start(lambda line: f"{len(line)}\n".encode())
    with connect(path) as client:
        client.sendall(b"x" * LONGEST)
        assert int(client.recv(100)) >= LONGEST


def test_clients_that_go_away_at_any_moment_harm_nobody(start: Start) -> None:
    path = start()
    for data in (b"", b"half a line", b"whole\n"):
        for _ in range(20):
            with connect(path) as client:
                client.sendall(data)
    assert ask(path, b"hello\n") == b"got hello\n"


def test_a_user_who_may_not_ask_gets_no_answer(start: Start) -> None:
    path = start(users=(os.getuid() + 1,))
    with connect(path) as client:
        try:
            client.sendall(b"hello\n")
            assert client.recv(100) == b""
        except (BrokenPipeError, ConnectionResetError):
            pass


def test_nobody_but_its_owner_may_even_connect(start: Start) -> None:
    assert start().stat().st_mode & 0o777 == 0o600


def test_the_socket_of_a_dead_daemon_is_taken_over(start: Start, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "s"))
    assert ask(start(), b"hello\n") == b"got hello\n"


def test_the_socket_of_a_living_daemon_is_not(start: Start) -> None:
    path = start()
    with pytest.raises(ServerError, match="another daemon answers here"):
        Server(path, echo, ())
    assert ask(path, b"hello\n") == b"got hello\n"


def test_a_place_that_cannot_be_used_is_an_error_in_words(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="cannot listen here"):
        Server(tmp_path / "missing" / "s", echo, ())
    (tmp_path / "file").write_text("precious")
    with pytest.raises(ServerError, match="cannot listen here"):
        Server(tmp_path / "file", echo, ())
    assert (tmp_path / "file").read_text() == "precious"
