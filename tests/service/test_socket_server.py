"""The socket server: many clients, slow and silent clients, a flood, unauthorized users, and a daemon that died."""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic

import pytest

from softwalltime.service import socket_server
from softwalltime.service.protocol import MAX_LINE_BYTES
from softwalltime.service.socket_server import MAX_ROUND_CONNECTIONS, ServerError, SocketServer
from tests.service.running import PATIENT, until

Start = Callable[..., Path]


def echo(line: bytes) -> bytes:
    return b"got " + line[:20] + b"\n"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    running: list[tuple[SocketServer, threading.Thread]] = []

    def begin(
        answer: Callable[[bytes], bytes] = echo,
        users: tuple[int, ...] = (os.getuid(),),
        answered: Callable[[bool], None] = lambda _: None,
        keeps: Callable[[], bool] = lambda: False,
    ) -> Path:
        server = SocketServer(tmp_path / "s", answer, users, answered, keeps)
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


def test_a_socket_that_was_removed_is_created_again(start: Start) -> None:
    path = start()
    with connect(path):
        path.unlink()
        until(path.exists)
    assert path.stat().st_mode & 0o777 == 0o600
    assert ask(path, b"hello\n") == b"got hello\n"


def connect(path: Path) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(PATIENT)
    client.connect(str(path))
    return client


def ask(path: Path, data: bytes) -> bytes:
    with connect(path) as client:
        client.sendall(data)
        return b"".join(iter(lambda: client.recv(65536), b""))


def test_one_request_gets_one_response(start: Start) -> None:
    assert ask(start(), b"hello\n") == b"got hello\n"


def test_a_kept_connection_gets_a_response_to_each_request(start: Start) -> None:
    noted: list[bool] = []
    path = start(answered=noted.append, keeps=lambda: True)
    with connect(path) as kept, connect(path) as other:
        for number in range(20):
            for client in (kept, other):
                client.sendall(b"hello %d\n" % number)
                assert client.recv(100) == b"got hello %d\n" % number
    deadline = monotonic() + PATIENT
    while len(noted) < 40:
        assert monotonic() < deadline
    assert noted == [True] * 40, "also the last one, which no request follows"


def test_only_the_request_decides_whether_its_connection_is_kept(start: Start) -> None:
    asked = iter([True, True, False])
    path = start(keeps=lambda: next(asked))
    with connect(path) as client:
        for _ in range(3):
            client.sendall(b"x\n")
            assert client.recv(100) == b"got x\n"
        assert client.recv(100) == b""


def test_a_connection_with_more_than_a_request_is_closed_after_the_response(start: Start) -> None:
    with connect(start(keeps=lambda: True)) as client:
        client.sendall(b"one\ntwo\n")
        assert b"".join(iter(lambda: client.recv(100), b"")) == b"got one\n"


def test_an_idle_kept_connection_is_closed_after_the_timeout(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_server, "IDLE_TIMEOUT", 0.1)
    with connect(start(keeps=lambda: True)) as client:
        client.sendall(b"x\n")
        assert client.recv(100) == b"got x\n"
        assert client.recv(100) == b""


def test_at_the_limit_the_connection_with_the_oldest_exchange_is_closed(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_server, "EXCHANGE_TIMEOUT", PATIENT)
    monkeypatch.setattr(socket_server, "MAX_CONNECTIONS", 3)
    path = start(keeps=lambda: True)
    clients = [connect(path) for _ in range(3)]
    for client in (*clients, clients[0]):
        client.sendall(b"x\n")
        assert client.recv(100) == b"got x\n"
    with connect(path) as fourth:
        fourth.sendall(b"x\n")
        assert fourth.recv(100) == b"got x\n"
        assert clients[1].recv(100) == b""
        for client in (clients[0], clients[2]):
            client.sendall(b"y\n")
            assert client.recv(100) == b"got y\n"
    for client in clients:
        client.close()


def test_a_line_may_come_in_pieces(start: Start) -> None:
    with connect(start()) as client:
        for piece in (b"he", b"ll", b"o", b"\n"):
            client.sendall(piece)
        assert client.recv(100) == b"got hello\n"


def test_silent_clients_do_not_delay_others(start: Start) -> None:
    path = start()
    silent = [connect(path) for _ in range(50)]
    assert ask(path, b"hello\n") == b"got hello\n"
    for client in silent:
        client.close()


def test_a_silent_client_is_disconnected_after_the_timeout(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_server, "EXCHANGE_TIMEOUT", 0.1)
    with connect(start()) as client:
        assert client.recv(1) == b""


def test_silent_clients_up_to_the_limit_do_not_delay_others(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_server, "EXCHANGE_TIMEOUT", PATIENT)
    monkeypatch.setattr(socket_server, "MAX_CONNECTIONS", 3)
    path = start()
    silent = [connect(path) for _ in range(3)]
    assert ask(path, b"hello\n") == b"got hello\n"
    # A fourth one that sends its request late replaces the oldest.
    with connect(path) as late:
        late.sendall(b"hel")
        assert silent[0].recv(100) == b""
        late.sendall(b"lo\n")
        assert late.recv(100) == b"got hello\n"
    for client in silent:
        client.close()


def test_a_flood_of_requests_delays_neither_the_idle_call_nor_the_end(tmp_path: Path) -> None:
    requests = 100 * MAX_ROUND_CONNECTIONS
    clients: list[socket.socket] = []

    def flood(line: bytes) -> bytes:
        """Another request waits whenever one is answered."""
        if len(clients) < requests:
            clients.append(connect(tmp_path / "s"))
            clients[-1].sendall(b"x\n")
        return echo(line)

    server = SocketServer(tmp_path / "s", flood, (os.getuid(),))
    idle: list[int] = []

    def on_idle() -> None:
        idle.append(len(clients))
        if len(idle) == 50:
            server.stop()

    flood(b"")
    server.serve(on_idle, 0.0)
    assert len(clients) <= (50 + 1) * MAX_ROUND_CONNECTIONS
    server.close()
    for client in clients:
        client.close()


def test_a_client_that_reads_slowly_gets_all_of_a_long_answer(start: Start) -> None:
    path = start(lambda line: b"y" * 2_000_000 + b"\n")
    assert len(ask(path, b"x\n")) == 2_000_001


def test_a_line_beyond_the_limit_is_cut_and_answered(start: Start) -> None:
    path = start(lambda line: f"{len(line)}\n".encode())
    with connect(path) as client:
        client.sendall(b"x" * MAX_LINE_BYTES)
        assert int(client.recv(100)) >= MAX_LINE_BYTES


def test_clients_that_disconnect_at_any_time_affect_no_other(start: Start) -> None:
    path = start()
    for data in (b"", b"half a line", b"whole\n"):
        for _ in range(20):
            with connect(path) as client:
                client.sendall(data)
    assert ask(path, b"hello\n") == b"got hello\n"


def test_an_unauthorized_user_gets_no_response(start: Start) -> None:
    path = start(users=(os.getuid() + 1,))
    with connect(path) as client:
        try:
            client.sendall(b"hello\n")
            assert client.recv(100) == b""
        except (BrokenPipeError, ConnectionResetError):
            pass


def test_the_socket_has_mode_0600(start: Start) -> None:
    assert start().stat().st_mode & 0o777 == 0o600


def test_the_socket_of_a_dead_daemon_is_replaced(start: Start, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "s"))
    assert ask(start(), b"hello\n") == b"got hello\n"


def test_the_socket_of_a_running_daemon_is_kept(start: Start) -> None:
    path = start()
    with pytest.raises(ServerError, match="another daemon answers here"):
        SocketServer(path, echo, ())
    assert ask(path, b"hello\n") == b"got hello\n"


def test_an_unusable_path_is_an_error_with_a_message(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="cannot listen here"):
        SocketServer(tmp_path / "missing" / "s", echo, ())
    (tmp_path / "file").write_text("precious")
    with pytest.raises(ServerError, match="cannot listen here"):
        SocketServer(tmp_path / "file", echo, ())
    assert (tmp_path / "file").read_text() == "precious"
