"""The prediction that counts for a job; the daily figures are correct for any order of arrival."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, text

from softwalltime.core.jobs import DecisionRecord
from softwalltime.store.daily import refresh
from softwalltime.store.migrations import downgrade, upgrade
from softwalltime.store.retention import RetentionRun
from tests.store.monitored import DAY, HOUR, NOW, decision, ended, found, fresh, one, store

pytestmark = pytest.mark.postgres

TODAY = datetime.fromtimestamp(NOW, UTC).date()


@pytest.mark.parametrize(
    ("decisions", "jobs", "expected"),
    [
        # (soft walltime that counts, mode) by what is recorded.
        ([decision()], [ended()], (600, "on")),
        ([decision(), decision(at=NOW - 5000, event="modifyjob", soft_walltime=700)], [ended()], (700, "on")),
        ([decision(), decision(at=NOW - HOUR, event="runjob", soft_walltime=HOUR)], [ended()], (600, "on")),
        ([decision(), decision(at=NOW - 10, event="modifyjob", soft_walltime=800)], [ended()], (600, "on")),
        ([decision(soft_walltime=600, mode="shadow", action="shadow")], [ended()], (600, "shadow")),
        # The walltime itself takes a soft walltime back, and so does an alter of the walltime below it.
        ([decision(soft_walltime=HOUR)], [ended()], (HOUR, "on")),
        ([decision(soft_walltime=1200)], [ended(walltime=1000)], (1000, "on")),
        ([decision(soft_walltime=None, predicted=None, action="none")], [ended()], (HOUR, "on")),
        # A subjob is predicted with its array, unless it was on its own.
        ([decision("5[].srv")], [ended("5[3].srv")], (600, "on")),
        ([decision("5[].srv"), decision("5[3].srv", soft_walltime=700)], [ended("5[3].srv")], (700, "on")),
        # Another job had that id before.
        ([decision(at=NOW - 400 * DAY)], [ended()], None),
        ([decision("2.srv")], [ended()], None),
        # At queuejob it had no id yet.  A second later by PBS's clock it is there.
        ([decision("", event="queuejob")], [ended()], (600, "on")),
        ([decision("", event="queuejob", at=NOW - 2 * HOUR - 1)], [ended()], (600, "on")),
        ([decision("", event="queuejob"), decision(event="modifyjob", soft_walltime=700)], [ended()], (700, "on")),
        ([decision("", event="queuejob")], [ended("5[3].srv")], (600, "on")),
        ([decision("", event="queuejob", soft_walltime=HOUR)], [ended()], (HOUR, "on")),
        ([decision("", event="queuejob", at=NOW - 2 * HOUR - 9)], [ended()], None),
        ([decision("", event="queuejob", walltime=7200)], [ended()], None),
        ([decision("", event="queuejob")], [ended(user="bob")], None),
        ([decision("", event="queuejob", soft_walltime=700), decision("", event="queuejob", at=NOW - 2 * HOUR + 1)],
         [ended()], (700, "on")),
    ],
)  # fmt: skip
def test_the_last_prediction_made_while_it_waited_counts(
    engine: Engine, decisions: list[DecisionRecord], jobs: list[Any], expected: tuple[int, str] | None
) -> None:
    store(engine, jobs, decisions)
    fresh(engine)
    got = found(engine, "scores")
    if expected is None:
        assert got == []
        assert one(engine, "coverage")["asked"] == 0
        return
    planned, mode = expected
    assert [row["mode"] for row in got] == [mode]
    assert got[0]["mean_absolute_error"] == abs(planned - 900)


def test_mode_off_is_no_prediction_to_be_judged(engine: Engine) -> None:
    store(engine, [ended()], [decision(mode="off", soft_walltime=None, predicted=None, action="none")])
    fresh(engine)
    assert found(engine, "scores") == []
    assert one(engine, "coverage")["asked"] == 1


def test_what_comes_later_changes_its_day_and_month(engine: Engine) -> None:
    store(engine, [ended()])
    assert fresh(engine) == 1
    assert found(engine, "scores_by_day") == []
    # PostgreSQL was away when the prediction was made: it is recorded after the job has ended.
    store(engine, [], [decision()])
    assert fresh(engine) == 1
    assert one(engine, "scores_by_day")["jobs"] == one(engine, "scores_by_user")["jobs"] == 1
    store(engine, [ended("2.srv", runtime=500)], [decision("2.srv")])
    fresh(engine)
    row = one(engine, "scores_by_day")
    assert (row["jobs"], row["underestimated"], row["accuracy_median"]) == (
        2,
        0.5,
        pytest.approx((600 / 900 + 500 / 600) / 2),
    )
    assert one(engine, "scores_by_predictor")["jobs"] == 2
    before = found(engine, "scores_by_user")
    assert fresh(engine) <= 1
    assert found(engine, "scores_by_user") == before
    # A store of the first release has the same sums.
    before = found(engine, "scores_by_queue")
    downgrade(engine, "0001")
    upgrade(engine)
    assert found(engine, "scores_by_queue") == before != []


@pytest.mark.parametrize(
    ("job_id", "predicted_id", "event"),
    [("1.srv", "1.srv", "postqueuejob"), ("1.srv", "", "queuejob"), ("5[3].srv", "5[].srv", "postqueuejob")],
)
def test_a_prediction_that_comes_late_changes_the_day_on_which_its_job_ended(
    engine: Engine, job_id: str, predicted_id: str, event: str
) -> None:
    midnight = NOW - NOW % DAY
    store(engine, [ended(job_id, start=midnight - 60, runtime=900)])
    assert fresh(engine) == 1
    assert one(engine, "coverage")["asked"] == 0
    shadow = decision(predicted_id, at=midnight - 60 - HOUR, event=event, mode="shadow", action="shadow")
    store(engine, [], [shadow])
    assert fresh(engine) == 2, "the day of the request, and that of the job's end"
    assert one(engine, "coverage")["asked"] == 1


def test_a_stopped_refresh_continues(engine: Engine) -> None:
    store(engine, [ended(f"{number}.srv", start=NOW - number * DAY) for number in range(1, 40)])
    steps = refresh(engine, NOW)
    assert [next(steps) for _ in range(6)][-3:] == [1, 1, 1]
    steps.close()
    row = one(engine, "freshness")
    assert (row["refreshed_at"], row["stale_days"]) == (None, 35)
    newest = found(engine, "SELECT max(day) AS day, count(*) AS days FROM softwalltime.coverage")
    assert newest == [{"day": TODAY - timedelta(days=1), "days": 4}], "the newest days first"
    assert fresh(engine) == 35
    row = one(engine, "freshness")
    assert (row["refreshed_at"].timestamp(), row["stale_days"]) == (NOW, 0)
    assert found(engine, "SELECT sum(jobs)::int AS jobs FROM softwalltime.walltime_honesty") == [{"jobs": 39}]


def test_jobs_from_the_future_wait_for_their_day_and_wrong_clocks_stop_nothing(engine: Engine) -> None:
    store(engine, [ended(), ended("2.srv", start=NOW + 3 * DAY), ended("3.srv", start=10**15), ended("4.srv", start=5)])
    assert fresh(engine) == 2
    assert sum(row["jobs"] for row in found(engine, "coverage")) == 2
    assert fresh(engine, NOW + 4 * DAY) == 1
    assert sum(row["jobs"] for row in found(engine, "coverage")) == 3


def test_absurd_numbers_stop_nothing(engine: Engine) -> None:
    huge = 2**62
    store(
        engine,
        [ended(walltime=huge, runtime=900), ended("2.srv", walltime=1), ended("3.srv", walltime=huge)],
        [decision(walltime=huge, took=2**31 - 1, timeouts=2**31 - 1, exchange_before=2**31 - 1) for _ in range(3)],
    )
    fresh(engine)
    assert one(engine, "scores")["mean_request_error"] == pytest.approx(huge)
    assert one(engine, "hook_latency_by_day")["timeouts"] == 2**31 - 1


def test_pruned_jobs_stay_in_the_figures_until_these_are_too_old(engine: Engine) -> None:
    store(engine, [ended(f"{number}.srv") for number in range(10)], [decision(f"{number}.srv") for number in range(10)])
    fresh(engine)
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM softwalltime.completed_jobs WHERE job_id < '5'"))
        connection.execute(text("DELETE FROM softwalltime.predictions WHERE job_id < '5'"))
    store(engine, [ended("late.srv")])
    fresh(engine)
    assert one(engine, "scores_by_day")["jobs"] == one(engine, "hook_latency_by_day")["requests"] == 10
    # Some figures are of a month, which is too old when its last day is.
    later = NOW + (31 + 30) * DAY
    store(engine, [ended("new.srv", start=later - HOUR)])
    assert dict(RetentionRun(engine, 30, later))["daily figures"] > 0
    assert (
        found(engine, "scores_by_day") == found(engine, "scores_by_user") == found(engine, "hook_latency_by_day") == []
    )


def test_two_refreshes_at_once_do_not_disturb_each_other(engine: Engine) -> None:
    from threading import Thread

    store(engine, [ended(f"{number}.srv", start=NOW - number * DAY) for number in range(1, 100)])
    problems: list[BaseException] = []

    def run() -> None:
        try:
            fresh(engine)
        except BaseException as error:
            problems.append(error)

    threads = [Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert sum(row["jobs"] for row in found(engine, "walltime_honesty")) == 99
    assert len(found(engine, "coverage")) == 99
