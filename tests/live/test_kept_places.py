"""Which waiting jobs keep their place: only those that PBS has planned with their present attributes."""

from dataclasses import replace

import pytest

from softwalltime.jobs import Submission
from softwalltime.live.jobs import ServerJob
from softwalltime.live.kept_places import KeptPlaces
from softwalltime.promises import UNCHANGED_S as UNCHANGED

NOW = 1_000_000
JOB = ServerJob(Submission("1.pbs1", "alice", NOW, 600, select="1:ncpus=16"), "Q", None, None, None, 0)
ALTERED = replace(JOB, submission=replace(JOB.submission, walltime=86_400))
EARLY, LATER, LATEST = NOW + 9000, NOW + 9500, NOW + 9900


def looked(*looks: tuple[int, ServerJob]) -> bool:
    """Whether the job keeps its place after looks at these seconds."""
    places = KeptPlaces()
    for seconds, job in looks:
        places.look([job], NOW + seconds)
    return bool(places.among(["1.pbs1", "2.pbs1"]))


def planned(start: int, job: ServerJob = JOB) -> ServerJob:
    """Return the job with an estimated start, as if read anew."""
    return replace(job, promised=start, submission=replace(job.submission))


def test_a_job_keeps_its_place_from_the_first_estimate_that_is_of_the_job_as_it_is() -> None:
    assert looked((0, JOB), (UNCHANGED, planned(EARLY)))
    assert looked((0, planned(EARLY)), (UNCHANGED, planned(LATER)))
    # The job is planned no more, until the promise is withdrawn.
    assert looked((0, JOB), (UNCHANGED, planned(EARLY)), (UNCHANGED + 60, JOB))


@pytest.mark.parametrize(
    "looks",
    [
        pytest.param([(0, planned(EARLY)), (9999, planned(EARLY))], id="estimate from before the first look"),
        pytest.param([(0, JOB), (UNCHANGED - 1, planned(EARLY)), (9999, planned(EARLY))], id="too early"),
        pytest.param([(0, JOB), (700, planned(EARLY)), (760, planned(EARLY, ALTERED))], id="altered"),
        pytest.param(
            [(0, JOB), (700, planned(EARLY)), (760, planned(EARLY, ALTERED)), (9999, planned(EARLY, ALTERED))],
            id="altered, and PBS still shows the estimate",
        ),
        pytest.param(
            [(0, JOB), (700, planned(EARLY)), (760, planned(EARLY, ALTERED)), (820, planned(LATER, ALTERED)),
             (9999, planned(LATER, ALTERED))],
            id="altered, and the cycle that had begun before writes its estimate",
        ),
        pytest.param(
            [(0, JOB), (700, planned(EARLY)), (760, replace(JOB, state="H")), (1400, planned(EARLY))],
            id="held and released",
        ),
        pytest.param([(0, JOB), (700, planned(EARLY)), (760, replace(JOB, state="R"))], id="started"),
    ],
)  # fmt: skip
def test_an_estimate_of_the_job_as_it_was_keeps_no_place(looks: list[tuple[int, ServerJob]]) -> None:
    assert not looked(*looks)


def test_an_altered_job_that_pbs_plans_anew_keeps_its_place_again() -> None:
    looks = [(0, JOB), (700, planned(EARLY)), (760, planned(EARLY, ALTERED)), (1500, planned(LATEST, ALTERED))]
    assert looked(*looks)
