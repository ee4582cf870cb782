"""Jobs as columns are the same jobs, and a replay of them is the same replay."""

from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softwalltime.core.jobs import CompletedJob, Submission, job_of, values_of
from softwalltime.measure.replay import job_columns
from softwalltime.measure.replay.fast_replay import drive_specs
from softwalltime.measure.replay.job_columns import JobColumns
from softwalltime.measure.replay.workload import Workload
from softwalltime.measure.workloads.synthetic import generate
from tests.samples import completed_jobs, job


@settings(max_examples=60)
@given(st.lists(completed_jobs(), max_size=12), st.booleans())
def test_any_jobs_come_back_as_they_were(jobs: list[CompletedJob], as_values: bool) -> None:
    columns = JobColumns.of(map(values_of, jobs) if as_values else jobs)
    assert list(columns) == jobs
    assert [columns[index] for index in range(len(jobs))] == jobs
    assert list(columns[1::2]) == jobs[1::2]
    assert list(columns.select(np.arange(len(jobs))[::-1])) == jobs[::-1]
    assert list(columns.rows("user", "start")) == [(each.submission.user, each.start) for each in jobs]


def test_a_job_made_of_values_is_like_any_other() -> None:
    made, plain = job_of(values_of(job())), job()
    assert (made, hash(made), repr(made), type(made)) == (plain, hash(plain), repr(plain), CompletedJob)
    assert type(made.submission) is Submission
    assert replace(made, end=5) == replace(plain, end=5)
    with pytest.raises(FrozenInstanceError):
        made.end = 5
    with pytest.raises(FrozenInstanceError):
        made.submission.user = "mallory"
    assert [field.name for field in (*fields(Submission), *fields(CompletedJob)[1:])] == list(job_columns.NAMES)


def test_many_jobs_of_every_size_are_kept_across_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_columns, "CHUNK", 7)
    jobs = [
        job(
            f"user{n % 300}", job_id=f"{n}.sérvé\udcff", end=n if n < 50 else 2**40 + n, mem=2**62 if n == 60 else None,
            walltime=None if n % 3 else 2**31 - n, interactive=(None, True, False)[n % 3], job_name=f"name {n % 20}",
        )
        for n in range(100)
    ]  # fmt: skip
    columns = JobColumns.of(jobs)
    assert list(columns) == jobs
    assert columns.numbers("mem").tolist() == [2**62 if n == 60 else -1 for n in range(100)]
    assert columns.numbers("walltime", 0).tolist() == [each.submission.walltime or 0 for each in jobs]
    with pytest.raises(IndexError):
        columns[100]
    with pytest.raises(KeyError, match="user is not a field of numbers"):
        columns.numbers("user")


def test_a_replay_of_columns_is_that_of_the_objects() -> None:
    jobs = generate(3000, seed=3)
    objects, columns = Workload(jobs), Workload(JobColumns.of(jobs))
    assert list(columns.jobs) == list(objects.jobs)
    assert columns.skipped() == objects.skipped()
    for running in ("walltime", "v3"):
        expected = drive_specs(objects, ["v1", "percentile"], running)
        found = drive_specs(columns, ["v1", "percentile"], running)
        for spec, result in found.items():
            assert result.soft_walltimes.tolist() == expected[spec].soft_walltimes.tolist()
            assert result.at_start.tolist() == expected[spec].at_start.tolist()


def test_a_job_takes_less_than_200_bytes() -> None:
    jobs = generate(20_000, seed=2)
    columns = JobColumns.of(jobs)
    size = sum(columns.column(name).nbytes for name in job_columns.NAMES)
    assert size / len(jobs) < 200


def test_a_field_is_replaced_for_each_job_also_where_jobs_are_there_twice() -> None:
    jobs = [job(f"user{n % 3}", job_id=str(n), submitted=n) for n in range(1000)]
    columns, order = JobColumns.of(jobs), np.array([5, 5, 700, 1])
    twice = columns.select(order).replaced("job_id", ["a", "b", "c", "d"]).replaced("submitted", [1, 2, 3, 4])
    expected = [
        replace(jobs[index], submission=replace(jobs[index].submission, job_id=name, submitted=n + 1))
        for n, (index, name) in enumerate(zip(order.tolist(), "abcd", strict=True))
    ]
    assert list(twice) == [twice[n] for n in range(4)] == expected
    assert twice[-1] == expected[-1]
    assert list(twice[1:3]) == expected[1:3]
    assert list(twice.select(np.array([3, 0]))) == [expected[3], expected[0]]
    assert twice.numbers("submitted").tolist() == [1, 2, 3, 4]
    assert list(twice.values("job_id")) == list("abcd")
    assert twice == JobColumns.of(expected) != columns
    assert list(columns) == jobs


def test_jobs_by_index_are_kept_as_objects_in_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_columns, "BLOCK", 10)
    monkeypatch.setattr(job_columns, "BLOCKS", 3)
    jobs = [job(job_id=str(n)) for n in range(205)]
    columns = JobColumns.of(jobs)
    assert columns[7] is columns[7]
    for index in (*range(205), *range(204, -1, -1), 0, 100, 200, -1, -205):
        assert columns[index] == jobs[index]
    assert sum(map(len, columns._blocks.values())) <= 30
    for index in (205, -206):
        with pytest.raises(IndexError):
            columns[index]


def test_without_jobs_there_are_columns_too() -> None:
    empty = JobColumns.of([])
    assert (len(empty), list(empty), list(empty.rows("user"))) == (0, [], [])
    assert len(Workload(empty).jobs) == 0
