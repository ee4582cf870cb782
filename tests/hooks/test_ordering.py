"""The ordering value: what the hook sets of it, and what it never sets."""

import os
from dataclasses import replace
from typing import Any

import pytest

from softwalltime.emulation.pbs.events import Event, Site, altered, postqueued, queued, started
from softwalltime.emulation.pbs.hook import HookOutcome
from tests.hooks.conftest import ORDERED
from tests.hooks.jobs import NOBODY, NOW, Run, submission
from tests.hooks.peer import Peer

NAME = "predicted"


@pytest.fixture
def ordered(site: Site) -> Site:
    """A site that has the resource."""
    return replace(site, resources={**site.resources, NAME: "pbs_int"})


def ordering(outcome: HookOutcome) -> int | None:
    assert outcome.accepted, outcome.message
    value = outcome.resources.get(NAME)
    return None if value is None else int(value)


def alter(site: Site, walltime: str, had: int | None = 1000, state: str = "Q", soft: int = 1800) -> Event:
    own = {} if had is None else {NAME: str(had)}
    return altered(submission(), {"walltime": walltime}, site=site, now=NOW, soft_walltime=soft, state=state, own=own)


def test_it_is_set_at_each_event_of_a_waiting_job(run: Run, peer: Peer, ordered: Site) -> None:
    peer.behave(set=600, ordering=900)
    job = submission()
    for event in (
        queued(job, site=ordered, array_indices="1-3"),
        postqueued(job, site=ordered),
        alter(ordered, "02:00:00"),
        alter(ordered, "02:00:00", had=None, state="B"),
    ):
        outcome = run(event)
        assert (outcome.soft_walltime, ordering(outcome)) == (600, 900)
        assert "set 600 of " in outcome.log[0][1]
        assert ", ordering 900: " in outcome.log[0][1]
    assert {question["accepts"] for question in peer.asked()} == {2}
    assert run(queued(job, site=ordered)).resources == {}, "postqueuejob follows"
    only = {"queuejob": True, "postqueuejob": False, "modifyjob": True, "runjob": True}
    assert ordering(run(queued(job, site=ordered), events=only)) == 900


def test_it_is_set_without_a_soft_walltime_too(run: Run, peer: Peer, ordered: Site) -> None:
    peer.behave(none=True, ordering=900)
    outcome = run(postqueued(submission(), site=ordered))
    assert (outcome.soft_walltime, ordering(outcome)) == (None, 900)


def test_its_resource_has_the_name_of_the_configuration(run: Run, peer: Peer, site: Site) -> None:
    peer.behave(set=600, ordering=900)
    named = replace(site, resources={"expected": "pbs_float"})
    assert run(postqueued(submission(), site=named), ordering="expected").resources["expected"] == 900
    assert list(run(postqueued(submission(), site=named), ordering="").resources) == ["soft_walltime"]


@pytest.mark.parametrize("event", ["start", "running"])
def test_it_is_not_set_on_a_running_job(event: str, run: Run, peer: Peer, ordered: Site) -> None:
    peer.behave(set=600, ordering=900)
    start = started(submission(), site=ordered, now=NOW, soft_walltime=1800, own={NAME: "1000"})
    outcome = run(start if event == "start" else alter(ordered, "00:10:00", state="R"))
    assert outcome.accepted, outcome.message
    assert ordering(outcome) is None


@pytest.mark.parametrize("answer", [NOBODY, {"none": True}])
def test_an_altered_job_without_a_new_value_keeps_its_own_up_to_the_walltime(
    answer: dict[str, Any], run: Run, peer: Peer, ordered: Site
) -> None:
    peer.behave(**answer)
    assert ordering(run(alter(ordered, "02:00:00"))) is None, "it stays"
    assert ordering(run(alter(ordered, "00:10:00"))) == 600
    # Other jobs are ordering now.
    assert ordering(run(alter(ordered, "00:10:00", had=None))) == (600 if answer is NOBODY else None)
    minimal = altered(
        submission(), {"walltime": "00:10:00", "soft_walltime": "00:05:00"}, site=ordered, now=NOW,
        requestor="root", own={NAME: "1000"},
    )  # fmt: skip
    assert ordering(run(minimal)) == 600, "the manager gives a soft walltime, and the daemon is not asked"


def test_without_an_answer_a_new_job_is_ordered_by_its_walltime_once_jobs_are_ordered(
    run: Run, peer: Peer, ordered: Site
) -> None:
    peer.behave(**NOBODY)
    assert ordering(run(postqueued(submission(), site=ordered))) is None
    peer.behave(none=True, ordering=900)
    run(postqueued(submission(), site=ordered))
    assert os.environ[ORDERED] == NAME
    peer.behave(**NOBODY)
    assert ordering(run(postqueued(submission(), site=ordered))) == 3600
    peer.behave(none=True)
    assert ordering(run(postqueued(submission(), site=ordered))) is None, "the policy orders this job no more"


@pytest.mark.parametrize("value", [0, -5, 3601, 70.5, "900", True, [900]])
def test_a_value_that_is_no_number_of_seconds_up_to_the_walltime_is_no_answer(
    value: Any, run: Run, peer: Peer, ordered: Site
) -> None:
    peer.behave(set=600, ordering=value)
    outcome = run(postqueued(submission(), site=ordered))
    assert outcome.resources == {}
    assert "no answer: invalid answer" in outcome.log[0][1]


@pytest.mark.parametrize("kind", [None, "pbs_str"])
def test_a_missing_resource_or_one_of_another_type_is_logged_once_and_no_job_fails(
    kind: str | None, run: Run, peer: Peer, site: Site
) -> None:
    peer.behave(set=600, ordering=900)
    lacking = replace(site, resources={} if kind is None else {NAME: kind})
    said = []
    for _ in range(5):
        outcome = run(postqueued(submission(), site=lacking))
        assert outcome.accepted
        assert outcome.soft_walltime == 600
        said += [line for _, line in outcome.log if "cannot be set" in line]
        assert all("ordering 900" not in line for _, line in outcome.log)
    assert len(said) == 1
    assert "softwalltime: resource predicted: cannot be set: " in said[0]
    fine = replace(site, resources={NAME: "pbs_int"})
    assert ordering(run(postqueued(submission(), site=fine))) == 900, "as soon as it exists"
