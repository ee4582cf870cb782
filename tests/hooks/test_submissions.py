"""The hook at submissions (queuejob and postqueuejob)."""

import json
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import pytest

from softwalltime.core.jobs import Submission
from softwalltime.emulation.pbs.pbs_events import Event, Site, postqueued, queued, started
from tests.hooks.conftest import DEFAULTS
from tests.hooks.jobs import AT_QUEUEJOB, NOBODY, NOW, Run, submission
from tests.hooks.peer import Peer

# ---- One request for each submission --------------------------------------------------------------------------------


def test_a_submission_sends_one_request_and_sets_the_answer(run: Run, peer: Peer, site: Site) -> None:
    peer.behave(set=1800)
    assert run(queued(submission(), site=site)).soft_walltime is None
    assert run(postqueued(submission(), site=site)).soft_walltime == 1800
    assert [request["event"] for request in peer.asked()] == ["postqueuejob"]


def test_a_submission_without_prediction_sends_one_request(run: Run, peer: Peer, site: Site) -> None:
    assert run(queued(submission(), site=site)).soft_walltime is None
    assert run(postqueued(submission(), site=site)).soft_walltime is None
    assert len(peer.asked()) == 1


def test_without_postqueuejob_queuejob_sends_the_request(run: Run, peer: Peer, site: Site) -> None:
    peer.behave(set=1800)
    older = replace(site, postqueuejob=False)
    assert run(queued(submission(), site=older)).soft_walltime == 1800
    assert run(queued(submission(), site=site), events=AT_QUEUEJOB).soft_walltime == 1800


def test_a_request_has_all_fields_of_the_job(run: Run, peer: Peer, site: Site) -> None:
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
            "keep": True,
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
                "mem": "1gb",
                "select": "2:ncpus=2",
                "place": "scatter",
                "nodes": "",
                "interactive": True,
                "workdir": "",
                "submit_arguments": "",
                "executable": "",
                "argument_list": "",
            },
        }
    ]


def test_a_request_at_queuejob_has_the_fields_known_then(run: Run, peer: Peer, site: Site) -> None:
    run(queued(submission(project=""), site=site, array_indices="1-9:2", now=NOW))
    (request,) = peer.asked()
    job = request["job"]
    assert (request["event"], job["job_id"], job["user"], job["submitted"]) == ("queuejob", "", "alice", None)
    assert (job["project"], job["walltime"]) == ("_pbs_project_default", 3600)


@pytest.mark.parametrize("groups", ["chem", "chem@pbs1", "chem@pbs1,staff@pbs2", "chem,staff@pbs2"])
def test_the_group_at_queuejob_is_the_first_of_the_group_list(groups: str, run: Run, peer: Peer, site: Site) -> None:
    event = queued(submission(), site=site, array_indices="1-3")
    run(replace(event, job={**event.job, "group_list": groups}))
    assert [request["job"]["group"] for request in peer.asked()] == ["chem"]


def test_queuejob_sends_the_request_for_an_array(run: Run, peer: Peer, site: Site) -> None:
    """PBS drops values that a hook sets on an array at postqueuejob."""
    peer.behave(set=1800)
    assert run(queued(submission(), site=site, array_indices="1-9")).soft_walltime == 1800
    run(postqueued(submission(job_id="7[].pbs1"), site=site))
    run(postqueued(submission(job_id="7[3].pbs1"), site=site))
    assert len(peer.asked()) == 1


def moved(job: Submission, soft_walltime: int, site: Site) -> Event:
    """Return the postqueuejob event of a job moved into another queue, with this queue's walltime."""
    return replace(started(job, site=site, now=NOW, soft_walltime=soft_walltime), name="postqueuejob")


@pytest.mark.parametrize("walltime", [600, 86400])
def test_a_moved_job_is_predicted_anew(walltime: int, run: Run, peer: Peer, site: Site) -> None:
    """A queue may have another default walltime, and the prediction may depend on the queue."""
    peer.behave(share=0.5)
    assert run(moved(submission(walltime=walltime), 3000, site)).soft_walltime == walltime // 2
    peer.behave(**NOBODY)
    assert run(moved(submission(walltime=walltime), 3000, site)).soft_walltime == walltime


def test_a_job_moved_below_its_soft_walltime_gets_its_walltime_without_an_answer(
    run: Run, peer: Peer, site: Site
) -> None:
    peer.behave(close=True)
    assert run(moved(submission(walltime=600), 3000, site)).soft_walltime == 600


def test_a_job_in_a_routing_queue_sends_no_request(run: Run, peer: Peer, site: Site) -> None:
    event = postqueued(submission(queue="route_q"), site=site)
    run(replace(event, job={**event.job, "queue_type": "R"}))
    assert peer.asked() == []


# ---- Defaults, which PBS has not applied yet at queuejob ------------------------------------------------------------


@pytest.mark.parametrize(
    ("queue", "walltime"),
    [
        pytest.param("short", 1800, id="the queue's default"),
        pytest.param("short@pbs1", 1800, id="the queue's default, the server named"),
        pytest.param("limited", 10800, id="the queue's maximum, where there is no default"),
        pytest.param("to_short", 1800, id="the only destination's default"),
    ],
)
def test_queuejob_determines_the_default_walltime(queue: str, walltime: int, run: Run, peer: Peer, site: Site) -> None:
    peer.behave(set=600)
    outcome = run(queued(submission(walltime=None, queue=queue), site=site), events=AT_QUEUEJOB)
    assert outcome.resources["soft_walltime"] == 600
    assert peer.asked()[0]["job"]["walltime"] == walltime


@pytest.mark.parametrize("queue", ["", "route_q", "elsewhere", "circle", "nodefault", "short@other", "nosuch", "@pbs1"])
def test_queuejob_sends_no_request_if_the_walltime_is_unknown(queue: str, run: Run, peer: Peer, site: Site) -> None:
    """PBS does not refuse a soft walltime above a default walltime."""
    peer.behave(set=600)
    outcome = run(queued(submission(walltime=None, queue=queue), site=site), events=AT_QUEUEJOB)
    assert outcome.soft_walltime is None
    assert peer.asked() == []


def test_the_default_queue_is_used(run: Run, peer: Peer, site: Site) -> None:
    default_short = replace(site, server={**site.server, "default_queue": "short"})
    run(queued(submission(walltime=None, queue=""), site=default_short), events=AT_QUEUEJOB)
    assert peer.asked()[0]["job"]["walltime"] == 1800


def test_the_order_is_queue_default_server_default_maximum(run: Run, peer: Peer, site: Site) -> None:
    server = {**site.server, "resources_default": {"walltime": "00:45:00"}, "resources_max": {"walltime": "99:00:00"}}
    for queue in ("short", "limited", "nodefault"):
        run(queued(submission(walltime=None, queue=queue), site=replace(site, server=server)), events=AT_QUEUEJOB)
    assert [request["job"]["walltime"] for request in peer.asked()] == [1800, 2700, 2700]


def test_destinations_with_the_same_default_give_a_known_walltime(run: Run, peer: Peer, site: Site) -> None:
    queues = {**site.queues, "both": {"queue_type": "Route", "route_destinations": "short,to_short"}}
    run(queued(submission(walltime=None, queue="both"), site=replace(site, queues=queues)), events=AT_QUEUEJOB)
    assert peer.asked()[0]["job"]["walltime"] == 1800


@pytest.mark.parametrize(("above", "walltime"), [(5, 1800), (6, None)])
def test_queues_are_followed_through_five_routing_queues(
    above: int, walltime: int | None, run: Run, peer: Peer, site: Site
) -> None:
    chain = {f"q{n}": {"queue_type": "Route", "route_destinations": f"q{n - 1}"} for n in range(1, above + 1)}
    queues = {**site.queues, **chain, "q0": site.queues["short"]}
    run(queued(submission(walltime=None, queue=f"q{above}"), site=replace(site, queues=queues)), events=AT_QUEUEJOB)
    assert [request["job"]["walltime"] for request in peer.asked()] == ([] if walltime is None else [walltime])


@pytest.mark.parametrize(
    ("queue", "resources", "place"),
    [
        ("exclusive", {}, "scatter:excl"),
        ("exclusive", {"place": "free"}, "free"),
        ("exclusive", {"nodes": "2:ppn=4#shared"}, "scatter:excl"),
        ("to_one_exclusive", {}, "scatter:excl"),
        ("packed", {}, ""),
        ("short", {}, "exclhost"),
        ("short", {"nodes": "2:ppn=4#excl"}, "scatter:excl"),
        ("short", {"nodes": "2:ppn=4#excl", "place": "free"}, "free"),
    ],
)
def test_a_request_at_queuejob_has_the_exclusive_placement_that_the_job_will_have(
    queue: str, resources: dict[str, str], place: str, run: Run, peer: Peer, site: Site
) -> None:
    """The scheduler compares the soft walltime of such a job to a reservation."""
    own = {
        "exclusive": {"queue_type": "Execution", "resources_default": {"place": "scatter:excl"}},
        "packed": {"queue_type": "Execution", "resources_default": {"place": "pack:excl"}},
        "to_one_exclusive": {"queue_type": "Route", "route_destinations": "packed, exclusive"},
    }
    server = {**site.server, "resources_default": {"place": "exclhost"}}
    site = replace(site, queues={**site.queues, **own}, server=server)
    event = queued(submission(queue=queue), site=site)
    event = replace(event, job={**event.job, "Resource_List": {"walltime": "3600", **resources}})
    run(event, events=AT_QUEUEJOB)
    assert [request["job"]["place"] for request in peer.asked()] == [place]


def test_facts_about_queues_are_read_once_a_minute(hook: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []
    monkeypatch.setattr(hook, "read_queue_facts", lambda _server, queue, _route: reads.append(queue))
    pbs, other = (SimpleNamespace(server=lambda: None, QTYPE_ROUTE=2) for _ in range(2))
    for module, now in ((pbs, 1000), (pbs, 1060), (pbs, 1061), (pbs, 1100), (other, 1101), (other, 1102)):
        monkeypatch.setattr(hook, "time", SimpleNamespace(monotonic=lambda now=now: now))
        hook.queue_facts(module, f"at {now}")
        hook.queue_facts(module, "short")
    assert [at for at, queue in enumerate(reads) if queue == "short"] == [1, 4, 7]


# ---- The shipped configuration ---------------------------------------------------------------------------------------


def test_the_shipped_configuration_handles_a_submission_at_one_event(run: Run, peer: Peer, site: Site) -> None:
    """An event costs the server more than the hook; only queuejob handles arrays and can clean texts."""
    peer.behave(set=1800)
    shipped = json.loads(DEFAULTS.read_text())["events"]
    assert shipped == {**AT_QUEUEJOB, "resvsub": True, "modifyresv": True}
    assert run(queued(submission(), site=site), events=shipped).soft_walltime == 1800
    assert run(queued(submission(), site=site, array_indices="1-9"), events=shipped).soft_walltime == 1800
    assert run(postqueued(submission(), site=site), events=shipped).resources == {}
    assert len(peer.asked()) == 2


@pytest.mark.parametrize(
    ("queue", "asked"),
    [
        ("", "short"),
        ("short", "short"),
        ("to_short", "short"),
        ("route_q", "route_q"),
        ("route_q@pbs1", "route_q"),
        ("nosuch", "nosuch"),
        ("short@other", "short"),
    ],
)
def test_a_request_at_queuejob_has_the_destination_queue(
    queue: str, asked: str, run: Run, peer: Peer, site: Site
) -> None:
    """The site's policy may have rules for queues; if several destinations are possible, it is the routing queue."""
    default_short = replace(site, server={**site.server, "default_queue": "short"})
    run(queued(submission(queue=queue), site=default_short), events=AT_QUEUEJOB)
    assert [request["job"]["queue"] for request in peer.asked()] == [asked]
