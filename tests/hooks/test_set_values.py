"""Whatever is requested and answered, what the hook sets is valid for the job as it will be."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from softwalltime.emulation.pbs.pbs_events import Event, Name, Site, altered, postqueued, queued, started
from tests.hooks.jobs import MINIMUM, NO_LIMIT, NOBODY, NOW, Run, submission
from tests.hooks.peer import Peer

NAME = "predicted"
DURATIONS = st.sampled_from([None, 0, 1, 2, 59, 60, 61, 600, 3600, 86400, NO_LIMIT, NO_LIMIT + 1, 1_000_000_000_001])
ANSWERS: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.sampled_from([NOBODY, {"none": True}, {"share": 0.5}, {"share": 1}, {"raw": "nonsense\n"}]),
    st.fixed_dictionaries(
        {"set": st.sampled_from([0, 1, 60, 599, 3600, 10**13]), "ordering": st.sampled_from([1, 600])}
    ),
)
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "walltime": DURATIONS,
        "min_walltime": DURATIONS,
        "max_walltime": DURATIONS,
        "place": st.sampled_from(["excl", "free", "pack:excl"]),
        "ncpus": st.integers(1, 4),
    },
)


@st.composite
def events(draw: st.DrawFn, site: Site) -> Event:
    job = submission(
        walltime=draw(DURATIONS), min_walltime=draw(st.sampled_from([None, None, 600])),
        queue=draw(st.sampled_from(["short", "nodefault"])),
    )  # fmt: skip
    soft, had = draw(DURATIONS), draw(st.sampled_from([None, 2, 900]))
    own = {} if had is None else {NAME: str(had)}
    name: Name = draw(st.sampled_from(["queuejob", "postqueuejob", "modifyjob", "modifyjob", "modifyjob", "runjob"]))
    if name == "queuejob":
        return queued(job, site=site, array_indices="1-3")
    if name == "postqueuejob":
        return postqueued(job, site=site, soft_walltime=soft, own=own)
    if name == "runjob":
        return started(job, site=site, now=NOW, soft_walltime=soft, own=own)
    requested = {resource: "" if value is None else str(value) for resource, value in draw(CHANGES).items()}
    event = altered(
        job, requested, site=site, now=NOW, soft_walltime=soft, own=own,
        state=draw(st.sampled_from(["Q", "H", "B", "R"])), requestor=draw(st.sampled_from(["alice", "root"])),
    )  # fmt: skip
    if draw(st.booleans()):
        event = replace(event, shows_original=False)
    if draw(st.booleans()):
        event = replace(event, job={**event.job, "project": "other"})
    return event


def resources(event: Event) -> dict[str, str]:
    """Return the resources that the job will have by the request, without those of the hook."""
    before = (event.original or event.job).get("Resource_List", {})
    request = event.job.get("Resource_List", {})
    assert not isinstance(before, str)
    assert not isinstance(request, str)
    return {name: value for name, value in {**before, **request}.items() if value != ""}


def seconds(value: str | None) -> int | None:
    total = 0
    for part in (value or "").split(":"):
        total = 60 * total + int(part or 0)
    return None if value is None else total


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), answer=ANSWERS)
def test_every_value_that_is_set_fits_the_job(
    data: st.DataObject, answer: dict[str, Any], run: Run, peer: Peer, site: Site
) -> None:
    event = data.draw(events(replace(site, resources={**site.resources, NAME: "pbs_int"})))
    peer.behave(**answer)
    outcome = run(event)
    job = resources(event)
    default = {"short": 1800, "nodefault": None}[str((event.original or event.job)["queue"])]
    walltime = seconds(job["walltime"]) if "walltime" in job else default if event.name != "runjob" else None
    limit = NO_LIMIT if walltime is None else min(walltime, NO_LIMIT)
    soft = outcome.resources.get("soft_walltime", "")
    assert soft == "" or MINIMUM <= int(soft) <= limit
    value = outcome.resources.get(NAME, "")
    longest = max(limit, seconds(job.get("max_walltime")) or 0)
    assert value == "" or min(1, limit) <= int(value) <= longest


@pytest.mark.parametrize("resource", ["walltime", "min_walltime", "max_walltime", "place", "select", "ncpus", "mem"])
@given(answer=st.sampled_from([NOBODY, {"none": True}, {"raw": "nonsense\n"}, {"set": 10**13}]), shown=st.booleans())
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_value_outlives_the_attributes_that_it_was_predicted_from(
    resource: str, answer: dict[str, Any], shown: bool, run: Run, peer: Peer, site: Site
) -> None:
    """Without a valid answer for the new attributes both values are those of the walltime, or gone."""
    ordered = replace(site, resources={**site.resources, NAME: "pbs_int"})
    changed = {"walltime": "24:00:00", "min_walltime": "60", "max_walltime": "86400", "place": "excl", "mem": "1gb"}
    event = altered(
        submission(), {resource: changed.get(resource, "2")}, site=ordered, now=NOW, soft_walltime=60, own={NAME: "2"}
    )
    peer.behave(**answer)
    outcome = run(replace(event, shows_original=shown))
    walltime = 86400 if resource == "walltime" else 3600
    assert outcome.resources["soft_walltime"] in ("", walltime)
    assert outcome.resources[NAME] == (86400 if resource == "max_walltime" else walltime)
