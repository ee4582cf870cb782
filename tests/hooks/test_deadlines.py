"""The hook ends within its deadline, whatever the daemon does, and at PBS's alarm."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from softwalltime.emulation.pbs.hook_runner import HookScript
from softwalltime.emulation.pbs.pbs_events import Site, postqueued
from tests.hooks.alarm import alarm
from tests.hooks.conftest import HASTY, HUNG, PATIENT, STATE
from tests.hooks.jobs import Run, assert_harmless, events, submission
from tests.hooks.listening import full_backlog, listener
from tests.hooks.peer import Peer


@pytest.fixture
def clock(hook: ModuleType, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The hook's monotonic clock, which only the test advances."""
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(hook, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


@pytest.mark.usefixtures("clock")
def test_a_wait_ends_at_the_deadline_and_a_look_never_waits(hook: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    poll = SimpleNamespace(register=lambda *_: None, poll=waits.append)
    monkeypatch.setattr(hook, "select", SimpleNamespace(poll=lambda: poll))
    assert not hook.ready(0, 1, hook.remaining(1000.25))
    for deadline in (1000.0, 999.0):
        with pytest.raises(TimeoutError):
            hook.remaining(deadline)
    assert not hook.ready(0, 1)
    assert waits == [250, 0]


def test_the_deadline_counts_from_the_start_of_the_run(hook: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    deadlines: list[float] = []

    def ask(_config: object, _breaker: object, _request: object, deadline: float) -> None:
        deadlines.append(deadline)
        raise hook.NoAnswerError

    monkeypatch.setattr(hook, "ask", ask)
    job = SimpleNamespace(request=lambda _now, _timeouts: None, config=hook.DEFAULTS, name="queuejob")
    hook.ask_about(job, 5, 1000.0)
    assert deadlines == [1000.05]


def test_the_duration_of_an_exchange_includes_the_connection(
    hook: ModuleType, clock: SimpleNamespace, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = hook.Connection

    def slow(path: str) -> object:
        clock.now += 2.5
        return connect(path)

    monkeypatch.setattr(hook, "Connection", slow)
    config = {**hook.DEFAULTS, "socket": str(peer.socket)}
    hook.ask(config, hook.Breaker(config), {"event": "queuejob"}, clock.now + HUNG)
    hook.disconnect()
    assert hook.State.exchange_us == 2_500_000


def test_loading_the_transport_for_postgresql_takes_no_time_from_the_exchange(
    hook: ModuleType, clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    deadlines: list[float] = []

    def ask(_config: object, _request: object, deadline: float) -> None:
        deadlines.append(deadline)
        clock.now += 0.25

    def load(_settings: object) -> SimpleNamespace:
        clock.now += 7
        return SimpleNamespace(ask=ask)

    monkeypatch.setattr(hook, "load_postgres", load)
    config = {**hook.DEFAULTS, "transport": "postgres"}
    hook.ask(config, hook.Breaker(config), {}, 1000.5)
    assert (deadlines, hook.State.exchange_us) == ([1007.5], 250_000)


SLOW_PEERS: dict[str, dict[str, Any]] = {
    "hangs": {"hang": True},
    "is late": {"late": 3 * HUNG, "set": 600},
    "trickles": {"trickle": 0.01, "set": 600},
    "floods": {"flood": True},
}


@pytest.mark.parametrize("behaviour", SLOW_PEERS)
def test_the_whole_run_keeps_its_deadline(behaviour: str, run: Run, peer: Peer, site: Site) -> None:
    peer.behave(**SLOW_PEERS[behaviour])
    for event in events(site):
        begin = time.monotonic()
        outcome = run(event, breaker_seconds=0, deadline_ms=HASTY)
        assert time.monotonic() - begin < HUNG
        assert "no answer" in outcome.log[-1][1]
        assert_harmless(outcome)


def test_a_suspended_daemon_costs_no_more_than_the_deadline(run: Run, peer: Peer, site: Site) -> None:
    peer.suspend()
    begin = time.monotonic()
    outcome = run(postqueued(submission(), site=site), deadline_ms=HASTY)
    assert HASTY / 1000 <= time.monotonic() - begin < HUNG
    assert "no answer: timed out" in outcome.log[0][1]


def test_a_full_backlog_costs_no_time(run: Run, tmp_path: Path, site: Site) -> None:
    with listener(tmp_path) as path, full_backlog(path):
        outcome = run(postqueued(submission(), site=site), socket=path)
    assert "temporarily unavailable" in outcome.log[0][1]


@pytest.mark.parametrize("kind", ["missing", "stale", "a file", "a folder", "too long"])
def test_a_stopped_daemon_costs_no_time(kind: str, run: Run, tmp_path: Path, site: Site) -> None:
    path = tmp_path / "hook.sock"
    if kind == "stale":
        with listener(tmp_path):
            pass
    elif kind == "a file":
        path.touch()
    elif kind == "a folder":
        path.mkdir()
    elif kind == "too long":
        path = tmp_path / ("x" * 200)
    os.environ[STATE] = f"1 {time.monotonic()} {path}"
    outcome = run(postqueued(submission(), site=site), socket=str(path))
    assert f"no answer: {path}: " in outcome.log[0][1]
    assert STATE not in os.environ, "no timeout in a row with those before and after"


@pytest.mark.parametrize("index", range(5))
def test_pbs_alarm_does_not_reject_the_request(
    index: int, script: HookScript, peer: Peer, configured: Callable[..., Path], site: Site
) -> None:
    """An unhandled KeyboardInterrupt would reject it."""
    peer.behave(hang=True)
    event, file = events(site)[index], configured(socket=str(peer.socket), deadline_ms=PATIENT)
    with alarm(1):
        outcome = script.run(event, file)
    assert outcome.accepted
    assert not outcome.error
    assert "KeyboardInterrupt" in outcome.log[-1][1]
