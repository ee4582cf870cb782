"""No answer, and no lack of one, makes the hook fail, wait or set what is not safe."""

import base64
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softwalltime.emulation.pbs.events import Event, Site, altered, postqueued, queued, started
from softwalltime.emulation.pbs.hook import HookOutcome, HookScript
from tests.hooks.conftest import HASTY, HUNG, PATIENT, STATE
from tests.hooks.jobs import NOW, submission
from tests.hooks.peer import LINE, Peer

WALLTIME = 3600
MINIMUM = 60
PAUSE = 3600
"""Seconds for which nobody is asked, longer than any test takes."""

Run = Callable[..., HookOutcome]
many_examples = settings(max_examples=300)


def events(site: Site) -> list[Event]:
    """A job of an hour with a soft walltime of half an hour, at each event at which the daemon is asked."""
    job = submission(walltime=WALLTIME)
    return [
        queued(job, site=site, array_indices="1-3"),
        postqueued(job, site=site),
        altered(job, {"walltime": "01:00:00"}, site=site, now=NOW, soft_walltime=1800),
        started(job, site=site, now=NOW, soft_walltime=1800),
        started(job, site=site, now=NOW),
    ]


def assert_harmless(outcome: HookOutcome) -> None:
    assert not outcome.error
    assert outcome.accepted
    if "soft_walltime" in outcome.resources:
        value = outcome.resources["soft_walltime"]
        assert isinstance(value, int)
        assert MINIMUM <= value <= WALLTIME


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
almost_answers = st.fixed_dictionaries(
    {},
    optional={
        "v": st.just(1) | json_values,
        "action": st.sampled_from(["set", "none"]) | json_values,
        "soft_walltime": st.integers(-10, 2 * WALLTIME) | json_values,
        "basis": st.text() | json_values,
        "error": json_values,
    },
)
right_answers = st.builds(
    lambda seconds, basis: {"v": 1, "action": "set", "soft_walltime": seconds, "basis": basis},
    st.integers(-10, 2 * WALLTIME) | st.integers(),
    st.text(),
)


@many_examples
@given(answer=right_answers | almost_answers | json_values, index=st.integers(0, 4))
def test_any_json_is_harmless(
    answer: Any, index: int, peer_process: Peer, script: HookScript, quiet: Path, site: Site
) -> None:
    peer_process.behave(raw=json.dumps(answer) + "\n")
    assert_harmless(script.run(events(site)[index], quiet))


@many_examples
@given(answer=st.binary(max_size=200), index=st.integers(0, 4))
def test_any_bytes_are_harmless(
    answer: bytes, index: int, peer_process: Peer, script: HookScript, quiet: Path, site: Site
) -> None:
    peer_process.behave(base64=base64.b64encode(answer).decode())
    assert_harmless(script.run(events(site)[index], quiet))


@many_examples
@given(
    texts=st.lists(st.text(max_size=300), min_size=6, max_size=6),
    numbers=st.lists(st.integers(0, 2**62), min_size=6, max_size=6),
)
def test_any_job_is_asked_about(
    texts: list[str], numbers: list[int], peer_process: Peer, script: HookScript, quiet: Path, site: Site
) -> None:
    user, group, project, account, name, queue = texts
    submitted, walltime, ncpus, nodect, mem, ngpus = numbers
    job = submission(
        user=user, group=group, project=project, account=account, job_name=name, queue=queue, select=account,
        submitted=submitted, walltime=walltime, ncpus=ncpus, nodect=nodect, mem=mem, ngpus=ngpus,
    )  # fmt: skip
    peer_process.behave(none=True)
    outcome = script.run(postqueued(job, site=site), quiet)
    assert not outcome.error
    assert not any("no answer" in line for _, line in outcome.log)


@pytest.fixture
def quiet(peer_process: Peer, configured: Callable[..., Path]) -> Path:
    """A configuration for many runs: nobody is ever left out, and the deadline is no issue."""
    return configured(socket=str(peer_process.socket), deadline_ms=PATIENT, breaker_seconds=0)


NONSENSE = {
    "an empty line": "\n",
    "a number": "1800\n",
    "a list": "[1, 2]\n",
    "another version": '{"v": 2, "action": "set", "soft_walltime": 600, "basis": ""}\n',
    "true for a version": '{"v": true, "action": "set", "soft_walltime": 600, "basis": ""}\n',
    "no action": '{"v": 1, "soft_walltime": 600}\n',
    "another action": '{"v": 1, "action": "delete", "soft_walltime": 600}\n',
    "no seconds": '{"v": 1, "action": "set"}\n',
    "seconds as text": '{"v": 1, "action": "set", "soft_walltime": "600"}\n',
    "seconds as fraction": '{"v": 1, "action": "set", "soft_walltime": 600.5}\n',
    "true for seconds": '{"v": 1, "action": "set", "soft_walltime": true}\n',
    "not a number": '{"v": 1, "action": "set", "soft_walltime": NaN}\n',
    "infinity": '{"v": 1, "action": "set", "soft_walltime": Infinity}\n',
    "nothing": '{"v": 1, "action": "set", "soft_walltime": 0}\n',
    "less than nothing": '{"v": 1, "action": "set", "soft_walltime": -600}\n',
    "more than the walltime": '{"v": 1, "action": "set", "soft_walltime": 3601}\n',
    "much more": '{"v": 1, "action": "set", "soft_walltime": 1' + "0" * 60000 + "}\n",
    "an error": '{"v": 1, "error": "version 1 is not spoken here"}\n',
    "half a line": '{"v": 1, "action": "set", "soft_walltime": 600, "basis": ""}',
    "two objects": '{"v": 1, "action": "set", "soft_walltime": 600} {}\n',
    "not UTF-8": "\xff\xfe\n",
    "a deep nest": "[" * 50000 + "\n",
    "a long line": "x" * (3 * LINE) + "\n",
}


@pytest.mark.parametrize("nonsense", NONSENSE)
def test_nonsense_is_no_answer(nonsense: str, run: Run, peer: Peer, site: Site) -> None:
    peer.behave(base64=base64.b64encode(NONSENSE[nonsense].encode("latin-1")).decode())
    outcome = run(postqueued(submission(), site=site))
    assert outcome.soft_walltime is None
    assert "no answer: " in outcome.log[0][1]


def test_unknown_fields_of_an_answer_are_ignored(run: Run, peer: Peer, site: Site) -> None:
    peer.behave(raw='{"v": 1, "action": "set", "soft_walltime": 600, "basis": "b", "new": {"x": [1]}}\n{"more"')
    assert run(postqueued(submission(), site=site)).soft_walltime == 600


@pytest.mark.parametrize("letter", ["x", "é", "😀", '"', "\x01"])
def test_a_question_keeps_within_its_bounds_however_long_the_texts(
    letter: str, run: Run, peer: Peer, site: Site
) -> None:
    job = submission(select=f"1:ncpus=1:{letter * 100_000}", job_name=letter * 20_000, account=letter * 20_000)
    run(postqueued(job, site=site))
    (question,) = peer.asked()
    assert len(json.dumps(question)) + 1 < LINE
    assert question["job"]["select"].startswith("1:ncpus=1:")
    assert question["job"]["user"] == "alice"


# ---- Deadlines ------------------------------------------------------------------------------------------------------

DAWDLERS: dict[str, dict[str, Any]] = {
    "hangs": {"hang": True},
    "is late": {"late": 3 * HUNG, "set": 600},
    "trickles": {"trickle": 0.01, "set": 600},
    "floods": {"flood": True},
}


@pytest.mark.parametrize("dawdler", DAWDLERS)
def test_the_whole_run_keeps_its_deadline(dawdler: str, run: Run, peer: Peer, site: Site) -> None:
    peer.behave(**DAWDLERS[dawdler])
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
    assert "no answer in time" in outcome.log[0][1]


def test_a_full_queue_of_connections_costs_nothing(run: Run, tmp_path: Path, site: Site) -> None:
    with listener(tmp_path) as path, full(path):
        outcome = run(postqueued(submission(), site=site), socket=path)
    # Who waits for a place in it has no answer in time.
    assert "accepts no connection" in outcome.log[0][1]


@pytest.mark.parametrize("kind", ["missing", "stale", "a file", "a folder", "too long"])
def test_a_daemon_that_does_not_run_costs_nothing(kind: str, run: Run, tmp_path: Path, site: Site) -> None:
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
    outcome = run(postqueued(submission(), site=site), socket=str(path))
    assert "no answer: the daemon " in outcome.log[0][1]
    assert STATE not in os.environ


@contextmanager
def listener(folder: Path) -> Iterator[str]:
    """A socket that listens, and accepts nothing."""
    path = str(folder / "hook.sock")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen(1)
        yield path


@contextmanager
def full(path: str) -> Iterator[None]:
    """Connections until there is no room for another."""
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


# ---- Asking nobody for a while --------------------------------------------------------------------------------------


def how(outcome: HookOutcome) -> str:
    """What the log says of the answer, in a word."""
    words = {"no answer in time": "late", "no request for": "unasked", " set ": "set"}
    return next((word for text, word in words.items() if text in outcome.log[-1][1]), "other")


def let_pass(seconds: float) -> None:
    """As if so much time had passed since the last time-out, which is the second word of what is remembered."""
    count, when, peer = os.environ[STATE].split(" ", 2)
    os.environ[STATE] = f"{count} {float(when) - seconds} {peer}"


def test_after_three_time_outs_in_a_row_nobody_is_asked(run: Run, peer: Peer, site: Site) -> None:
    event = postqueued(submission(), site=site)
    peer.behave(hang=True)
    told = [how(run(event, deadline_ms=HASTY, breaker_seconds=PAUSE)) for _ in range(6)]
    assert told == ["late", "late", "late", "unasked", "unasked", "unasked"]
    assert len(peer.asked()) <= 3


def test_after_the_pause_one_time_out_is_enough_for_the_next_pause(run: Run, peer: Peer, site: Site) -> None:
    event = postqueued(submission(), site=site)
    peer.behave(hang=True)
    told = [how(run(event, deadline_ms=HASTY, breaker_seconds=PAUSE)) for _ in range(4)]
    let_pass(PAUSE)
    told += [how(run(event, deadline_ms=HASTY, breaker_seconds=PAUSE)) for _ in range(3)]
    assert told == ["late", "late", "late", "unasked", "late", "unasked", "unasked"]


def test_after_the_pause_a_daemon_that_answers_is_asked_again(run: Run, peer: Peer, site: Site) -> None:
    event = postqueued(submission(), site=site)
    peer.behave(hang=True)
    for _ in range(3):
        run(event, deadline_ms=HASTY, breaker_seconds=PAUSE)
    peer.behave(set=600)
    assert run(event, breaker_seconds=PAUSE).soft_walltime is None
    let_pass(PAUSE)
    for _ in range(5):
        assert run(event, breaker_seconds=PAUSE).soft_walltime == 600
    assert STATE not in os.environ


@pytest.mark.parametrize("between", [{"none": True}, {"raw": "nonsense\n"}, {"close": True}])
def test_time_outs_that_are_not_in_a_row_do_not_count(
    between: dict[str, Any], run: Run, peer: Peer, site: Site
) -> None:
    event = postqueued(submission(), site=site)
    for _ in range(2):
        for behaviour, deadline in (({"hang": True}, HASTY), ({"hang": True}, HASTY), (between, PATIENT)):
            peer.behave(**behaviour)
            run(event, deadline_ms=deadline)
    peer.behave(set=600)
    assert run(event).soft_walltime == 600


def test_another_daemon_is_another_matter(run: Run, peer: Peer, site: Site, tmp_path: Path) -> None:
    event = postqueued(submission(), site=site)
    with listener(tmp_path) as path:
        for _ in range(3):
            run(event, socket=path, deadline_ms=HASTY)
    peer.behave(set=600)
    assert run(event).soft_walltime == 600


# ---- Slow answers ---------------------------------------------------------------------------------------------------

SLOW = {"late": 0.2, "set": 600}
BUDGET = {"breaker_requests": 4, "breaker_budget_ms": 500, "breaker_seconds": PAUSE}
"""The third answer of 200 ms exceeds it; four at once, as fast as any machine gives them, do not."""


def test_slow_answers_open_the_breaker_too(run: Run, peer: Peer, site: Site) -> None:
    event = postqueued(submission(), site=site)
    peer.behave(**SLOW)
    outcomes = [run(event, **BUDGET) for _ in range(5)]
    assert [how(outcome) for outcome in outcomes] == ["set", "set", "set", "unasked", "unasked"]
    assert "after slow answers" in outcomes[-1].log[-1][1]
    assert len(peer.asked()) == 3


def test_after_the_pause_one_slow_answer_is_enough_for_the_next_pause(run: Run, peer: Peer, site: Site) -> None:
    event = postqueued(submission(), site=site)
    peer.behave(**SLOW)
    told = [how(run(event, **BUDGET)) for _ in range(4)]
    let_pass(PAUSE)
    told += [how(run(event, **BUDGET)) for _ in range(2)]
    assert told == ["set", "set", "set", "unasked", "set", "unasked"]


def test_after_the_pause_a_fast_answer_closes_the_breaker(run: Run, peer: Peer, site: Site) -> None:
    event = postqueued(submission(), site=site)
    peer.behave(**SLOW)
    for _ in range(3):
        run(event, **BUDGET)
    peer.behave(set=600)
    let_pass(PAUSE)
    assert [how(run(event, **{**BUDGET, "breaker_budget_ms": PATIENT})) for _ in range(5)] == ["set"] * 5
    assert STATE not in os.environ


def test_a_slow_answer_now_and_then_is_within_the_budget(run: Run, peer: Peer, site: Site) -> None:
    event = postqueued(submission(), site=site)
    budget = {**BUDGET, "breaker_requests": 2, "breaker_budget_ms": 20 * PATIENT}
    peer.behave(**SLOW)
    assert [how(run(event, **budget)) for _ in range(5)] == ["set"] * 5


def test_by_default_the_budget_is_half_of_the_deadlines(run: Run, peer: Peer, site: Site) -> None:
    event = postqueued(submission(), site=site)
    peer.behave(**SLOW)
    assert [how(run(event, breaker_requests=2, deadline_ms=PATIENT)) for _ in range(4)] == ["set"] * 4
    assert how(run(event, breaker_requests=2, deadline_ms=390)) in ("set", "late")
    assert how(run(event, breaker_requests=2, deadline_ms=390)) == "unasked"


def test_the_daemon_is_not_told_of_timeouts_where_answers_were_slow(run: Run, peer: Peer, site: Site) -> None:
    event = postqueued(submission(), site=site)
    peer.behave(**SLOW)
    for _ in range(3):
        run(event, **BUDGET)
    let_pass(PAUSE)
    run(event, **BUDGET)
    assert [question["timeouts"] for question in peer.asked()] == [0, 0, 0, 0]


@pytest.mark.parametrize(
    "state", ["", "x", "3", "3 4", "3 x y", "x 3 y", "-1 -1 z", "3 1e999 {socket}", "3 nan {socket}"]
)
def test_what_else_stands_in_the_environment_does_no_harm(state: str, run: Run, peer: Peer, site: Site) -> None:
    os.environ[STATE] = state.replace("{socket}", str(peer.socket))
    peer.behave(set=600)
    assert run(postqueued(submission(), site=site)).soft_walltime == 600


# ---- The alarm ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", range(5))
def test_pbs_own_alarm_does_not_reject_the_request(
    index: int, script: HookScript, peer: Peer, configured: Callable[..., Path], site: Site
) -> None:
    """It would, if the hook let the KeyboardInterrupt through."""
    peer.behave(hang=True)
    event = replace(events(site)[index], alarm=1)
    outcome = script.run(event, configured(socket=str(peer.socket), deadline_ms=PATIENT), alarm=True)
    assert outcome.accepted
    assert not outcome.error
    assert "KeyboardInterrupt" in outcome.log[-1][1]
