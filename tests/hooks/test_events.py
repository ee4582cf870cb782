"""What the hook does at each event."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from softwalltime.jobs import Submission
from softwalltime.replay.emulation import Event, Outcome, Site, altered, postqueued, queued, started
from tests.hooks.peer import Peer

NOW = 1_795_000_000
AT_QUEUEJOB = {"queuejob": True, "postqueuejob": False, "modifyjob": True, "runjob": True}

Run = Callable[..., Outcome]


def submission(**changes: Any) -> Submission:
    """A job of an hour."""
    job = Submission(
        "7.pbs1", "alice", NOW - 600, 3600, group="staff", project="astro", account="grant", job_name="x", queue="short"
    )
    return replace(job, **changes)


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


# ---- Who gets none --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "events", [AT_QUEUEJOB, {**AT_QUEUEJOB, "postqueuejob": True}], ids=["queuejob", "postqueuejob"]
)
def test_a_shrink_to_fit_job_gets_none_at_any_event(events: dict[str, bool], run: Run, peer: Peer, site: Site) -> None:
    peer.behave(set=600)
    job = submission(min_walltime=600, max_walltime=7200)
    for event in (queued(job, site=site), postqueued(job, site=site), started(job, site=site, now=NOW)):
        assert run(event, events=events).soft_walltime is None
    assert peer.asked() == []


def test_a_job_without_walltime_gets_none_unless_configured(run: Run, peer: Peer, site: Site) -> None:
    peer.behave(set=600)
    job = submission(walltime=None, queue="nodefault")
    for event in (postqueued(job, site=site), started(job, site=site, now=NOW)):
        assert run(event).soft_walltime is None
        assert run(event, jobs_without_walltime=True).soft_walltime == 600


def test_a_prediction_that_equals_the_walltime_is_not_set_on_a_job_without_one(
    run: Run, peer: Peer, site: Site
) -> None:
    peer.behave(share=1)
    assert run(postqueued(submission(), site=site)).resources == {}
    assert run(started(submission(), site=site, now=NOW)).resources == {}


def test_a_job_shorter_than_the_minimum_gets_none(run: Run, peer: Peer, site: Site) -> None:
    peer.behave(share=0.5)
    assert run(postqueued(submission(walltime=40), site=site)).soft_walltime is None


def test_a_prediction_below_the_minimum_becomes_the_minimum(run: Run, peer: Peer, site: Site) -> None:
    peer.behave(set=1)
    assert run(postqueued(submission(), site=site)).soft_walltime == 60
    assert run(postqueued(submission(), site=site), minimum=900).soft_walltime == 900


@pytest.mark.parametrize("event", ["queuejob", "postqueuejob", "modifyjob", "runjob"])
def test_an_event_can_be_switched_off(event: str, run: Run, peer: Peer, site: Site) -> None:
    peer.behave(set=1800)
    off = {**AT_QUEUEJOB, "postqueuejob": event != "queuejob", event: False}
    raised = {
        "queuejob": queued(submission(), site=site),
        "postqueuejob": postqueued(submission(), site=site),
        "modifyjob": altered(submission(), {"walltime": "00:30:00"}, site=site, now=NOW, soft_walltime=900),
        "runjob": started(submission(), site=site, now=NOW, soft_walltime=900),
    }
    outcome = run(raised[event], events=off)
    assert outcome.resources == {}
    assert outcome.log == []
    assert peer.asked() == []


# ---- Alters ---------------------------------------------------------------------------------------------------------


def alter(
    site: Site,
    resources: dict[str, str],
    soft: int | None = 1800,
    state: str = "Q",
    requestor: str = "",
    **changes: Any,
) -> Event:
    """The alter of a job of an hour."""
    job = submission(**changes)
    return altered(job, resources, site=site, now=NOW, soft_walltime=soft, state=state, requestor=requestor)


NOBODY = {"close": True}


@pytest.mark.parametrize(
    ("walltime", "answer", "expected"),
    [
        pytest.param("02:00:00", {"share": 0.5}, 3600, id="raised, predicted anew"),
        pytest.param("00:20:00", {"share": 0.5}, 600, id="lowered, predicted anew"),
        pytest.param("02:00:00", {"none": True}, 1800, id="raised, nothing known: kept"),
        pytest.param("02:00:00", NOBODY, 1800, id="raised, no answer: kept"),
        pytest.param("00:40:00", NOBODY, 1800, id="lowered, still valid: kept"),
        pytest.param("00:20:00", {"none": True}, 1200, id="lowered below it: to the walltime"),
        pytest.param("00:20:00", NOBODY, 1200, id="lowered below it, no answer: to the walltime"),
        pytest.param("00:00:30", NOBODY, None, id="lowered below the minimum: removed"),
        pytest.param("0", NOBODY, None, id="lowered to nothing: removed"),
    ],
)
def test_altering_the_walltime_takes_the_soft_walltime_along(
    walltime: str, answer: dict[str, Any], expected: int | None, run: Run, peer: Peer, site: Site
) -> None:
    peer.behave(**answer)
    outcome = run(alter(site, {"walltime": walltime}))
    assert outcome.accepted, outcome.message
    assert outcome.soft_walltime == expected


@pytest.mark.parametrize("queue", ["short", "nodefault"])
def test_taking_the_walltime_back_leaves_a_valid_soft_walltime(queue: str, run: Run, peer: Peer, site: Site) -> None:
    """``qalter -l walltime=`` gives the job its queue's default again, which may be less than the soft walltime."""
    peer.behave(**NOBODY)
    outcome = run(alter(site, {"walltime": ""}, soft=3000, queue=queue))
    assert outcome.accepted
    assert outcome.soft_walltime == {"short": 1800, "nodefault": None}[queue]


@pytest.mark.parametrize(
    "resources", [{"soft_walltime": "00:08:00"}, {"walltime": "00:10:00", "soft_walltime": "00:08:00"}]
)
def test_a_managers_own_soft_walltime_is_left_alone(
    resources: dict[str, str], run: Run, peer: Peer, site: Site
) -> None:
    peer.behave(set=100)
    outcome = run(alter(site, resources, requestor="root"))
    assert outcome.accepted
    assert outcome.soft_walltime == 480
    assert peer.asked() == []


@pytest.mark.parametrize(
    "job",
    [
        {"Job_Name": "other"},
        {"Resource_List": {"ncpus": "4"}},
        {"Resource_List": {"min_walltime": ""}},
        {"Resource_List": {}},
    ],
)
def test_another_alter_is_none_of_our_business(job: dict[str, Any], run: Run, peer: Peer, site: Site) -> None:
    peer.behave(set=100)
    outcome = run(replace(alter(site, {}), job=job))
    assert outcome.soft_walltime == 1800
    assert outcome.resources == {}
    assert outcome.log == []
    assert peer.asked() == []


def test_a_job_that_becomes_shrink_to_fit_loses_its_soft_walltime(run: Run, peer: Peer, site: Site) -> None:
    """PBS would refuse the user's alter otherwise."""
    peer.behave(**NOBODY)
    outcome = run(alter(site, {"min_walltime": "00:10:00"}))
    assert outcome.accepted, outcome.message
    assert outcome.soft_walltime is None


def test_an_altered_shrink_to_fit_job_gets_none(run: Run, peer: Peer, site: Site) -> None:
    peer.behave(set=100)
    outcome = run(alter(site, {"walltime": "00:50:00"}, soft=None, min_walltime=600))
    assert outcome.soft_walltime is None
    assert peer.asked() == []


def test_an_altered_job_without_soft_walltime_may_get_one(run: Run, peer: Peer, site: Site) -> None:
    peer.behave(share=0.5)
    assert run(alter(site, {"walltime": "02:00:00"}, soft=None)).soft_walltime == 3600


def test_an_altered_job_without_soft_walltime_is_left_without_if_nobody_answers(
    run: Run, peer: Peer, site: Site
) -> None:
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
def test_a_running_job_keeps_what_promises_rest_on(
    soft: int, walltime: str, expected: int, run: Run, peer: Peer, site: Site
) -> None:
    """A prediction for waiting jobs could be bold, so none is asked for."""
    peer.behave(set=100)
    outcome = run(alter(site, {"walltime": walltime}, soft=soft, state="R"))
    assert outcome.accepted
    assert outcome.soft_walltime == expected
    assert peer.asked() == []


def test_the_daemon_is_told_what_an_altered_job_will_be(run: Run, peer: Peer, site: Site) -> None:
    run(alter(site, {"walltime": "02:00:00", "ncpus": "8"}, ncpus=4))
    job = peer.asked()[0]["job"]
    assert (job["job_id"], job["user"], job["queue"], job["job_name"]) == ("7.pbs1", "alice", "short", "x")
    assert (job["walltime"], job["soft_walltime"], job["ncpus"], job["submitted"]) == (7200, 1800, 8, NOW - 600)


# ---- Starts ---------------------------------------------------------------------------------------------------------


def start(site: Site, soft: int | None = 1800, now: int = NOW, **changes: Any) -> Event:
    """The start of a job of an hour that was submitted ten minutes ago."""
    return started(submission(**changes), site=site, now=now, soft_walltime=soft)


@pytest.mark.parametrize("job_id", ["7.pbs1", "7[3].pbs1"])
def test_a_starting_job_gets_a_fresh_soft_walltime(job_id: str, run: Run, peer: Peer, site: Site) -> None:
    peer.behave(set=2400)
    assert run(start(site, job_id=job_id)).soft_walltime == 2400
    assert [(question["event"], question["job"]["job_id"]) for question in peer.asked()] == [("runjob", job_id)]


def test_the_policy_may_raise_a_starting_job_to_its_walltime(run: Run, peer: Peer, site: Site) -> None:
    peer.behave(share=1)
    assert run(start(site)).soft_walltime == 3600


def test_a_starting_job_without_soft_walltime_may_get_one(run: Run, peer: Peer, site: Site) -> None:
    peer.behave(set=2400)
    assert run(start(site, soft=None)).soft_walltime == 2400


@pytest.mark.parametrize("answer", [{"none": True}, {"set": 1800}], ids=["none", "the same"])
def test_a_starting_job_that_shall_keep_what_it_has_is_not_touched(
    answer: dict[str, Any], run: Run, peer: Peer, site: Site
) -> None:
    """Setting it again would write another record into the accounting log."""
    peer.behave(**answer)
    assert run(start(site)).resources == {}


@pytest.mark.parametrize(
    ("soft", "fallback", "expected"),
    [
        pytest.param(1800, "walltime", 3600, id="raised to the walltime"),
        pytest.param(3600, "walltime", 3600, id="there already"),
        pytest.param(None, "walltime", None, id="one without is left without"),
        pytest.param(1800, "keep", 1800, id="kept"),
        pytest.param(4000, "keep", 3600, id="kept only if valid"),
        pytest.param(0, "keep", 3600, id="and never at 0, which kills the scheduler"),
    ],
)
def test_at_a_start_without_an_answer_the_fallback_counts(
    soft: int | None, fallback: str, expected: int | None, run: Run, peer: Peer, site: Site
) -> None:
    peer.behave(**NOBODY)
    assert run(start(site, soft), runjob_fallback=fallback).soft_walltime == expected


@pytest.mark.parametrize("soft", [0, 4000])
@pytest.mark.parametrize("when", ["always", "never", "if-none"])
def test_a_job_never_starts_with_what_is_not_valid(when: str, soft: int, run: Run, site: Site) -> None:
    """Whoever set it: 0 on a running job kills the scheduler."""
    assert run(start(site, soft), runjob=when).soft_walltime == 3600


def test_without_walltime_the_fallback_is_none(run: Run, peer: Peer, site: Site) -> None:
    peer.behave(**NOBODY)
    outcome = run(start(site, queue="nodefault", walltime=None), jobs_without_walltime=True)
    assert outcome.soft_walltime is None


@pytest.mark.parametrize(
    ("when", "soft", "asked"),
    [
        ("always", 1800, True),
        ("always", None, True),
        ("never", 1800, False),
        ("never", None, False),
        ("if-none", 1800, False),
        ("if-none", None, True),
        ({"waited_longer_than": 599}, 1800, True),
        ({"waited_longer_than": 600}, 1800, False),
    ],
)
def test_the_site_says_which_starts_are_asked_about(
    when: Any, soft: int | None, asked: bool, run: Run, peer: Peer, site: Site
) -> None:
    peer.behave(set=2400)
    outcome = run(start(site, soft), runjob=when)
    assert outcome.soft_walltime == (2400 if asked else soft)
    assert len(peer.asked()) == asked


# ---- The log --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "lines"),
    [("all", [1, 1, 1]), ("changes", [1, 0, 1]), ("errors", [0, 0, 1]), ("off", [0, 0, 0])],
)
def test_the_site_says_what_is_logged(log: str, lines: list[int], run: Run, peer: Peer, site: Site) -> None:
    """One line for what is set, for what is not, and for a failure."""
    for answer, count in zip(({"set": 1800}, {"none": True}, {"close": True}), lines, strict=True):
        peer.behave(**answer)
        assert len(run(postqueued(submission(), site=site), log=log).log) == count


def test_a_line_says_what_was_decided_why_and_how_long_it_took(run: Run, peer: Peer, site: Site) -> None:
    peer.behave(set=1800)
    ((level, line),) = run(postqueued(submission(), site=site)).log
    assert level == 0x100
    assert line.startswith("softwalltime: postqueuejob 7.pbs1: set 1800 of 3600: the test peer says so (")
    assert line.endswith(" ms)")


def test_what_others_wrote_cannot_forge_log_lines(run: Run, peer: Peer, site: Site) -> None:
    basis = "\\n11/20/2026 12:00:00;0001;\\u001b[31m\\udc80" + "x" * 5000
    peer.behave(raw=f'{{"v": 1, "action": "none", "basis": "{basis}"}}\n')
    ((_, line),) = run(postqueued(submission(), site=site)).log
    assert line.isascii()
    assert line.isprintable()
    assert len(line) < 1100
