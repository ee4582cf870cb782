"""The hook at alters of jobs (modifyjob)."""

from dataclasses import replace
from typing import Any

import pytest

from softwalltime.emulation.pbs.pbs_events import Event, Site, altered
from tests.hooks.jobs import NO_LIMIT, NOBODY, NOW, Run, submission
from tests.hooks.peer import Peer


def alter(
    site: Site,
    resources: dict[str, str],
    soft: int | None = 1800,
    state: str = "Q",
    requestor: str = "",
    **changes: Any,
) -> Event:
    """Return the event of an alter of a job with a walltime of one hour."""
    job = submission(**changes)
    return altered(job, resources, site=site, now=NOW, soft_walltime=soft, state=state, requestor=requestor)


@pytest.mark.parametrize(
    ("walltime", "answer", "expected"),
    [
        pytest.param("02:00:00", {"share": 0.5}, 3600, id="raised, predicted anew"),
        pytest.param("00:20:00", {"share": 0.5}, 600, id="lowered, predicted anew"),
        pytest.param("02:00:00", {"none": True}, 7200, id="raised, nothing known: to the walltime"),
        pytest.param("02:00:00", NOBODY, 7200, id="raised, no answer: to the walltime"),
        pytest.param("00:40:00", NOBODY, 2400, id="lowered, no answer: to the walltime"),
        pytest.param("1000000000001", NOBODY, NO_LIMIT, id="beyond every limit: five years"),
        pytest.param(
            "1000000000001", {"share": 0.5}, NO_LIMIT // 2, id="beyond every limit, predicted from five years"
        ),
        pytest.param("00:20:00", {"none": True}, 1200, id="lowered below it: to the walltime"),
        pytest.param("00:20:00", NOBODY, 1200, id="lowered below it, no answer: to the walltime"),
        pytest.param("00:00:30", NOBODY, None, id="lowered below the minimum: removed"),
        pytest.param("0", NOBODY, None, id="lowered to nothing: removed"),
    ],
)
def test_an_altered_walltime_updates_the_soft_walltime(
    walltime: str, answer: dict[str, Any], expected: int | None, run: Run, peer: Peer, site: Site
) -> None:
    peer.behave(**answer)
    outcome = run(alter(site, {"walltime": walltime}))
    assert outcome.accepted, outcome.message
    assert outcome.soft_walltime == expected


@pytest.mark.parametrize("queue", ["short", "nodefault"])
def test_unsetting_the_walltime_leaves_a_valid_soft_walltime(queue: str, run: Run, peer: Peer, site: Site) -> None:
    """After ``qalter -l walltime=`` the job has its queue's default, which may be less than the soft walltime."""
    peer.behave(**NOBODY)
    outcome = run(alter(site, {"walltime": ""}, soft=3000, queue=queue))
    assert outcome.accepted
    assert outcome.soft_walltime == {"short": 1800, "nodefault": None}[queue]


@pytest.mark.parametrize(
    "resources", [{"soft_walltime": "00:08:00"}, {"walltime": "00:10:00", "soft_walltime": "00:08:00"}]
)
def test_a_managers_soft_walltime_is_not_changed(resources: dict[str, str], run: Run, peer: Peer, site: Site) -> None:
    peer.behave(set=100)
    outcome = run(alter(site, resources, requestor="root"))
    assert outcome.accepted
    assert outcome.soft_walltime == 480
    assert peer.asked() == []


@pytest.mark.parametrize(
    "job",
    [
        {"Priority": "100"},
        {"Mail_Points": "abe"},
        {"Resource_List": {"software": "x"}},
        {"Resource_List": {}},
    ],
)
def test_an_alter_of_what_no_prediction_rests_on_is_ignored(
    job: dict[str, Any], run: Run, peer: Peer, site: Site
) -> None:
    peer.behave(set=100)
    outcome = run(replace(alter(site, {}), job=job))
    assert outcome.soft_walltime == 1800
    assert outcome.resources == {}
    assert outcome.log == []
    assert peer.asked() == []


@pytest.mark.parametrize(
    "job",
    [
        {"project": "other"},
        {"Job_Name": "other"},
        {"Account_Name": "other"},
        {"Resource_List": {"ncpus": "4"}},
        {"Resource_List": {"select": "2:ncpus=4"}},
        {"Resource_List": {"min_walltime": ""}},
    ],
)
def test_an_alter_of_what_a_prediction_rests_on_is_predicted_anew(
    job: dict[str, Any], run: Run, peer: Peer, site: Site
) -> None:
    event = replace(alter(site, {}), job=job)
    peer.behave(set=100)
    assert run(event).soft_walltime == 100
    peer.behave(none=True)
    assert run(event).soft_walltime == 3600, "none: the daemon knows nothing about such a job"
    peer.behave(**NOBODY)
    assert run(event).soft_walltime == 3600


def test_a_job_that_pbs_does_not_show_is_read_from_the_server(run: Run, peer: Peer, site: Site) -> None:
    """PBS builds no job_o where a text of the request is not UTF-8, and carries the request out."""
    peer.behave(**NOBODY)
    hidden = replace(alter(site, {"walltime": "24:00:00"}), shows_original=False)
    assert run(hidden).soft_walltime == 86400


def test_a_job_that_pbs_shows_nowhere_loses_its_soft_walltime(run: Run, peer: Peer, site: Site) -> None:
    peer.behave(set=100)
    event = alter(site, {"walltime": "24:00:00"})
    event = replace(event, shows_original=False, site=replace(event.site, jobs={}))
    outcome = run(event)
    assert outcome.accepted
    assert dict(outcome.resources) == {"soft_walltime": ""}
    assert "PBS does not show the job" in outcome.log[0][1]


def test_a_job_that_is_shrink_to_fit_no_more_is_predicted_again(run: Run, peer: Peer, site: Site) -> None:
    peer.behave(set=100)
    event = alter(site, {"min_walltime": ""}, soft=None, min_walltime=600)
    assert run(event).soft_walltime == 100


def test_a_job_that_becomes_shrink_to_fit_loses_its_soft_walltime(run: Run, peer: Peer, site: Site) -> None:
    """PBS would refuse the user's alter otherwise."""
    peer.behave(**NOBODY)
    outcome = run(alter(site, {"min_walltime": "00:10:00"}))
    assert outcome.accepted, outcome.message
    assert outcome.soft_walltime is None


def test_an_altered_shrink_to_fit_job_gets_no_soft_walltime(run: Run, peer: Peer, site: Site) -> None:
    peer.behave(set=100)
    outcome = run(alter(site, {"walltime": "00:50:00"}, soft=None, min_walltime=600))
    assert outcome.soft_walltime is None
    assert peer.asked() == []


def test_an_altered_job_without_soft_walltime_may_get_one(run: Run, peer: Peer, site: Site) -> None:
    peer.behave(share=0.5)
    assert run(alter(site, {"walltime": "02:00:00"}, soft=None)).soft_walltime == 3600


def test_an_altered_job_without_soft_walltime_gets_none_without_an_answer(run: Run, peer: Peer, site: Site) -> None:
    peer.behave(**NOBODY)
    assert run(alter(site, {"walltime": "02:00:00"}, soft=None)).resources == {}


@pytest.mark.parametrize(
    ("soft", "walltime", "expected"),
    [
        pytest.param(3600, "02:00:00", 7200, id="raised to the walltime at its start: goes up with it"),
        pytest.param(3600, "00:50:00", 3000, id="raised to the walltime at its start: goes down with it"),
        pytest.param(1800, "02:00:00", 1800, id="its own: kept"),
        pytest.param(1800, "00:20:00", 1200, id="its own: lowered with the walltime"),
    ],
)
def test_an_altered_running_job_keeps_its_soft_walltime(
    soft: int, walltime: str, expected: int, run: Run, peer: Peer, site: Site
) -> None:
    """The hook sends no request: predictions for waiting jobs may be too low for a running job."""
    peer.behave(set=100)
    outcome = run(alter(site, {"walltime": walltime}, soft=soft, state="R"))
    assert outcome.accepted
    assert outcome.soft_walltime == expected
    assert peer.asked() == []


def test_the_request_has_the_altered_values_of_the_job(run: Run, peer: Peer, site: Site) -> None:
    run(alter(site, {"walltime": "02:00:00", "ncpus": "8"}, ncpus=4))
    job = peer.asked()[0]["job"]
    assert (job["job_id"], job["user"], job["queue"], job["job_name"]) == ("7.pbs1", "alice", "short", "x")
    assert (job["walltime"], job["ncpus"], job["submitted"]) == (7200, 8, NOW - 600)
    assert job["soft_walltime"] is None, "the answer must hold for the new walltime, whatever the job has"


def test_the_request_has_altered_texts_and_none_that_were_unset(run: Run, peer: Peer, site: Site) -> None:
    run(replace(alter(site, {}), job={"project": "other", "Account_Name": "", "Resource_List": {"place": "excl"}}))
    job = peer.asked()[0]["job"]
    assert (job["project"], job["account"], job["job_name"], job["place"]) == ("other", "", "x", "excl")


@pytest.mark.parametrize("state", ["Q", "R"])
def test_the_daemons_alters_of_the_expected_start_are_left_alone(state: str, run: Run, peer: Peer, site: Site) -> None:
    shown = "2026-11-22T14:10(2026-11-22T13:50..2026-11-22T16:20)"
    outcome = run(alter(site, {"predicted_start": shown}, state=state, requestor="softwalltime-live"))
    assert outcome.accepted
    assert "soft_walltime" not in outcome.resources
    assert not peer.asked()
