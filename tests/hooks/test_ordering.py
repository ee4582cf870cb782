"""The ordering value: what the hook sets of it, and what it never sets."""

from dataclasses import replace
from typing import Any

import pytest

from softwalltime.emulation.pbs.hook_runner import HookOutcome, restart_interpreter
from softwalltime.emulation.pbs.pbs_events import Event, Site, altered, postqueued, queued, started
from tests.hooks.jobs import NO_LIMIT, NOBODY, NOW, Run, submission
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
    assert run(queued(job, site=ordered)).resources == {}, "postqueuejob follows"
    only = {"queuejob": True, "postqueuejob": False, "modifyjob": True, "runjob": True}
    assert ordering(run(queued(job, site=ordered), events=only)) == 900


def test_it_may_be_the_walltime(run: Run, peer: Peer, ordered: Site) -> None:
    peer.behave(set=600, ordering=3600)
    outcome = run(postqueued(submission(), site=ordered))
    assert (outcome.soft_walltime, ordering(outcome)) == (600, 3600)


def test_it_is_set_without_a_soft_walltime_too(run: Run, peer: Peer, ordered: Site) -> None:
    peer.behave(none=True, ordering=900)
    outcome = run(postqueued(submission(), site=ordered))
    assert (outcome.soft_walltime, ordering(outcome)) == (None, 900)
    assert "left without, ordering 900: " in outcome.log[0][1]


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
@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        pytest.param({"walltime": "02:00:00"}, 7200, id="raised"),
        pytest.param({"walltime": "00:10:00"}, 600, id="lowered"),
        pytest.param({"walltime": "24:00:00", "min_walltime": "00:00:05"}, 86400, id="shrink-to-fit"),
        pytest.param({"min_walltime": "00:00:05", "max_walltime": "24:00:00"}, 86400, id="with a maximum"),
        pytest.param({"walltime": "1000000000001"}, NO_LIMIT, id="beyond every limit"),
        pytest.param({"walltime": "0", "place": "excl"}, 0, id="no time at all"),
        pytest.param({"place": "excl"}, 3600, id="another placement"),
    ],
)
def test_an_altered_job_without_a_new_value_is_ordered_by_its_walltime(
    request_: dict[str, str], expected: int, answer: dict[str, Any], run: Run, peer: Peer, ordered: Site
) -> None:
    """So no user can submit a short job for its place and then raise the walltime."""
    peer.behave(**answer)
    had = altered(submission(), request_, site=ordered, now=NOW, soft_walltime=1800, own={NAME: "2"})
    assert ordering(run(had)) == expected
    hidden = run(replace(had, shows_original=False))
    assert ordering(hidden) == expected
    none = altered(submission(), request_, site=ordered, now=NOW, soft_walltime=1800)
    assert NAME not in run(none).resources, "without a value the formula takes the walltime"


def test_an_altered_project_without_a_new_value_is_ordered_by_the_walltime(run: Run, peer: Peer, ordered: Site) -> None:
    peer.behave(**NOBODY)
    event = altered(submission(), {}, site=ordered, now=NOW, soft_walltime=1800, own={NAME: "2"})
    assert ordering(run(replace(event, job={"project": "short"}))) == 3600


def test_a_job_that_loses_its_walltime_loses_its_value(run: Run, peer: Peer, ordered: Site) -> None:
    peer.behave(set=600, ordering=900)
    job = submission(queue="nodefault")
    event = altered(job, {"walltime": ""}, site=ordered, now=NOW, soft_walltime=1800, own={NAME: "2"})
    outcome = run(event)
    assert (outcome.soft_walltime, outcome.resources[NAME]) == (None, "")


def test_a_manager_who_gives_a_soft_walltime_with_a_walltime_gives_no_place(
    run: Run, peer: Peer, ordered: Site
) -> None:
    event = altered(
        submission(), {"walltime": "00:10:00", "soft_walltime": "00:05:00"}, site=ordered, now=NOW,
        requestor="root", own={NAME: "1000"},
    )  # fmt: skip
    assert ordering(run(event)) == 600


def test_a_manager_who_gives_only_a_soft_walltime_leaves_the_ordering_value(
    run: Run, peer: Peer, ordered: Site
) -> None:
    event = altered(
        submission(), {"soft_walltime": "00:05:00"}, site=ordered, now=NOW, requestor="root", own={NAME: "1000"}
    )
    outcome = run(event)
    assert (outcome.soft_walltime, NAME in outcome.resources) == (300, False)


def test_one_second_is_a_value(run: Run, peer: Peer, ordered: Site) -> None:
    peer.behave(set=600, ordering=1)
    assert ordering(run(postqueued(submission(), site=ordered))) == 1


def test_a_new_job_without_an_answer_has_no_value(run: Run, peer: Peer, ordered: Site) -> None:
    """The formula then takes the walltime, and nothing is written at a site whose policy orders no job."""
    peer.behave(none=True, ordering=900)
    run(postqueued(submission(), site=ordered))
    peer.behave(**NOBODY)
    assert ordering(run(postqueued(submission(), site=ordered))) is None


def test_a_job_with_its_queues_walltime_gets_no_value_before_it_is_in_the_queue(
    run: Run, peer: Peer, ordered: Site
) -> None:
    """A move to another queue would give it another walltime, and PBS lets no hook change it then but postqueuejob."""
    peer.behave(set=600, ordering=900)
    only = {"queuejob": True, "postqueuejob": False, "modifyjob": True, "runjob": True}
    job = submission(walltime=None)
    assert ordering(run(queued(job, site=ordered), events=only)) is None
    assert ordering(run(postqueued(submission(), site=ordered))) == 900


@pytest.mark.parametrize("answer", [NOBODY, {"none": True}])
def test_a_moved_job_without_a_new_value_is_ordered_by_its_walltime(
    answer: dict[str, Any], run: Run, peer: Peer, ordered: Site
) -> None:
    peer.behave(**answer)
    moved = replace(started(submission(walltime=86400), site=ordered, now=NOW, own={NAME: "2"}), name="postqueuejob")
    assert ordering(run(moved)) == 86400


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
    restart_interpreter()
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


def test_a_missing_resource_is_logged_again_when_pbs_restarts_its_interpreter(run: Run, peer: Peer, site: Site) -> None:
    peer.behave(set=600, ordering=900)

    def warned(name: str) -> bool:
        return any("cannot be set" in line for _, line in run(postqueued(submission(), site=site), ordering=name).log)

    restart_interpreter()
    assert [warned(name) for name in ("one", "one", "other", "other")] == [True, False, True, False]
    restart_interpreter()
    assert warned("other")
