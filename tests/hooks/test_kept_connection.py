"""The connection that the hook leaves open for its next run."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from softwalltime.emulation.pbs.hook_runner import HookOutcome, HookScript, restart_interpreter
from softwalltime.emulation.pbs.pbs_events import Event, Site, postqueued, queued, started
from tests.hooks.alarm import alarm
from tests.hooks.conftest import HASTY, HOOK, HUNG, PATIENT, STATE
from tests.hooks.jobs import NOW, Run, submission
from tests.hooks.keeping import KeepingPeer, Reaction, answer, closes, hangs, says, sets
from tests.hooks.listening import full_backlog, listener
from tests.hooks.test_connection import sockets


@pytest.fixture
def keeping(tmp_path: Path) -> Iterator[KeepingPeer]:
    restart_interpreter()  # An earlier test may have left a connection.
    with KeepingPeer(tmp_path / "keeping.sock") as peer:
        yield peer


@pytest.fixture
def event(site: Site) -> Event:
    return postqueued(submission(), site=site)


@pytest.fixture
def ask(run: Run, keeping: KeepingPeer, event: Event) -> Callable[..., HookOutcome]:
    """Run the hook with this peer."""

    def ask(**changes: object) -> HookOutcome:
        return run(event, **{"socket": str(keeping.path), **changes})

    return ask


Ask = Callable[..., HookOutcome]


def test_all_runs_use_one_connection(ask: Ask, keeping: KeepingPeer) -> None:
    before = sockets()
    keeping.script = [sets(seconds) for seconds in range(601, 611)]
    assert [ask().soft_walltime for _ in range(10)] == list(range(601, 611))
    assert keeping.connections == [0] * 10
    assert all(request["keep"] is True for _, request in keeping.requests)
    # One of the hook, and its other end in this process.
    assert sockets() - before == 2


def test_events_without_a_request_leave_it_open(run: Run, ask: Ask, keeping: KeepingPeer, site: Site) -> None:
    ask()
    shrink_to_fit = submission(min_walltime=600)
    for event in (
        queued(shrink_to_fit, site=site, array_indices="1-3"),
        postqueued(shrink_to_fit, site=site),
        started(shrink_to_fit, site=site, now=NOW),
    ):
        run(event, socket=str(keeping.path))
    ask()
    assert keeping.connections == [0, 0]
    assert len(keeping.clients) == 1


def test_a_restarted_daemon_is_connected_to_again(ask: Ask, keeping: KeepingPeer) -> None:
    ask()
    keeping.restart()
    assert ask().soft_walltime == 600
    assert keeping.connections == [0, 1]
    assert STATE not in os.environ


def test_a_daemon_that_ended_is_no_timeout(ask: Ask, keeping: KeepingPeer) -> None:
    ask()
    keeping.stop()
    for _ in range(5):
        outcome = ask()
        assert outcome.soft_walltime is None
        assert f"no answer: {keeping.path}: " in outcome.log[-1][1]
    assert STATE not in os.environ
    keeping.start()
    assert ask().soft_walltime == 600


def test_a_connection_that_failed_leaves_no_descriptor(ask: Ask, keeping: KeepingPeer) -> None:
    before = sockets()
    ask()
    keeping.stop()
    for _ in range(3):
        ask()
    keeping.start()
    keeping.script = [hangs]
    assert "timed out" in ask(deadline_ms=HASTY).log[-1][1]
    assert keeping.ended[1].wait(PATIENT)
    assert sockets() - before == 0
    assert ask().soft_walltime == 600
    assert sockets() - before == 2, "the new one's two ends"


def test_a_connection_that_closes_at_the_request_is_replaced_once(ask: Ask, keeping: KeepingPeer) -> None:
    """The daemon may close it between the hook's look and its request."""
    ask()
    keeping.script = [closes]
    assert ask().soft_walltime == 600
    assert keeping.connections == [0, 0, 1]
    keeping.script = [closes, closes]
    outcome = ask()
    assert "connection closed without an answer" in outcome.log[-1][1]
    assert keeping.connections == [0, 0, 1, 1, 2]
    assert STATE not in os.environ


def test_a_daemon_that_closes_after_each_answer_is_asked_all_the_same(ask: Ask, keeping: KeepingPeer) -> None:
    before = sockets()
    keeping.script = [sets(600, keep=False) for _ in range(5)]
    for number in range(5):
        assert ask().soft_walltime == 600
        assert keeping.ended[number].wait(PATIENT)
    assert keeping.connections == [0, 1, 2, 3, 4]
    assert sockets() - before == 1, "the last one's"


def test_a_late_answer_is_never_the_answer_to_the_next_request(ask: Ask, keeping: KeepingPeer) -> None:
    ask()
    keeping.script = [hangs, sets(1200)]
    assert "no answer: timed out" in ask(deadline_ms=HASTY).log[-1][1]
    assert keeping.ended[0].wait(PATIENT), "the daemon sees that nobody waits for it"
    assert ask().soft_walltime == 1200
    assert keeping.connections == [0, 0, 1]


@pytest.mark.parametrize(
    "reaction",
    [
        says(answer(600) + answer(60)),
        says(answer(600) + b"x"),
        says(answer(600)[:-1], keep=False),
        says(b"x" * 70_000),
        says(answer(600)[:20], keep=False),
    ],
)
def test_a_connection_is_not_kept_after_an_answer_that_is_not_one_line(
    reaction: Reaction, ask: Ask, keeping: KeepingPeer
) -> None:
    keeping.script = [reaction]
    ask()
    assert keeping.ended[0].wait(PATIENT)
    assert ask().soft_walltime == 600
    assert keeping.connections == [0, 1]


def test_an_answer_without_a_request_is_not_read(ask: Ask, keeping: KeepingPeer) -> None:
    ask()
    keeping.clients[0].sendall(answer(60))
    assert ask().soft_walltime == 600
    assert keeping.connections == [0, 1]


def test_one_deadline_covers_both_connections(ask: Ask, keeping: KeepingPeer) -> None:
    ask()
    keeping.script = [closes, hangs]
    begin = time.monotonic()
    outcome = ask(deadline_ms=HASTY)
    assert HASTY / 1000 <= time.monotonic() - begin < HUNG
    assert "no answer: timed out" in outcome.log[-1][1]
    assert os.environ[STATE].startswith("1 ")


def test_a_suspended_daemon_opens_the_breaker(ask: Ask, keeping: KeepingPeer) -> None:
    ask()
    keeping.script = [hangs] * 3
    outcomes = [ask(deadline_ms=HASTY, breaker_seconds=3600).log[-1][1] for _ in range(5)]
    assert ["timed out" in outcome for outcome in outcomes] == [True, True, True, False, False]
    assert keeping.connections == [0, 0, 1, 2]


def test_a_full_backlog_after_a_restart_costs_no_time(ask: Ask, keeping: KeepingPeer, tmp_path: Path) -> None:
    ask()
    keeping.stop()
    with listener(tmp_path) as path, full_backlog(path):
        Path(path).rename(keeping.path)
        assert "temporarily unavailable" in ask().log[-1][1]


def test_another_socket_in_the_configuration_is_connected_to(
    ask: Ask, keeping: KeepingPeer, run: Run, event: Event, tmp_path: Path
) -> None:
    ask()
    with KeepingPeer(tmp_path / "other.sock") as other:
        other.script = [sets(1200)]
        assert run(event, socket=str(other.path)).soft_walltime == 1200
        assert keeping.ended[0].wait(PATIENT), "the old one is closed"


def test_a_new_version_of_the_hook_closes_the_connection_of_the_old(
    ask: Ask, keeping: KeepingPeer, event: Event, configured: Callable[..., Path], tmp_path: Path
) -> None:
    before = sockets()
    for number in range(3):
        ask()
        version = tmp_path / f"hook{number}.py"
        version.write_bytes(HOOK.read_bytes())
        file = configured(socket=str(keeping.path), deadline_ms=PATIENT)
        assert HookScript(version).run(event, file).soft_walltime == 600
        assert keeping.ended[2 * number].wait(PATIENT)
    assert sockets() - before <= 4


def test_children_do_not_inherit_it_by_exec(ask: Ask, keeping: KeepingPeer) -> None:
    ask()
    for link in Path("/proc/self/fd").iterdir():
        if str(link.readlink() if link.is_symlink() else "").startswith("socket:"):
            assert not os.get_inheritable(int(link.name))


def test_the_alarm_closes_it(
    ask: Ask, keeping: KeepingPeer, event: Event, script: HookScript, configured: Callable[..., Path]
) -> None:
    ask()
    keeping.script = [hangs]
    file = configured(socket=str(keeping.path), deadline_ms=PATIENT)
    with alarm(1):
        outcome = script.run(event, file)
    assert "KeyboardInterrupt" in outcome.log[-1][1]
    assert keeping.ended[0].wait(PATIENT)
    assert ask().soft_walltime == 600


def test_a_long_request_is_sent_whole(ask: Ask, run: Run, keeping: KeepingPeer, site: Site) -> None:
    ask()
    long = submission(select="1:ncpus=1+" * 6000)
    assert run(postqueued(long, site=site), socket=str(keeping.path)).soft_walltime == 600
    assert keeping.requests[-1][1]["job"]["select"] == long.select
    assert keeping.connections == [0, 0]
