"""Jobs that a daemon reads at its start, and jobs stored since."""

import pytest
from sqlalchemy import Connection, text

from softwalltime.core.jobs import CompletedJob, DecisionRecord
from softwalltime.core.states import State
from softwalltime.measure.workloads.synthetic import generate
from softwalltime.store.completed_jobs import read_jobs
from softwalltime.store.learning_jobs import last_ended_since, last_job, read_history, read_new, set_teaching
from softwalltime.store.predictions import add_decisions
from tests.samples import job
from tests.store.stored import add_jobs


@pytest.fixture
def jobs(connection: Connection) -> list[CompletedJob]:
    """Some hundred jobs in the store, in learning order."""
    add_jobs(connection, generate(800, seed=11, users=12))
    return list(read_jobs(connection))


def test_without_bounds_it_is_everything(connection: Connection, jobs: list[CompletedJob]) -> None:
    assert list(read_history(connection, None, None, jobs[-1].end)) == jobs


@pytest.mark.parametrize("per_user", [0, 1, 2, 15])
@pytest.mark.parametrize("days", [None, 0, 3])
def test_it_is_each_users_last_jobs_and_those_of_the_last_days(
    connection: Connection, jobs: list[CompletedJob], per_user: int, days: int | None
) -> None:
    since = None if days is None else jobs[-1].end - days * 86400
    expected = set()
    for user in {each.submission.user for each in jobs}:
        of_user = [number for number, each in enumerate(jobs) if each.submission.user == user]
        for condition in (CompletedJob.ran, CompletedJob.scored):
            kept = [number for number in of_user if condition.fget(jobs[number])]
            expected |= set(kept[-per_user:] if per_user else [])
    expected |= {number for number, each in enumerate(jobs) if since is not None and each.end >= since}
    assert list(read_history(connection, per_user, since, jobs[-1].end)) == [
        jobs[number] for number in sorted(expected)
    ]


def test_what_ended_later_comes_as_well_and_displaces_nothing(connection: Connection, jobs: list[CompletedJob]) -> None:
    now = jobs[len(jobs) // 2].end
    past = [each for each in jobs if each.end <= now]
    last = {each.submission.user: each for each in past if each.scored}
    expected = [each for each in past if last.get(each.submission.user) is each or each in _last_that_ran(past)]
    expected += [each for each in jobs if each.end > now]
    assert list(read_history(connection, 1, None, now)) == expected


@pytest.mark.parametrize("count", [0, 1, 7, 10**6])
def test_since_when_the_last_jobs_ended(connection: Connection, jobs: list[CompletedJob], count: int) -> None:
    now = jobs[len(jobs) // 2].end
    past = [each.end for each in jobs if each.end <= now]
    since = last_ended_since(connection, count, now)
    found = [end for end in past if end >= since]
    # Of several that ended in the same second all or none count.
    assert len(found) <= count
    assert since == 0 or past[-count - 1] == since - 1


def _last_that_ran(jobs: list[CompletedJob]) -> list[CompletedJob]:
    return list({each.submission.user: each for each in jobs if each.ran}.values())


def test_only_what_teaches_counts(connection: Connection) -> None:
    deleted = job(job_id="2.srv", end=900, exit_status=271)
    add_jobs(connection, [job(job_id="1.srv", end=800, exit_status=0), deleted])
    ids = [each.submission.job_id for each in read_history(connection, 1, None, 10**6)]
    assert ids == ["2.srv"]
    ids = [each.submission.job_id for each in read_history(connection, 1, None, 10**6, {State.FINISHED})]
    assert ids == ["1.srv"]
    call = text("SELECT softwalltime.last2('alice', 1000), softwalltime.usage_share('alice', 1000)")
    assert set_teaching(connection, {State.DELETED})
    assert not set_teaching(connection, {State.DELETED})
    both = connection.execute(call).one()
    assert set_teaching(connection, set())
    assert (tuple(both), tuple(connection.execute(call).one())) == ((100.0, 0.1), (None, None))


def test_new_jobs_come_in_the_order_in_which_they_became_known(connection: Connection) -> None:
    assert last_job(connection).id == 0
    add_jobs(connection, [job(job_id="1.srv", end=900)])
    seen = last_job(connection)
    add_jobs(connection, [job(job_id="2.srv", end=500), job(job_id="3.srv", end=400), job(job_id="1.srv", end=900)])
    new = list(read_new(connection, seen))
    assert [each.submission.job_id for _, each in new] == ["2.srv", "3.srv"]
    assert new[-1][0] == last_job(connection)
    assert list(read_new(connection, last_job(connection))) == []


def test_a_decision_is_recorded_with_what_it_rests_on(connection: Connection) -> None:
    submission = job("al\0ice").submission
    decision = DecisionRecord(5, "runjob", submission, "on", "v1", 99.5, 100, "set", "because", 37, 2, 410)
    add_decisions(connection, [decision, decision])
    rows = connection.execute(text("select * from softwalltime.predictions order by id")).mappings().all()
    assert len(rows) == 2
    assert {name: value for name, value in rows[0].items() if name != "id"} == {
        "predicted_at": 5, "event": "runjob", "job_id": "1.srv", "user_name": r"al\x00ice", "project": "p", "queue": "",
        "walltime": 1000, "mode": "on", "predictor": "v1", "predicted": 99.5, "soft_walltime": 100, "action": "set",
        "basis": "because", "took": 37, "timeouts": 2, "exchange_before": 410, "reason": "predicted",
            "had": None, "ordering": None,
    }  # fmt: skip
