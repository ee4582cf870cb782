"""The hook ends within its deadline, whatever the daemon does, and at PBS's alarm."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from softwalltime.emulation.pbs.events import Site, postqueued
from softwalltime.emulation.pbs.hook import HookScript
from tests.hooks.alarm import alarm
from tests.hooks.conftest import HASTY, HUNG, PATIENT, STATE
from tests.hooks.jobs import Run, assert_harmless, events, submission
from tests.hooks.listening import full_backlog, listener
from tests.hooks.peer import Peer

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
    assert "accepts no connection" in outcome.log[0][1]


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
    assert "no answer: the daemon " in outcome.log[0][1]
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
