"""Soft walltimes set by managers are kept, and raised to the minimum."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from softwalltime.emulation.pbs.hook_runner import HookOutcome, HookScript, restart_interpreter
from softwalltime.emulation.pbs.pbs_events import Event, Site, altered, postqueued, queued, started
from tests.hooks.conftest import PATIENT
from tests.hooks.jobs import NOBODY, NOW, submission
from tests.hooks.peer import Peer

MAX_VALUES = 4
"""Values of one job that the hook remembers."""
Server = Callable[[Event], HookOutcome]
"""Runs the hook for an event, each time with the same configuration file."""


@pytest.fixture
def configuration(configured: Callable[..., Path], peer: Peer) -> Path:
    return configured(socket=str(peer.socket), deadline_ms=PATIENT)


@pytest.fixture
def server(script: HookScript, configuration: Path) -> Server:
    def run(event: Event) -> HookOutcome:
        outcome = script.run(event, configuration)
        assert not outcome.error, outcome.error
        assert outcome.hook_accepted
        assert not any("accepted unchanged" in line for _, line in outcome.log), outcome.log
        return outcome

    return run


def alter(
    site: Site, requestor: str = "root", state: str = "Q", soft: int | None = 1800, job_id: str = "7.pbs1",
    own: dict[str, str] | None = None, **resources: str,
) -> Event:  # fmt: skip
    """The alter of a job of an hour."""
    job = submission(job_id=job_id)
    return altered(
        job, resources, site=site, now=NOW, soft_walltime=soft, state=state, requestor=requestor, own=own or {}
    )


def test_a_manager_who_submits_leaves_what_managers_set_on_other_jobs(server: Server, peer: Peer, site: Site) -> None:
    """The new job has no id yet: a line without one would make the file unreadable."""
    job = submission()
    new = queued(replace(job, user="root"), site=site, array_indices="1-3")
    resources = {"walltime": "3600", "soft_walltime": "600"}
    server(replace(new, job={**new.job, "Resource_List": resources}, requestor="root"))
    server(alter(site, soft_walltime="900"))
    restart_interpreter()
    peer.behave(set=1200)
    assert server(start(site, 900)).soft_walltime == 900


def start(site: Site, soft: int, job_id: str = "7.pbs1") -> Event:
    return started(submission(job_id=job_id), site=site, now=NOW, soft_walltime=soft)


@pytest.mark.parametrize("state", ["Q", "R"])
@pytest.mark.parametrize("given", ["0", "1", "00:00:59"])
def test_a_soft_walltime_of_0_or_below_the_minimum_is_raised_to_it_whoever_asks(
    given: str, state: str, server: Server, peer: Peer, site: Site
) -> None:
    """A manager's ``qalter -l soft_walltime=0`` on a running job would kill the scheduler."""
    managers = frozenset({"root", "softwalltime-live"})
    site = replace(site, server={**site.server, "managers": "softwalltime-live@*"}, managers=managers)
    for requestor in ("root", "softwalltime-live"):
        outcome = server(alter(site, requestor, state, soft_walltime=given))
        assert (outcome.accepted, outcome.soft_walltime) == (True, 60)
        assert "a soft walltime of 0 would kill the scheduler" in outcome.log[0][1]
    refused = server(alter(site, "alice", state, soft_walltime=given))
    assert not refused.accepted, "with the hook's own right a user would get the minimum"
    outcome = server(alter(site, soft=None, soft_walltime=given, walltime="00:00:30"))
    assert (outcome.accepted, outcome.soft_walltime) == (True, None), "the walltime leaves no valid one"
    short = replace(
        alter(site, soft_walltime=given), original={"job_state": state, "Resource_List": {"walltime": "30"}}
    )
    assert (server(short).accepted, server(short).soft_walltime) == (True, None)
    outcome = server(alter(site, soft_walltime="00:01:00"))
    assert outcome.soft_walltime == 60
    assert "the request gives a soft walltime" in outcome.log[0][1]
    assert peer.asked() == []


def test_a_soft_walltime_below_the_minimum_is_removed_where_none_is_known_to_be_valid(
    server: Server, site: Site
) -> None:
    event = alter(site, soft=None, soft_walltime="0")
    nowhere = replace(event, shows_original=False, site=replace(event.site, jobs={}))
    shrink_to_fit = altered(submission(min_walltime=600), {"soft_walltime": "0"}, site=site, now=NOW, requestor="root")
    for event in (nowhere, shrink_to_fit):
        outcome = server(event)
        assert (outcome.accepted, outcome.soft_walltime) == (True, None)


@pytest.mark.parametrize(
    ("managers", "host", "expected"),
    [
        ("", "pbs1", False),
        ("carol", "pbs1", True),
        ("carol@*", "pbs1", True),
        ("carol@pbs1", "pbs1", True),
        ("dave@*, carol@pbs1.example.org", "pbs1", True),
        ("carol@pbs1", "pbs1.example.org", True),
        ("carol@pbs2", "pbs1", False),
        ("carol@xbs1", "pbs1", False),
        ("carol@pbs10", "pbs1", False),
        ("carol@*.example.org", "login.example.org", True),
        ("carol@*.example.org", "loginxexample.org", False),
        ("dave@*", "pbs1", False),
    ],
)
def test_a_manager_is_a_user_in_the_servers_list_at_his_host(
    managers: str, host: str, expected: bool, hook: ModuleType
) -> None:
    pbs = SimpleNamespace(server=lambda: SimpleNamespace(managers=managers))
    assert hook.is_manager(pbs, SimpleNamespace(requestor="carol", requestor_host=host)) is expected
    assert hook.is_manager(pbs, SimpleNamespace(requestor="root", requestor_host=host))


@pytest.mark.parametrize("answer", [{"share": 1}, NOBODY], ids=["answered", "unanswered"])
def test_a_managers_soft_walltime_is_kept_at_the_start(
    answer: dict[str, Any], server: Server, peer: Peer, site: Site
) -> None:
    peer.behave(**answer)
    assert server(start(site, 1800)).soft_walltime == 3600, "no manager set it"
    server(alter(site, soft_walltime="00:40:00"))
    asked = len(peer.asked())
    outcome = server(start(site, 2400))
    assert (outcome.soft_walltime, outcome.resources) == (2400, {})
    assert "left at 2400: a manager set this soft walltime" in outcome.log[0][1]
    assert len(peer.asked()) == asked
    assert server(start(site, 2400, "8.pbs1")).soft_walltime == 3600, "another job"
    assert server(start(site, 1800)).soft_walltime == 3600, "another value is not the manager's"


def test_the_file_survives_the_interpreter_and_only_root_can_read_it(
    server: Server, configuration: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    server(alter(site, soft_walltime="00:40:00"))
    server(alter(site, job_id="9.pbs1", soft_walltime="00:50:00"))
    kept = configuration.with_suffix(".kept")
    assert kept.read_text() == "7.pbs1 2400\n9.pbs1 3000\n"
    assert kept.stat().st_mode & 0o777 == 0o600
    restart_interpreter()
    assert server(start(site, 2400)).soft_walltime == 2400
    restart_interpreter()
    kept.write_text("half a line\n7.pbs1\n")
    assert server(start(site, 2400)).accepted


def test_the_file_is_bounded_by_jobs_not_by_alters(server: Server, configuration: Path, site: Site) -> None:
    """A manager's script that alters a few jobs every minute must not make each restart of the interpreter slow."""
    kept = configuration.with_suffix(".kept")
    for seconds in range(600, 640):
        for number in (7, 8):
            server(alter(site, job_id=f"{number}.pbs1", soft_walltime=str(seconds)))
    newest = " ".join(map(str, range(640 - MAX_VALUES, 640)))
    expected = [f"{number}.pbs1 {newest}" for number in (7, 8)]
    assert kept.read_text().splitlines() == expected
    restart_interpreter()
    assert server(start(site, 639)).soft_walltime == 639
    server(alter(site, soft_walltime="639"))
    assert sorted(kept.read_text().splitlines()) == sorted(expected)


def test_a_users_raise_of_the_walltime_ends_a_managers_soft_walltime(server: Server, peer: Peer, site: Site) -> None:
    peer.behave(**NOBODY)
    server(alter(site, soft_walltime="00:10:00"))
    assert server(alter(site, "root", soft=600, walltime="02:00:00")).soft_walltime == 600
    assert server(alter(site, "alice", soft=600, walltime="00:30:00")).soft_walltime == 600
    assert server(alter(site, "alice", soft=600, walltime="01:00:00")).soft_walltime == 600
    assert server(alter(site, "alice", soft=600, walltime="02:00:00")).soft_walltime == 7200


def test_subjobs_keep_the_soft_walltime_set_on_their_array(server: Server, peer: Peer, site: Site) -> None:
    peer.behave(share=1)
    server(alter(site, job_id="5[].pbs1", soft_walltime="00:40:00"))
    assert server(start(site, 2400, "5[3].pbs1")).soft_walltime == 2400
    assert server(start(site, 2400, "6[3].pbs1")).soft_walltime == 3600


def test_a_managers_soft_walltime_is_lowered_with_the_walltime(server: Server, peer: Peer, site: Site) -> None:
    peer.behave(share=1)
    server(alter(site, soft_walltime="00:40:00"))
    assert server(alter(site, "alice", soft=2400, walltime="00:50:00")).soft_walltime == 2400
    assert server(alter(site, "alice", soft=2400, walltime="00:30:00")).soft_walltime == 1800
    assert server(start(site, 1800)).soft_walltime == 1800
    assert server(postqueued(submission(walltime=1200), site=site, soft_walltime=1800)).soft_walltime == 1200, "moved"
    assert peer.asked() == []


def test_unsetting_a_managers_soft_walltime_returns_the_job_to_the_hook(server: Server, peer: Peer, site: Site) -> None:
    peer.behave(share=1)
    server(alter(site, soft_walltime="00:40:00"))
    outcome = server(alter(site, soft=2400, soft_walltime=""))
    assert (outcome.accepted, outcome.soft_walltime) == (True, None)
    assert server(start(site, 2400)).soft_walltime == 3600


def test_a_refused_request_of_a_user_is_not_remembered(server: Server, peer: Peer, site: Site) -> None:
    """Or users could keep the bold value for waiting jobs once their jobs run."""
    peer.behave(share=1)
    managed = replace(site, server={**site.server, "managers": "carol@*,dave@pbs1,erin@other.example.org"})
    for user in ("alice", "erin"):
        outcome = server(alter(managed, user, soft_walltime="00:30:00"))
        assert not outcome.accepted
        assert server(start(managed, 1800)).soft_walltime == 3600
    for job_id, user in (("21.pbs1", "carol"), ("22.pbs1", "dave")):
        server(alter(managed, user, job_id=job_id, soft_walltime="00:30:00"))
        assert server(start(managed, 1800, job_id)).soft_walltime == 1800


def test_the_daemons_own_alters_are_no_managers_and_never_replace_one(server: Server, peer: Peer, site: Site) -> None:
    peer.behave(share=1)
    site = replace(site, managers=frozenset({"root", "softwalltime-live"}), server={"managers": "softwalltime-live@*"})
    assert server(alter(site, "softwalltime-live", soft_walltime="00:20:00")).soft_walltime == 1200
    assert server(start(site, 1200)).soft_walltime == 3600
    server(alter(site, soft_walltime="00:40:00"))
    outcome = server(alter(site, "softwalltime-live", soft=2400, soft_walltime="00:20:00"))
    assert (outcome.accepted, outcome.soft_walltime) == (True, 2400)
    assert server(start(site, 2400)).soft_walltime == 2400


def test_only_the_newest_thousand_jobs_are_remembered(
    server: Server, script: HookScript, configuration: Path, site: Site
) -> None:
    kept = configuration.with_suffix(".kept")
    kept.write_text("".join(f"{number}.pbs1 100\n" for number in range(100, 1099)))
    server(alter(site, soft_walltime="00:40:00"))
    assert len(kept.read_text().splitlines()) == 1000
    server(alter(site, soft_walltime="00:40:00", job_id="8.pbs1"))
    lines = kept.read_text().splitlines()
    assert (len(lines), lines[0], lines[-1]) == (1000, "101.pbs1 100", "8.pbs1 2400")


def test_without_a_configuration_file_nothing_is_stored(script: HookScript, site: Site) -> None:
    outcome = script.run(alter(site, soft_walltime="00:40:00"))
    assert (outcome.accepted, outcome.soft_walltime) == (True, 2400)
    assert ["left at 2400: the request gives" in line for _, line in outcome.log] == [True]


def test_an_alter_passes_with_a_warning_if_the_file_cannot_be_written(
    server: Server, configuration: Path, site: Site
) -> None:
    configuration.with_suffix(".kept").mkdir()
    outcome = server(alter(site, soft_walltime="00:40:00"))
    assert (outcome.accepted, outcome.soft_walltime) == (True, 2400)
    assert any("cannot store the soft walltime set by a manager: " in line for _, line in outcome.log)


@pytest.mark.parametrize(
    ("place", "answer", "expected"),
    [
        ("excl", NOBODY, 3600),
        ("excl", {"set": 600}, 600),
        ("scatter:excl", {"none": True}, 3600),
        ("pack:excl", NOBODY, 3600),
        ("free", {"set": 600}, 600),
        ("free", NOBODY, 3600),
    ],
)
def test_an_alter_of_the_placement_raises_a_short_soft_walltime(
    place: str, answer: dict[str, Any], expected: int, server: Server, peer: Peer, site: Site
) -> None:
    """The scheduler would start the job into a confirmed reservation; only the daemon knows a site without any."""
    peer.behave(**answer)
    assert server(alter(site, "alice", place=place)).soft_walltime == expected
