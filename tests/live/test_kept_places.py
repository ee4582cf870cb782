"""Which waiting jobs keep their place: only those that PBS has planned with their present attributes."""

from dataclasses import replace

import pytest

from softwalltime.core.jobs import Submission
from softwalltime.service.live.alters import KeptPlaces, longest_cycle
from softwalltime.service.live.watch import ServerJob

NOW = 1_000_000
JOB = ServerJob(Submission("1.pbs1", "alice", NOW, 600, select="1:ncpus=16"), "Q", None, None, None)
ALTERED = replace(JOB, submission=replace(JOB.submission, walltime=86_400))
FIRST, SECOND, THIRD = NOW + 9000, NOW + 9500, NOW + 9900
CYCLE = 300


def keeps_its_place(*looks: tuple[int, int, ServerJob]) -> bool:
    """Whether the job keeps its place after these looks: the second, the cycle under way, the job."""
    places = KeptPlaces()
    for seconds, cycle, job in looks:
        places.look([job], NOW + seconds, cycle)
    return bool(places.among(["1.pbs1", "2.pbs1"]))


def planned(start: int, job: ServerJob = JOB) -> ServerJob:
    """Return the job with an estimated start, as if read anew."""
    return replace(job, promised=start, submission=replace(job.submission))


@pytest.mark.parametrize(
    "looks",
    [
        pytest.param([(0, 0, JOB), (60, 0, planned(FIRST))], id="first estimate"),
        pytest.param([(0, 0, planned(FIRST)), (60, 0, planned(SECOND))], id="changed estimate"),
        pytest.param([(0, 0, JOB), (60, CYCLE, planned(FIRST))], id="the next cycle is under way"),
        pytest.param(
            [(0, CYCLE, JOB), (CYCLE, CYCLE, JOB), (CYCLE + 60, CYCLE, planned(FIRST))], id="another cycle has begun"
        ),
        # It stays at the head of the queue as long as the promise is open.
        pytest.param([(0, 0, JOB), (60, 0, planned(FIRST)), (120, 0, JOB)], id="planned no more"),
        pytest.param(
            [(0, 0, planned(FIRST)), (60, 0, planned(FIRST, ALTERED)), (120, 0, planned(SECOND, ALTERED))],
            id="altered, and planned anew",
        ),
    ],
)
def test_a_job_keeps_its_place_from_an_estimate_on_that_is_of_the_job_as_it_is(
    looks: list[tuple[int, int, ServerJob]],
) -> None:
    assert keeps_its_place(*looks)


@pytest.mark.parametrize(
    "looks",
    [
        pytest.param([(0, 0, planned(FIRST)), (9999, 0, planned(FIRST))], id="estimate from before the first look"),
        pytest.param([(0, 0, JOB), (60, 0, planned(FIRST)), (120, 0, planned(FIRST, ALTERED))], id="altered"),
        pytest.param(
            [(0, 0, planned(FIRST)), (60, 0, planned(SECOND)), (90, 0, planned(SECOND, ALTERED)),
             (150, 0, planned(SECOND, ALTERED))],
            id="altered, and PBS still shows the estimate",
        ),
        pytest.param(
            [(0, 0, planned(FIRST)), (60, CYCLE, planned(FIRST, ALTERED)), (120, 0, planned(SECOND, ALTERED)),
             (180, 0, planned(SECOND, ALTERED))],
            id="altered, and the cycle under way writes its estimate",
        ),
        pytest.param(
            [(0, CYCLE, JOB), (CYCLE - 1, CYCLE, JOB), (CYCLE, CYCLE, planned(FIRST))],
            id="the cycle may be the one of the first look",
        ),
        pytest.param(
            [(0, 0, JOB), (60, 0, planned(FIRST)), (120, 0, replace(JOB, state="H")), (180, 0, planned(FIRST))],
            id="held and released",
        ),
        pytest.param([(0, 0, JOB), (60, 0, planned(FIRST)), (120, 0, replace(JOB, state="R"))], id="started"),
    ],
)  # fmt: skip
def test_an_estimate_of_the_job_as_it_was_keeps_no_place(looks: list[tuple[int, int, ServerJob]]) -> None:
    assert not keeps_its_place(*looks)


@pytest.mark.parametrize(
    ("schedulers", "seconds"),
    [
        ([("idle", "00:20:00")], 0),
        ([("down", "00:20:00")], 0),
        ([("scheduling", "00:30:00")], 1800),
        ([("scheduling", "a while")], 1200),
        ([("idle", "00:20:00"), ("scheduling", "00:01:00")], 60),
        ([], 1200),
    ],
)
def test_a_cycle_under_way_has_been_so_for_at_most_the_length_that_pbs_allows(
    schedulers: list[tuple[str, str]], seconds: int
) -> None:
    found = {f"s{n}": {"state": state, "sched_cycle_length": text} for n, (state, text) in enumerate(schedulers)}
    assert longest_cycle(found) == seconds
    assert longest_cycle({"old": {}}) == 1200
