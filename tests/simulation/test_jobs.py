"""Which records are simulated, in which order, on which machine."""

from softwalltime.measure.simulation.simulated_jobs import UNLIMITED_WALLTIME_S, jobs_of
from tests.samples import job


def test_records_that_cannot_be_simulated_are_counted_by_reason() -> None:
    records = [job(ncpus=4), job(ncpus=4, runtime=0), job(ncpus=4, walltime=None), job()]
    found = jobs_of(records)
    assert found.walltime == (1000, UNLIMITED_WALLTIME_S)
    assert found.left_out == {"no runtime": 1, "no processors": 1}
    found = jobs_of(records, limited_only=True)
    assert found.walltime == (1000,)
    assert found.left_out == {"no runtime": 1, "no walltime": 1, "no processors": 1}


def test_jobs_come_by_submission_and_ties_keep_their_order() -> None:
    records = [job(submitted=time, job_id=name, ncpus=1) for time, name in ((5, "a"), (3, "b"), (5, "c"), (3, "d"))]
    assert [each.submission.job_id for each in jobs_of(records).completed] == ["b", "d", "a", "c"]


def test_a_held_job_counts_from_when_it_could_run() -> None:
    held = job(submitted=0, etime=500, end=700, runtime=100, ncpus=1, job_id="held")
    other = job(submitted=300, etime=300, end=700, runtime=100, ncpus=1, job_id="other")
    # The etime of another run, after this one's start, says nothing of it.
    wrong = job(submitted=400, etime=690, end=700, runtime=100, ncpus=1, job_id="wrong")
    found = jobs_of([held, other, wrong])
    assert found.submitted == (300, 400, 500)
    assert [each.submission.job_id for each in found.completed] == ["other", "wrong", "held"]


def test_jobs_larger_than_the_machine_are_refused_and_counted() -> None:
    found, refused = jobs_of([job(ncpus=size) for size in (1, 8, 9)]).that_fit(8)
    assert (found.processors, refused) == ((1, 8), 1)


def test_the_peak_is_what_ran_at_one_time_with_ends_before_starts() -> None:
    records = [
        job(submitted=0, end=10, runtime=10, ncpus=4),
        job(submitted=0, end=20, runtime=10, ncpus=5),
        job(submitted=0, end=15, runtime=3, ncpus=2),
    ]
    assert jobs_of(records).peak() == 7
    assert jobs_of([]).peak() == 0


def test_shifted_jobs_are_sorted_again_and_have_the_new_submission_time() -> None:
    found = jobs_of([job(submitted=time, job_id=str(time), ncpus=1) for time in (0, 10, 20)]).shifted([25, 0, 0])
    assert found.submitted == (10, 20, 25)
    assert [each.submission.job_id for each in found.completed] == ["10", "20", "0"]
    assert [each.submission.submitted for each in found.completed] == [10, 20, 25]
