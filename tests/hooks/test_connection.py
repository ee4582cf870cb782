"""The hook connects only for a request, and never waits for the connection."""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType

import pytest

from softwalltime.emulation.pbs.hook_runner import HookOutcome, HookScript
from softwalltime.emulation.pbs.pbs_events import Site, altered, postqueued, queued, started
from tests.hooks.alarm import alarm
from tests.hooks.conftest import HUNG, STATE
from tests.hooks.jobs import NOW, submission
from tests.hooks.listening import open_sockets
from tests.hooks.peer import Peer

Run = Callable[..., HookOutcome]


def sockets() -> int:
    """Return the number of open sockets of this process."""
    return len(open_sockets())


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    """A listening socket ``s`` in the test's folder; the test accepts its connections."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.listen()
        listening.settimeout(10)
        yield listening


def test_no_connection_is_made_without_a_request(run: Run, tmp_path: Path, listener: socket.socket, site: Site) -> None:
    shrink_to_fit = submission(min_walltime=600)
    for event in (
        queued(shrink_to_fit, site=site, array_indices="1-3"),
        postqueued(shrink_to_fit, site=site),
        altered(shrink_to_fit, {"walltime": "00:50:00"}, site=site, now=NOW),
        started(shrink_to_fit, site=site, now=NOW),
    ):
        run(event, socket=str(tmp_path / "s"))
    listener.setblocking(False)
    with pytest.raises(BlockingIOError):
        listener.accept()


def test_an_open_breaker_prevents_connections(
    run: Run, tmp_path: Path, listener: socket.socket, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "s")
    monkeypatch.setenv(STATE, f"3 {time.monotonic()} {path}")
    outcome = run(postqueued(submission(), site=site), socket=path, breaker_seconds=3600)
    assert "no request for" in outcome.log[-1][1]
    listener.setblocking(False)
    with pytest.raises(BlockingIOError):
        listener.accept()


def test_a_connection_closed_before_the_request_is_no_answer(
    run: Run, tmp_path: Path, listener: socket.socket, site: Site
) -> None:
    before = sockets()
    thread = threading.Thread(target=lambda: listener.accept()[0].close())
    thread.start()
    outcome = run(postqueued(submission(), site=site), socket=str(tmp_path / "s"), deadline_ms=5000)
    thread.join(10)
    assert f"no answer: {tmp_path}/s: " in outcome.log[-1][1]
    assert outcome.soft_walltime is None
    assert STATE not in os.environ
    assert sockets() == before


def test_only_the_process_that_opened_a_connection_uses_and_ends_it(
    hook: ModuleType, tmp_path: Path, listener: socket.socket
) -> None:
    """A fork of pbs_server has the same connection."""
    path = str(tmp_path / "s")
    for of_a_fork in (False, True):
        connection = hook.State.connection = hook.Connection(path)
        connection.peer.connect(path)
        connection.idle = True
        other_end, _ = listener.accept()
        with other_end, connection.peer.dup():
            assert connection.usable(path)
            connection.process += of_a_fork
            assert connection.usable(path) != of_a_fork
            hook.disconnect()
            other_end.setblocking(False)
            with pytest.raises(BlockingIOError) if of_a_fork else nullcontext():
                assert other_end.recv(1) == b""


def test_the_alarm_leaves_no_connection_open(
    script: HookScript, peer: Peer, configured: Callable[..., Path], site: Site
) -> None:
    peer.behave(hang=True)
    before = sockets()
    event, file = postqueued(submission(), site=site), configured(socket=str(peer.socket), deadline_ms=5000)
    with alarm(1):
        outcome = script.run(event, file)
    assert "KeyboardInterrupt" in outcome.log[-1][1]
    assert sockets() == before


def test_a_daemon_that_reads_nothing_costs_no_more_than_the_deadline(hook: ModuleType, tmp_path: Path) -> None:
    """Also where the system's buffers are smaller than a request."""
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        connection = hook.Connection(str(path))
        connection.peer.connect(str(path))
        connection.idle = True
        silent, _ = listener.accept()
        connection.peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        # The end of a wait that does not heed the deadline.
        timer = threading.Timer(HUNG, silent.close)
        timer.start()
        begin = time.monotonic()
        with pytest.raises(TimeoutError):
            connection.exchange(b"x" * 65536, time.monotonic() + 0.1)
        assert time.monotonic() - begin < HUNG
        timer.cancel()
        connection.peer.close()
        silent.close()
