"""No answer, valid or not, makes the hook fail or set an invalid value."""

import base64
import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softwalltime.emulation.pbs.hook_runner import HookScript
from softwalltime.emulation.pbs.pbs_events import Site, postqueued
from tests.hooks.conftest import HUNG, PATIENT
from tests.hooks.jobs import WALLTIME, Run, assert_harmless, events, submission
from tests.hooks.peer import LINE, Peer

many_examples = settings(max_examples=300)


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
valid_answers = st.builds(
    lambda seconds, basis: {"v": 1, "action": "set", "soft_walltime": seconds, "basis": basis},
    st.integers(-10, 2 * WALLTIME) | st.integers(),
    st.text(),
)


@many_examples
@given(answer=valid_answers | almost_answers | json_values, index=st.integers(0, 4))
def test_any_json_answer_is_harmless(
    answer: Any, index: int, peer_process: Peer, script: HookScript, quiet: Path, site: Site
) -> None:
    peer_process.behave(raw=json.dumps(answer) + "\n")
    assert_harmless(script.run(events(site)[index], quiet))


@many_examples
@given(answer=st.binary(max_size=200), index=st.integers(0, 4))
def test_any_bytes_as_an_answer_are_harmless(
    answer: bytes, index: int, peer_process: Peer, script: HookScript, quiet: Path, site: Site
) -> None:
    peer_process.behave(base64=base64.b64encode(answer).decode())
    assert_harmless(script.run(events(site)[index], quiet))


@many_examples
@given(
    texts=st.lists(st.text(max_size=300), min_size=6, max_size=6),
    numbers=st.lists(st.integers(0, 2**62), min_size=6, max_size=6),
)
def test_a_request_can_be_made_for_any_job(
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
    """A configuration for many runs: the breaker never opens, and the deadline is long."""
    return configured(socket=str(peer_process.socket), deadline_ms=PATIENT, breaker_seconds=0)


INVALID = {
    "an empty line": "\n",
    "a number": "1800\n",
    "a list": "[1, 2]\n",
    "another version": '{"v": 2, "action": "set", "soft_walltime": 600, "basis": ""}\n',
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
    "an error": '{"v": 1, "error": "unsupported version"}\n',
    "half a line": '{"v": 1, "action": "set", "soft_walltime": 600, "basis": ""}',
    "two objects": '{"v": 1, "action": "set", "soft_walltime": 600} {}\n',
    "not UTF-8": "\xff\xfe\n",
    "a deep nest": "[" * 50000 + "\n",
    "a long line": "x" * (3 * LINE) + "\n",
}


REASONS = {
    "an error": "the daemon reports: unsupported version",
    "a long line": "invalid answer: the line is too long",
    "more than the walltime": "invalid answer: neither none nor seconds from 1 to 3600",
    "another version": "invalid answer: not of protocol version 1",
    "another action": "invalid answer: neither none nor seconds from 1 to 3600",
    "two objects": "invalid answer: not JSON",
    "not UTF-8": "invalid answer: not JSON",
}


@pytest.mark.parametrize("kind", INVALID)
def test_an_invalid_answer_sets_nothing(kind: str, run: Run, peer: Peer, site: Site) -> None:
    peer.behave(base64=base64.b64encode(INVALID[kind].encode("latin-1")).decode())
    outcome = run(postqueued(submission(), site=site))
    assert outcome.soft_walltime is None
    assert "no answer: " + REASONS.get(kind, "") in outcome.log[0][1]


def test_an_answer_has_at_most_65536_bytes_with_its_newline(hook: ModuleType) -> None:
    connection = hook.Connection.__new__(hook.Connection)
    connection.peer, other = socket.socketpair()
    connection.idle = True
    with connection.peer, other:
        other.sendall(b"x" * (LINE - 1) + b"\n")
        assert len(connection.exchange(b"", time.monotonic() + HUNG)) == LINE - 1
        assert connection.idle
        other.sendall(b"x" * LINE)
        with pytest.raises(hook.NoAnswerError, match="the line is too long"):
            connection.exchange(b"", time.monotonic() + HUNG)
        assert not connection.idle


def test_unknown_fields_of_an_answer_are_ignored(run: Run, peer: Peer, site: Site) -> None:
    peer.behave(raw='{"v": 1, "action": "set", "soft_walltime": 600, "basis": "b", "new": {"x": [1]}}\n{"more"')
    assert run(postqueued(submission(), site=site)).soft_walltime == 600


def test_an_answer_may_come_in_parts(run: Run, peer: Peer, site: Site) -> None:
    basis = " ".join(map(str, range(10_000)))
    peer.behave(raw=json.dumps({"v": 1, "action": "set", "soft_walltime": 600, "basis": basis}) + "\n")
    outcome = run(postqueued(submission(), site=site))
    assert outcome.soft_walltime == 600
    assert ": 0 1 2 3 4 5" in outcome.log[0][1]


def test_a_request_that_exceeds_the_socket_s_buffer_is_sent_in_parts(hook: ModuleType, peer: Peer) -> None:
    peer.behave(set=600)
    deadline = time.monotonic() + HUNG
    connection = hook.Connection(str(peer.socket))
    connection.peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    line = json.dumps({"event": "queuejob", "job": {"select": "x" * (LINE - 100)}}).encode() + b"\n"
    received = connection.exchange(line, deadline)
    connection.peer.close()
    assert json.loads(received)["soft_walltime"] == 600
    assert peer.asked() == [json.loads(line)]


@pytest.mark.parametrize("letter", ["x", "é", "😀"])
def test_if_all_texts_are_long_each_is_cut(letter: str, hook: ModuleType) -> None:
    names = ("user", "group", "project", "account", "job_name", "queue", "workdir")
    long = ("select", "place", "submit_arguments", "executable", "argument_list")
    job = dict.fromkeys(names, letter * 600) | dict.fromkeys(long, letter * 100_000) | {"ncpus": None}
    line = hook.encode({"event": "queuejob", "now": 1, "job": job, "timeouts": 0, "previous_us": None})
    assert len(line) <= LINE
    texts = json.loads(line)["job"]
    assert {len(texts[name]) for name in (*names, *long)} == {256}


@pytest.mark.parametrize(("excess", "length"), [(0, LINE), (1, None)])
def test_texts_are_cut_only_if_the_line_is_too_long(excess: int, length: int | None, hook: ModuleType) -> None:
    empty = hook.encode({"job": {"select": ""}})
    line = hook.encode({"job": {"select": "x" * (LINE - len(empty) + excess)}})
    assert len(line) == (length or len(empty) + 256)


@pytest.mark.parametrize("letter", ["x", "é", "😀", '"', "\x01"])
def test_long_texts_are_truncated_to_the_maximum_length_of_a_request(
    letter: str, run: Run, peer: Peer, site: Site
) -> None:
    job = submission(select=f"1:ncpus=1:{letter * 100_000}", job_name=letter * 20_000, account=letter * 20_000)
    run(postqueued(job, site=site))
    (request,) = peer.asked()
    assert len(json.dumps(request)) + 1 < LINE
    assert request["job"]["select"].startswith("1:ncpus=1:")
    assert request["job"]["user"] == "alice"
