"""Event order: ends before submissions at one instant, ties in file order, and no look into the future."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from softwalltime.core.jobs import CompletedJob, NoPrediction, Prediction, Submission
from softwalltime.core.reasons import Reason
from softwalltime.measure.replay.fast_replay import drive
from softwalltime.measure.replay.workload import NEVER_RAN, NO_WALLTIME, Workload
from softwalltime.predict.predictors.base import Options, Predictor
from softwalltime.predict.predictors.registry import make
from tests.samples import job


class Diary(Predictor):
    """Writes down what it is told."""

    name = "diary"

    def __init__(self) -> None:
        super().__init__(Options())
        self.entries: list[str] = []

    def learn(self, job: CompletedJob) -> None:
        self.entries.append(f"{job.submission.job_id} ended")

    def predict(self, submission: Submission, now: int, elapsed: int = 0) -> Prediction | NoPrediction:
        self.entries.append(f"{submission.job_id} submitted at {now}")
        return NoPrediction(Reason.BASELINE)


def diary(*jobs: CompletedJob) -> list[str]:
    diary = Diary()
    drive(Workload(jobs), diary)
    return diary.entries


def test_at_one_instant_ends_come_before_submissions_and_ties_stay_in_file_order() -> None:
    jobs = [
        job(job_id="b", submitted=100, end=200),
        job(job_id="a", submitted=100, end=200),
        job(job_id="c", submitted=200, end=300),
    ]
    assert diary(*jobs) == [
        "b submitted at 100", "a submitted at 100", "b ended", "a ended", "c submitted at 200", "c ended",
    ]  # fmt: skip


def test_file_order_decides_between_ends_also_where_submission_order_is_another() -> None:
    jobs = [job(job_id="late", submitted=50, end=200), job(job_id="early", submitted=10, end=200)]
    assert diary(*jobs) == ["early submitted at 10", "late submitted at 50", "late ended", "early ended"]


def test_a_record_that_ends_before_its_submission_does_not_teach_its_own_prediction() -> None:
    assert diary(job(job_id="x", submitted=100, end=90, runtime=5)) == ["x submitted at 100", "x ended"]


def test_a_limit_keeps_the_first_jobs_submitted() -> None:
    jobs = [job(job_id=str(n), submitted=100 - n) for n in range(10)]
    assert [each.submission.job_id for each in Workload(jobs, 3).jobs] == ["9", "8", "7"]


def test_jobs_that_cannot_be_judged_are_counted_by_reason() -> None:
    jobs = [job(), job(runtime=0), job(walltime=None), job(walltime=0), job(runtime=0, walltime=None)]
    workload = Workload(jobs)
    assert workload.scored.tolist() == [True, False, False, False, False]
    assert workload.skipped() == {NEVER_RAN: 2, NO_WALLTIME: 2}


histories = st.lists(
    st.builds(
        lambda user, submitted, wait, runtime, walltime: job(
            user, submitted=submitted, end=submitted + wait + runtime, runtime=runtime, walltime=walltime
        ),
        st.sampled_from(["alice", "bob"]),
        st.integers(0, 500),
        st.integers(0, 50),
        st.integers(0, 200),
        st.sampled_from([None, 60, 100, 150, 1000]),
    ),
    max_size=40,
)


@given(histories, st.integers(0, 500), st.integers(1, 10**6))
def test_nothing_that_ends_later_changes_an_earlier_prediction(
    jobs: list[CompletedJob], now: int, other_runtime: int
) -> None:
    jobs.sort(key=lambda each: each.submission.submitted)
    changed = [
        replace(each, runtime=other_runtime, end=each.end + other_runtime) if each.end > now else each for each in jobs
    ]
    for spec in ("v1", "v3", "percentile:least=1"):
        before = drive(Workload(jobs), make(spec), 1).soft_walltimes
        after = drive(Workload(changed), make(spec), 1).soft_walltimes
        known = [n for n, each in enumerate(jobs) if each.submission.submitted <= now]
        assert before[known].tolist() == after[known].tolist()
