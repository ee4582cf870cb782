"""What the hook does when a job is submitted."""

import json
from dataclasses import replace

import pytest

from softwalltime.emulation.pbs.events import Event, Site, postqueued, queued, started
from softwalltime.jobs import Submission
from tests.hooks.conftest import DEFAULTS
from tests.hooks.jobs import AT_QUEUEJOB, NOW, Run, submission
from tests.hooks.peer import Peer

# ---- Submission: once, where it is safest ---------------------------------------------------------------------------


def test_a_submitted_job_is_asked_about_once_and_gets_the_answer(run: Run, peer: Peer, site: Site) -> None:
    peer.behave(set=1800)
    assert run(queued(submission(), site=site)).soft_walltime is None
    assert run(postqueued(submission(), site=site)).soft_walltime == 1800
    assert [question["event"] for question in peer.asked()] == ["postqueuejob"]


def test_a_job_without_prediction_is_asked_about_once_too(run: Run, peer: Peer, site: Site) -> None:
    assert run(queued(submission(), site=site)).soft_walltime is None
    assert run(postqueued(submission(), site=site)).soft_walltime is None
    assert len(peer.asked()) == 1


def test_without_postqueuejob_the_hook_asks_at_queuejob(run: Run, peer: Peer, site: Site) -> None:
    peer.behave(set=1800)
    older = replace(site, postqueuejob=False)
    assert run(queued(submission(), site=older)).soft_walltime == 1800
    assert run(queued(submission(), site=site), events=AT_QUEUEJOB).soft_walltime == 1800


def test_the_daemon_is_told_everything_about_a_job(run: Run, peer: Peer, site: Site) -> None:
    job = submission(ncpus=4, nodect=2, ngpus=1, mem=2**30, select="2:ncpus=2", place="scatter", interactive=True)
    run(postqueued(job, site=site, now=NOW))
    (asked,) = peer.asked()
    previous = asked.pop("previous_us")
    assert previous is None or previous > 0, "how long the hook waited the time before"
    assert [asked] == [
        {
            "v": 1,
            "op": "predict",
            "timeouts": 0,
            "event": "postqueuejob",
            "now": NOW,
            "job": {
                "job_id": "7.pbs1",
                "user": "alice",
                "group": "staff",
                "project": "astro",
                "account": "grant",
                "queue": "short",
                "job_name": "x",
                "submitted": NOW - 600,
                "walltime": 3600,
                "soft_walltime": None,
                "min_walltime": None,
                "max_walltime": None,
                "ncpus": 4,
                "nodect": 2,
                "ngpus": 1,
                "mem": "1073741824b",
                "select": "2:ncpus=2",
                "place": "scatter",
                "array_indices": "",
                "interactive": True,
            },
        }
    ]


def test_at_queuejob_the_daemon_is_told_what_is_known_then(run: Run, peer: Peer, site: Site) -> None:
    run(queued(submission(project=""), site=site, array_indices="1-9:2", now=NOW))
    (question,) = peer.asked()
    job = question["job"]
    assert (question["event"], job["job_id"], job["user"], job["submitted"]) == ("queuejob", "", "alice", None)
    assert (job["array_indices"], job["project"], job["walltime"]) == ("1-9:2", "_pbs_project_default", 3600)


def test_an_array_is_asked_about_at_queuejob(run: Run, peer: Peer, site: Site) -> None:
    """What a hook sets on an array at postqueuejob is dropped by PBS."""
    peer.behave(set=1800)
    assert run(queued(submission(), site=site, array_indices="1-9")).soft_walltime == 1800
    run(postqueued(submission(job_id="7[].pbs1"), site=site))
    run(postqueued(submission(job_id="7[3].pbs1"), site=site))
    assert len(peer.asked()) == 1


@pytest.mark.parametrize("soft", [60, 1800, 3600])
def test_a_job_that_comes_with_a_soft_walltime_keeps_it(soft: int, run: Run, peer: Peer, site: Site) -> None:
    """The site's default, a manager's own, or what the job had before a move."""
    peer.behave(set=100)
    outcome = run(
        replace(
            postqueued(submission(), site=site), job=started(submission(), site=site, now=NOW, soft_walltime=soft).job
        )
    )
    assert outcome.soft_walltime == soft
    assert peer.asked() == []


def moved(job: Submission, soft_walltime: int, site: Site) -> Event:
    """The postqueuejob of a job moved into another queue, with the walltime that this queue gives it."""
    return replace(started(job, site=site, now=NOW, soft_walltime=soft_walltime), name="postqueuejob")


def test_a_job_moved_below_its_soft_walltime_is_asked_about_again(run: Run, peer: Peer, site: Site) -> None:
    peer.behave(share=0.5)
    assert run(moved(submission(walltime=600), 3000, site)).soft_walltime == 300


def test_a_job_moved_below_its_soft_walltime_gets_the_walltime_if_nobody_answers(
    run: Run, peer: Peer, site: Site
) -> None:
    peer.behave(close=True)
    assert run(moved(submission(walltime=600), 3000, site)).soft_walltime == 600


def test_nobody_is_asked_for_a_job_that_is_still_to_be_routed(run: Run, peer: Peer, site: Site) -> None:
    event = postqueued(submission(queue="route_q"), site=site)
    run(replace(event, job={**event.job, "queue_type": "R"}))
    assert peer.asked() == []


# ---- Defaults, which are not applied yet at queuejob ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("queue", "walltime"),
    [
        pytest.param("short", 1800, id="the queue's default"),
        pytest.param("short@pbs1", 1800, id="the queue's default, the server named"),
        pytest.param("limited", 10800, id="the queue's maximum, where there is no default"),
        pytest.param("to_short", 1800, id="the only destination's default"),
    ],
)
def test_at_queuejob_a_missing_walltime_is_worked_out(
    queue: str, walltime: int, run: Run, peer: Peer, site: Site
) -> None:
    peer.behave(set=600)
    outcome = run(queued(submission(walltime=None, queue=queue), site=site), events=AT_QUEUEJOB)
    assert outcome.resources["soft_walltime"] == 600
    assert peer.asked()[0]["job"]["walltime"] == walltime


@pytest.mark.parametrize("queue", ["", "route_q", "elsewhere", "circle", "nodefault", "short@other", "nosuch", "@pbs1"])
def test_at_queuejob_nothing_is_asked_when_the_walltime_cannot_be_known(
    queue: str, run: Run, peer: Peer, site: Site
) -> None:
    """PBS would not notice a soft walltime above a walltime that comes from a default."""
    peer.behave(set=600)
    outcome = run(queued(submission(walltime=None, queue=queue), site=site), events=AT_QUEUEJOB)
    assert outcome.soft_walltime is None
    assert peer.asked() == []


def test_the_default_queue_is_looked_up(run: Run, peer: Peer, site: Site) -> None:
    default_short = replace(site, server={**site.server, "default_queue": "short"})
    run(queued(submission(walltime=None, queue=""), site=default_short), events=AT_QUEUEJOB)
    assert peer.asked()[0]["job"]["walltime"] == 1800


def test_the_servers_default_comes_after_the_queues_and_before_any_maximum(run: Run, peer: Peer, site: Site) -> None:
    server = {**site.server, "resources_default": {"walltime": "00:45:00"}, "resources_max": {"walltime": "99:00:00"}}
    for queue in ("short", "limited", "nodefault"):
        run(queued(submission(walltime=None, queue=queue), site=replace(site, server=server)), events=AT_QUEUEJOB)
    assert [question["job"]["walltime"] for question in peer.asked()] == [1800, 2700, 2700]


def test_destinations_with_the_same_default_are_as_good_as_one(run: Run, peer: Peer, site: Site) -> None:
    queues = {**site.queues, "both": {"queue_type": "Route", "route_destinations": "short,to_short"}}
    run(queued(submission(walltime=None, queue="both"), site=replace(site, queues=queues)), events=AT_QUEUEJOB)
    assert peer.asked()[0]["job"]["walltime"] == 1800


# ---- The shipped configuration ---------------------------------------------------------------------------------------


def test_as_shipped_one_event_serves_every_submission(run: Run, peer: Peer, site: Site) -> None:
    """Each event costs the server more than the hook does; only queuejob serves arrays and can clean texts."""
    peer.behave(set=1800)
    shipped = json.loads(DEFAULTS.read_text())["events"]
    assert shipped == AT_QUEUEJOB
    assert run(queued(submission(), site=site), events=shipped).soft_walltime == 1800
    assert run(queued(submission(), site=site, array_indices="1-9"), events=shipped).soft_walltime == 1800
    assert run(postqueued(submission(), site=site), events=shipped).resources == {}
    assert len(peer.asked()) == 2


@pytest.mark.parametrize(
    ("queue", "asked"),
    [("", "short"), ("short", "short"), ("to_short", "short"), ("route_q", "route_q"), ("nosuch", "nosuch")],
)
def test_at_queuejob_the_daemon_is_told_where_the_job_will_wait(
    queue: str, asked: str, run: Run, peer: Peer, site: Site
) -> None:
    """The site's policy may have rules for queues; where routing leaves it open, the routing queue is named."""
    default_short = replace(site, server={**site.server, "default_queue": "short"})
    run(queued(submission(queue=queue), site=default_short), events=AT_QUEUEJOB)
    assert [question["job"]["queue"] for question in peer.asked()] == [asked]
