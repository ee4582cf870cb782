"""The breaker: after timeouts or slow answers the hook sends no request for a while."""

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from softwalltime.emulation.pbs.hook_runner import HookOutcome, restart_interpreter
from softwalltime.emulation.pbs.pbs_events import Site, postqueued
from tests.hooks.conftest import HASTY, PATIENT, STATE
from tests.hooks.jobs import Run, submission
from tests.hooks.listening import listener
from tests.hooks.peer import Peer

PAUSE = 3600
"""Seconds that the breaker stays open, longer than any test."""


def outcome_of(outcome: HookOutcome) -> str:
    """Return the outcome of the request as one word, from the log."""
    words = {"no answer: timed out": "late", "no request for": "no request", " set ": "set"}
    return next((word for text, word in words.items() if text in outcome.log[-1][1]), "other")


def advance_time(seconds: float) -> None:
    """Move the time of the last timeout, the second word of the breaker's state, into the past."""
    count, when, peer = os.environ[STATE].split(" ", 2)
    os.environ[STATE] = f"{count} {float(when) - seconds} {peer}"


def test_three_timeouts_in_a_row_open_the_breaker(run: Run, peer: Peer, site: Site) -> None:
    event = postqueued(submission(), site=site)
    peer.behave(hang=True)
    found = [outcome_of(run(event, deadline_ms=HASTY, breaker_seconds=PAUSE)) for _ in range(6)]
    assert found == ["late", "late", "late", "no request", "no request", "no request"]
    assert len(peer.asked()) <= 3


def test_after_the_pause_one_timeout_opens_the_breaker_again(run: Run, peer: Peer, site: Site) -> None:
    event = postqueued(submission(), site=site)
    peer.behave(hang=True)
    found = [outcome_of(run(event, deadline_ms=HASTY, breaker_seconds=PAUSE)) for _ in range(4)]
    advance_time(PAUSE)
    found += [outcome_of(run(event, deadline_ms=HASTY, breaker_seconds=PAUSE)) for _ in range(3)]
    assert found == ["late", "late", "late", "no request", "late", "no request", "no request"]


def test_after_the_pause_an_answer_closes_the_breaker(run: Run, peer: Peer, site: Site) -> None:
    event = postqueued(submission(), site=site)
    peer.behave(hang=True)
    for _ in range(3):
        run(event, deadline_ms=HASTY, breaker_seconds=PAUSE)
    peer.behave(set=600)
    assert run(event, breaker_seconds=PAUSE).soft_walltime is None
    advance_time(PAUSE)
    for _ in range(5):
        assert run(event, breaker_seconds=PAUSE).soft_walltime == 600
    assert STATE not in os.environ


@pytest.mark.parametrize("between", [{"none": True}, {"raw": "nonsense\n"}, {"close": True}])
def test_timeouts_with_answers_between_them_do_not_open_the_breaker(
    between: dict[str, Any], run: Run, peer: Peer, site: Site
) -> None:
    event = postqueued(submission(), site=site)
    for _ in range(2):
        for behaviour, deadline in (({"hang": True}, HASTY), ({"hang": True}, HASTY), (between, PATIENT)):
            peer.behave(**behaviour)
            run(event, deadline_ms=deadline)
    peer.behave(set=600)
    assert run(event).soft_walltime == 600


def test_the_breaker_is_open_until_the_end_of_the_pause(hook: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STATE, "3 1000.0 a peer")
    pauses = []
    for now in (1000.0, 1029.5, 1030.0, 1031.0):
        monkeypatch.setattr(hook, "time", SimpleNamespace(monotonic=lambda now=now: now))
        pauses.append(hook.Breaker({**hook.DEFAULTS, "socket": "a peer"}).pause)
    assert pauses == [30, 0.5, 0, 0]


def test_each_daemon_has_its_own_breaker(run: Run, peer: Peer, site: Site, tmp_path: Path) -> None:
    event = postqueued(submission(), site=site)
    with listener(tmp_path) as path:
        for _ in range(3):
            run(event, socket=path, deadline_ms=HASTY)
    peer.behave(set=600)
    assert run(event).soft_walltime == 600


# ---- Slow answers ---------------------------------------------------------------------------------------------------

SLOW = {"late": 0.6, "set": 600}
DEADLINE = 1000
"""Milliseconds: the last 20 answers may take 10 s together."""
Ask = Callable[[], HookOutcome]


@pytest.fixture
def ask(run: Run, peer: Peer, site: Site) -> Ask:
    """Ask a peer whose answers are slow, but in time."""
    peer.behave(**SLOW)
    return partial(run, postqueued(submission(), site=site), deadline_ms=DEADLINE, breaker_seconds=PAUSE)


@pytest.fixture
def ask_again(ask: Ask, peer: Peer) -> Ask:
    """The same, after 19 answers that took half of their deadlines: another half exhausts the budget."""
    peer.behave(set=600)
    ask()
    peer.clear()
    peer.behave(**SLOW)
    sys.modules["softwalltime_hook_kept"].State.recent = [DEADLINE / 2000] * 19
    return ask


def test_slow_answers_open_the_breaker(ask_again: Ask, peer: Peer) -> None:
    outcomes = [ask_again() for _ in range(3)]
    assert [outcome_of(outcome) for outcome in outcomes] == ["set", "no request", "no request"]
    assert "after slow answers" in outcomes[-1].log[-1][1]
    assert len(peer.asked()) == 1


def test_after_the_pause_one_slow_answer_opens_the_breaker_again(ask_again: Ask) -> None:
    found = [outcome_of(ask_again()) for _ in range(2)]
    advance_time(PAUSE)
    found += [outcome_of(ask_again()) for _ in range(2)]
    assert found == ["set", "no request", "set", "no request"]


def test_after_the_pause_a_fast_answer_closes_the_breaker(ask_again: Ask, peer: Peer) -> None:
    ask_again()
    peer.behave(set=600)
    advance_time(PAUSE)
    assert [outcome_of(ask_again()) for _ in range(5)] == ["set"] * 5
    assert STATE not in os.environ


def test_rare_slow_answers_are_within_the_budget(ask: Ask) -> None:
    restart_interpreter()
    assert [outcome_of(ask()) for _ in range(3)] == ["set"] * 3


def test_the_last_20_answers_may_take_half_of_their_deadlines(hook: ModuleType) -> None:
    config = {**hook.DEFAULTS, "deadline_ms": 500}
    hook.State.recent = ()

    def opened(seconds: float) -> bool:
        hook.Breaker(config).answered(seconds)
        return bool(hook.Breaker(config).slow)

    assert not any(opened(0.25) for _ in range(50)), "exactly the budget"
    assert opened(0.26)
    assert opened(0.26), "alone more than a request's share, after slow answers"
    assert not any(opened(0.25) for _ in range(19)), "those before the pause count no more"
    assert opened(0.26)


def test_slow_answers_before_a_timeout_count(hook: ModuleType) -> None:
    hook.State.recent = ()
    hook.Breaker(hook.DEFAULTS).answered(0.4)
    hook.Breaker(hook.DEFAULTS).record(1)
    hook.Breaker(hook.DEFAULTS).answered(0.1)
    assert STATE not in os.environ, "exactly the budget"
    hook.Breaker(hook.DEFAULTS).answered(0.001)
    assert hook.Breaker(hook.DEFAULTS).slow


def test_the_daemon_is_not_found_of_timeouts_where_answers_were_slow(ask_again: Ask, peer: Peer) -> None:
    ask_again()
    advance_time(PAUSE)
    ask_again()
    assert [request["timeouts"] for request in peer.asked()] == [0, 0]


@pytest.mark.parametrize(
    "state", ["", "x", "3", "3 4", "3 x y", "x 3 y", "-1 -1 z", "3 1e999 {socket}", "3 nan {socket}"]
)
def test_invalid_breaker_states_are_ignored(state: str, run: Run, peer: Peer, site: Site) -> None:
    os.environ[STATE] = state.replace("{socket}", str(peer.socket))
    peer.behave(set=600)
    assert run(postqueued(submission(), site=site)).soft_walltime == 600
