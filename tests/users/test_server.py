"""The server of own jobs under clients who ask too much or take nothing, and the reader while the store is away."""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from sqlalchemy import Engine

from softwalltime.service.users import own_jobs_server as server_module
from softwalltime.service.users.own_jobs import NoOwnJobsError, OwnJobs, ask_own_jobs
from softwalltime.service.users.own_jobs_server import BUSY, MAX_OPEN_OF_USER, AnswerRows, Answers, OwnJobsServer
from softwalltime.service.users.process import OwnJobsReader
from softwalltime.service.users.rate_limit import RateLimit
from softwalltime.store.own_jobs_rows import OwnRows
from tests.service.running import until
from tests.users.site import ME, fill, now

Start = Callable[..., "Running"]
UID = os.getuid()


class Running:
    """A server in a thread whose answers are 1 MB for this user."""

    def __init__(self, path: Path, tails: dict[int, bytes], **options: Any) -> None:
        self.path = path
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen(512)
        answers = Answers(b"head", tails, b"empty\n", {b"ann": UID, b"ben": UID + 1})
        self.server = OwnJobsServer(self.listener, lambda: answers, **options)
        self.ended = False
        self.thread = threading.Thread(target=self.server.run, args=(lambda: self.ended,))
        self.thread.start()

    def connect(self) -> socket.socket:
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(60)
        client.connect(str(self.path))
        return client

    def ask(self, name: bytes = b"") -> bytes:
        with self.connect() as client:
            if name:
                client.sendall(name)
            return b"".join(iter(lambda: client.recv(1 << 20), b""))

    def end(self) -> None:
        self.ended = True
        self.thread.join()
        self.listener.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started = []

    def start(tails: dict[int, bytes], **options: Any) -> Running:
        started.append(Running(tmp_path / "me.sock", tails, **options))
        return started[-1]

    yield start
    for running in started:
        running.end()


LONG = b"x" * (1 << 20) + b"\n"


def test_a_long_answer_arrives_whole(start: Start) -> None:
    running = start({UID: LONG})
    assert running.ask() == b"head" + LONG


def test_clients_that_take_nothing_are_few_and_are_closed(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "SEND_TIMEOUT_S", 0.5)
    running = start({UID: LONG})
    silent = [running.connect() for _ in range(MAX_OPEN_OF_USER)]
    until(lambda: running.server.answered == MAX_OPEN_OF_USER)
    assert running.ask() == BUSY
    # They are closed with a part of the answer in their hands; then he may ask again.
    until(lambda: running.ask() != BUSY)
    for client in silent:
        received = b"".join(iter(lambda client=client: client.recv(1 << 20), b""))  # type: ignore[misc]
        assert len(received) < len(LONG)
        client.close()


def test_a_client_that_leaves_costs_nothing(start: Start) -> None:
    running = start({UID: LONG}, users=RateLimit(1e9, 1e9))
    for _ in range(200):
        running.connect().close()
    assert running.ask() == b"head" + LONG


def test_users_without_jobs_share_an_allowance(start: Start) -> None:
    running = start({}, strangers=RateLimit(1e-9, 3))
    assert [running.ask() for _ in range(5)] == [b"headempty\n"] * 3 + [BUSY] * 2


def test_the_web_server_gets_the_jobs_of_the_user_whom_it_names(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "SEND_TIMEOUT_S", 0.5)
    running = start({UID: LONG, UID + 1: b"ben's\n"}, web=UID)
    assert running.ask(b"ann\n") == b"head" + LONG
    assert running.ask(b"ben\n") == b"headben's\n"
    for stranger in (b"be\n", b"eve\n", b"\n", b"ben\nann\n", b"ben\0\n", b"\xff\n", b'{"user": "ben"}\n'):
        assert running.ask(stranger) == b"headempty\n"
    # A name without its end may be a part of another one; a silent connection is closed.
    assert [running.ask(name) for name in (b"ben", b"")] == [b"", b""]
    with pytest.raises(ConnectionResetError):
        running.ask(b"b" * 300 + b"\n")


def test_the_web_server_refuses_an_answer_for_another_user(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = AnswerRows(lambda _: UID, ended=(OwnRows("ann", 0, "[]"),), read_at=1, problem="")
    mixed_up = replace(rows.answers(), uids={b"ann": UID, b"ben": UID})
    running = start({}, web=UID)
    monkeypatch.setattr(running.server, "_answers", lambda: mixed_up)
    assert ask_own_jobs(running.path, "ann").user == "ann"
    with pytest.raises(NoOwnJobsError, match="answers for another user"):
        ask_own_jobs(running.path, "ben")


def test_a_named_user_spends_his_own_allowance(start: Start) -> None:
    running = start({UID: LONG, UID + 1: b"ben's\n"}, web=UID, users=RateLimit(1e-9, 2))
    assert [running.ask(b"ben\n") for _ in range(3)] == [b"headben's\n"] * 2 + [BUSY]
    assert running.ask(b"ann\n") == b"head" + LONG


def test_an_allowance_fills_with_time() -> None:
    allowance = RateLimit(2, 3)
    assert [allowance.take("ann", 0.0) for _ in range(5)] == [True] * 3 + [False] * 2
    assert allowance.take("ben", 0.0)
    assert [allowance.take("ann", 1.0) for _ in range(3)] == [True, True, False]
    # Who has all again is forgotten; who has not is not.
    allowance.forget(1.6)
    assert [allowance.take("ann", 1.6) for _ in range(3)] == [True, False, False]
    assert OwnJobs.from_json(BUSY).read_at == 0


@pytest.mark.postgres
def test_while_the_store_is_away_the_last_answers_stay_and_say_so(database: str, engine: Engine, postgres: str) -> None:
    fill(engine, now())
    engine.dispose()
    reader = OwnJobsReader(database, {ME: 7}.get)

    def answer() -> OwnJobs:
        return OwnJobs.from_json(b"".join(reader.answers.of(7)))

    assert answer().read_at == 0
    begin = now()
    reader.step(begin)
    assert (answer().read_at, answer().problem, answer().waiting_jobs) == (begin, "", 1)
    name = sql.Identifier(str(conninfo_to_dict(database)["dbname"]))
    with psycopg.connect(make_conninfo(postgres), autocommit=True) as connection:
        connection.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(name))
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()",
            [conninfo_to_dict(database)["dbname"]],
        )
        reader.step(begin + 30)
        assert answer().problem == "the store of the jobs cannot be read: tell the administrators"
        assert (answer().read_at, answer().waiting_jobs) == (begin, 1)
        connection.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS true").format(name))
    reader.step(begin + 60)
    assert (answer().read_at, answer().problem) == (begin + 60, "")
    reader.close()
