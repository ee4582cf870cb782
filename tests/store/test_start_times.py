"""Forecasts of starts: replaced, kept, judged by what happened, thinned out."""

from dataclasses import replace
from itertools import pairwise

import pytest
from sqlalchemy import Connection, Engine, text

from softwalltime.core.jobs import CurrentJob
from softwalltime.measure.forecast.calibration import WaitForecast
from softwalltime.store.completed_jobs import add_interrupted
from softwalltime.store.current import set_current
from softwalltime.store.forecast_rows import (
    FORGOTTEN_AFTER_S,
    MAX_GAP_S,
    StoredStart,
    judge_starts,
    judged_starts,
    open_starts,
    publish_starts,
    read_expected,
    start_quality,
    withdraw_starts,
)
from softwalltime.store.retention import THIN_AFTER_S, RetentionRun
from tests.samples import job
from tests.store.stored import add_jobs

pytestmark = pytest.mark.postgres

HOUR = 3600


@pytest.fixture
def now(connection: Connection) -> int:
    """The database's time, of which views take the last days."""
    return int(connection.execute(text("SELECT extract(epoch FROM now())::bigint")).scalar_one())


def forecast(job_id: str, now: int, wait: int | None, ctime: int | None = None, **more: object) -> StoredStart:
    """A forecast with a 50% range of 10 minutes and a 90% range of an hour on either side."""
    expected = None if wait is None else now + wait
    ends = [None if expected is None else expected + each for each in (-HOUR, -600, 600, HOUR)]
    start = StoredStart(
        job_id, now if ctime is None else ctime, expected, *ends, pbs_estimate=None, walltime=7200, ncpus=4,
        user_name="ann", group_name="staff", project="p", queue="long", waits_for="first in the queue",
    )  # fmt: skip
    return replace(start, **more)  # type: ignore[arg-type]


def publish(connection: Connection, now: int, *starts: StoredStart, server: str = "srv") -> frozenset[str]:
    """Publish forecasts; return the jobs of those that are kept to be judged."""
    return publish_starts(connection, server, starts, now, fresh=600)


def kept(connection: Connection) -> list[tuple[object, ...]]:
    rows = connection.execute(
        text("SELECT job_id, forecast_at, started, is_first FROM softwalltime.start_times ORDER BY 1, 2")
    )
    return [tuple(row) for row in rows]


def test_the_newest_forecast_replaces_the_one_before_and_jobs_that_wait_no_more_are_gone(
    connection: Connection, now: int
) -> None:
    publish(connection, now, forecast("1.srv", now, 600), forecast("2.srv", now, None), forecast("3.srv", now, 60))
    publish(connection, now, forecast("1.other", now, 600), server="other")
    later = now + 300
    publish(connection, later, forecast("1.srv", later, 900, user_name="b\0b"), forecast("2.srv", later, None))
    found = {each.start.job_id: each for each in read_expected(connection)}
    assert found.keys() == {"1.srv", "2.srv", "1.other"}
    one = found["1.srv"]
    assert (one.start.expected, one.forecast_at, one.server) == (later + 900, later, "srv")
    assert [each.start.job_id for each in read_expected(connection, user="b\0b", queue="long")] == ["1.srv"]
    assert read_expected(connection, project="other") == read_expected(connection, group="other") == []
    rows = connection.execute(text("SELECT job_id, expected FROM softwalltime.starts_now WHERE server = 'srv'")).all()
    assert {row.job_id: row.expected is None for row in rows} == {"1.srv": False, "2.srv": True}
    (queue,) = connection.execute(text("SELECT * FROM softwalltime.starts_by_queue WHERE server = 'srv'")).all()
    assert (queue.queue, queue.waiting, queue.forecast, queue.mean_wait.seconds) == ("long", 2, 1, 900)
    assert queue.range_factor is None


def test_views_say_by_how_much_judged_forecasts_make_ranges_wider(connection: Connection, now: int) -> None:
    # Ranges of 2 hours, which were 1 hour, half an hour and nothing before any correction.
    widths = {"0.srv": 3600.0, "1.srv": 1800.0, "2.srv": 0.0}
    raws = {job_id: (0.0,) * 5 + (0.0, width / 3, width / 2, width) for job_id, width in widths.items()}
    publish(connection, now, *(forecast(job_id, now, 900, raw=raw) for job_id, raw in raws.items()))
    publish(connection, now, forecast("9.srv", now, 900), forecast("8.srv", now, None), server="other")
    rows = connection.execute(text("SELECT job_id, range_factor FROM softwalltime.starts_now")).all()
    assert dict(map(tuple, rows)) == {"0.srv": 2, "1.srv": 4, "2.srv": None, "9.srv": None, "8.srv": None}
    rows = connection.execute(text("SELECT server, range_factor FROM softwalltime.starts_by_queue")).all()
    assert dict(map(tuple, rows)) == {"srv": 4, "other": None}


def test_the_first_forecast_and_one_an_hour_are_kept(connection: Connection, now: int) -> None:
    old = forecast("old.srv", now, 9 * HOUR, ctime=now - HOUR)
    for minutes in (0, 5, 59, 60, 65, 120):
        at = now + 60 * minutes
        first = forecast("1.srv", at, 9 * HOUR, ctime=now - 60)
        found = publish(connection, at, first, old, forecast("none.srv", at, None))
        assert found == ({"1.srv", "old.srv"} if minutes % 60 == 0 else set())
    ones = [row[1:] for row in kept(connection) if row[0] == "1.srv"]
    assert ones == [(now, None, True), (now + MAX_GAP_S, None, False), (now + 2 * MAX_GAP_S, None, False)]
    assert {row[3] for row in kept(connection) if row[0] == "old.srv"} == {False}
    assert not [row for row in kept(connection) if row[0] == "none.srv"]


def test_more_forecasts_are_kept_before_a_start_and_fewer_of_a_job_that_should_have_started(
    connection: Connection, now: int
) -> None:
    for at in range(now, now + 6 * HOUR, 300):
        expected = max(now + 2 * HOUR - at, 0)
        publish(connection, at, forecast("1.srv", at, expected, ctime=now))
    minutes = [(int(str(row[1])) - now) // 60 for row in kept(connection)]
    # At half of the expected wait each, then at an eighth of the time since the first one, at most an hour apart.
    assert minutes[:6] == [0, 40, 70, 90, 105, 120]
    assert all(10 <= later - one <= 60 for one, later in pairwise(minutes[5:]))
    assert len(minutes) < 20


def test_judged_forecasts_are_returned_once_and_read_again_with_what_they_were(
    connection: Connection, now: int
) -> None:
    raw = (0.0, 60.0, 100.0, 200.0, 300.0, 50.0, 80.0, 120.0, 150.5)
    publish(connection, now, forecast("1.srv", now, 100, raw=raw), forecast("2.srv", now, 100))
    assert judge_starts(connection, "srv", now) == judged_starts(connection, "srv", 10) == []
    set_current(connection, [
        CurrentJob(job(job_id=f"{each}.srv", submitted=now).submission, "srv", now + 90) for each in (1, 2)
    ])  # fmt: skip
    judged = sorted(judge_starts(connection, "srv", now + 120))
    assert [(each.server, each.job_id, each.forecast_at, each.started) for each in judged] == [
        ("srv", "1.srv", now, now + 90), ("srv", "2.srv", now, now + 90),
    ]  # fmt: skip
    assert (tuple(judged[0].raw or ()), judged[1].raw) == (raw, None)
    assert WaitForecast.of(raw).values == raw
    assert judge_starts(connection, "srv", now + 180) == []
    assert judged_starts(connection, "srv", 10) == judged[:1]
    # Kept by another version, or changed by hand: nobody learns from it, and nothing fails.
    for raw in ("{1,2,3}", "{}", "{1,2,3,4,NULL,6,7,8,9}", "{1,2,3,4,NaN,6,7,8,9}", "{1,2,3,4,5,6,7,8,9,10}"):
        connection.execute(text("UPDATE softwalltime.start_times SET raw = :raw WHERE job_id = '1.srv'"), {"raw": raw})
        assert [each.raw for each in judged_starts(connection, "srv", 10)] == [None]
    assert judged_starts(connection, "srv", 0) == judged_starts(connection, "other", 10) == []


def test_each_server_judges_and_forgets_its_own_forecasts_only(connection: Connection, now: int) -> None:
    raw = (0.0, 60.0, 100.0, 200.0, 300.0, 50.0, 80.0, 120.0, 150.5)
    for server in ("srv", "other"):
        names = [f"{name}.{server}" for name in ("1", "gone")]
        publish(connection, now, *(forecast(name, now, 100, raw=raw) for name in names), server=server)
        later = now + 2 * FORGOTTEN_AFTER_S
        add_jobs(connection, [
            job(job_id=f"1.{server}", start=now + 90, end=later, server=server, submitted=now)
        ])  # fmt: skip
        publish(connection, later, server=server)
    for server in ("srv", "other"):
        judged = judge_starts(connection, server, now + 3 * FORGOTTEN_AFTER_S)
        # A daemon learns from what it judges, so no other may do that in its place.
        assert [(each.server, each.job_id, each.started) for each in judged] == [(server, f"1.{server}", now + 90)]
        left = {"1.srv", "1.other"} | ({"gone.other"} if server == "srv" else set())
        assert {row[0] for row in kept(connection)} == left


def test_forecasts_are_judged_by_the_first_start_after_them(connection: Connection, now: int) -> None:
    begin = now - 5 * HOUR
    for name in ("ended", "runs", "rerun", "waits"):
        publish(connection, begin, forecast(f"{name}.srv", begin, HOUR, pbs_estimate=begin + 3 * HOUR))
    rerun = replace(job(job_id="rerun.srv", end=now, runtime=60), start=begin + 4 * HOUR)
    add_jobs(connection, [replace(job(job_id="ended.srv", end=now), start=begin + 2 * HOUR), rerun])
    add_jobs(connection, [replace(job(job_id="ended.srv", end=begin), start=begin - 60)])
    add_interrupted(connection, [replace(rerun, start=begin + HOUR + 300, end=begin + 3 * HOUR)])
    set_current(connection, [CurrentJob(job(job_id="runs.srv", submitted=begin).submission, "srv", begin + HOUR)])
    publish(connection, now, forecast("waits.srv", now, HOUR, ctime=begin))
    assert len(judge_starts(connection, "srv", now)) == 3
    started = {row[0]: row[2] for row in kept(connection) if row[1] == begin}
    assert started == {
        "ended.srv": begin + 2 * HOUR, "runs.srv": begin + HOUR, "rerun.srv": begin + HOUR + 300, "waits.srv": None,
    }  # fmt: skip
    assert judge_starts(connection, "srv", now) == []
    (row,) = connection.execute(text("SELECT * FROM softwalltime.start_accuracy")).all()
    assert (row.queue, row.is_first, row.forecasts) == ("long", True, 3)
    waits, error = 2 * HOUR + HOUR + HOUR + 300, HOUR + 0 + 300
    assert row.mean_wait == pytest.approx(waits / 3)
    assert row.relative_error == row.relative_error_of_these == pytest.approx(error / waits)
    assert row.bias == pytest.approx(-error / 3)
    assert (row.within50, row.within90) == (pytest.approx(2 / 3), 1)
    assert row.pbs_relative_error == pytest.approx((HOUR + 2 * HOUR + 2 * HOUR - 300) / waits)
    (quality,) = start_quality(connection, "srv")
    assert (quality.queue, quality.forecasts, quality.within90) == ("long", 3, 1)
    assert start_quality(connection, "other") == ()


def test_a_job_that_was_deleted_while_it_waited_is_forgotten(connection: Connection, now: int) -> None:
    publish(connection, now, forecast("gone.srv", now, HOUR), forecast("waits.srv", now, HOUR))
    publish(connection, now + 60, forecast("waits.srv", now + 60, HOUR, ctime=now))
    judge_starts(connection, "srv", now + FORGOTTEN_AFTER_S + 1)
    add_jobs(connection, [job(job_id="other.srv", end=now + FORGOTTEN_AFTER_S - 1, server="srv")])
    judge_starts(connection, "srv", now + 2 * FORGOTTEN_AFTER_S)
    assert [row[0] for row in kept(connection)] == ["gone.srv", "waits.srv"]
    add_jobs(connection, [job(job_id="another.srv", end=now + FORGOTTEN_AFTER_S + 2, server="srv")])
    judge_starts(connection, "srv", now + 2 * FORGOTTEN_AFTER_S)
    assert [row[0] for row in kept(connection)] == ["waits.srv"]


def test_forecasts_of_a_long_wait_are_judged_where_the_start_is_stored_after_the_job_left_the_queue(
    connection: Connection, now: int
) -> None:
    begin = now - 3 * FORGOTTEN_AFTER_S
    for at in (begin, begin + FORGOTTEN_AFTER_S, now - 300):
        publish(connection, at, forecast("1.srv", at, HOUR, ctime=begin))
    publish(connection, now)
    judge_starts(connection, "srv", now)
    set_current(connection, [CurrentJob(job(job_id="1.srv", submitted=begin).submission, "srv", now - 100)])
    judge_starts(connection, "srv", now + 300)
    assert [row[2] for row in kept(connection)] == [now - 100] * 3


def test_forecasts_are_judged_where_the_log_comes_in_batches_days_later(connection: Connection, now: int) -> None:
    begin = now - 4 * FORGOTTEN_AFTER_S
    add_jobs(connection, [job(job_id="before.srv", end=begin - 60, server="srv")])
    publish(connection, begin, forecast("1.srv", begin, HOUR, ctime=begin))
    for at in (begin + HOUR, begin + FORGOTTEN_AFTER_S + HOUR, begin + 3 * FORGOTTEN_AFTER_S):
        publish(connection, at)
        judge_starts(connection, "srv", at)
    # The log of the day on which it started: a job that ran for longer than a day ends later.
    set_current(connection, [CurrentJob(job(job_id="1.srv", submitted=begin).submission, "srv", begin + 2 * HOUR)])
    add_jobs(connection, [job(job_id="2.srv", end=begin + FORGOTTEN_AFTER_S + HOUR, server="srv")])
    judge_starts(connection, "srv", now)
    assert [row[2] for row in kept(connection)] == [begin + 2 * HOUR]


def test_old_forecasts_are_thinned_to_the_first_of_each_job_and_then_deleted(engine: Engine) -> None:
    now = 1_800_000_000
    with engine.begin() as connection:
        for age in (0, THIN_AFTER_S - 60, THIN_AFTER_S + 2 * MAX_GAP_S):
            at = now - age
            publish(connection, at, forecast("1.srv", at, HOUR, ctime=at))
            publish(connection, at + MAX_GAP_S, forecast("1.srv", at + MAX_GAP_S, HOUR, ctime=at))
    deleted = dict(RetentionRun(engine, 0, now))
    assert deleted["start_times"] == 1
    list(RetentionRun(engine, 30, now))
    with engine.connect() as connection:
        assert [now - int(str(row[1])) for row in kept(connection)] == [
            THIN_AFTER_S - 60,
            THIN_AFTER_S - 60 - MAX_GAP_S,
            0,
            -MAX_GAP_S,
        ]


def test_forecasts_of_a_job_that_is_held_or_delayed_afterwards_are_withdrawn(connection: Connection, now: int) -> None:
    delayed = (600.0, *(0.0,) * 8)
    publish(
        connection, now, *(forecast(f"{each}.srv", now, 100) for each in ("held", "later", "waits", "started")),
        forecast("delayed.srv", now, 700, raw=delayed), forecast("unknown.srv", now, 700),
    )  # fmt: skip
    publish(connection, now, forecast("held.srv", now, 100), server="other")
    set_current(connection, [CurrentJob(job(job_id="started.srv", submitted=now).submission, "srv", now + 60)])
    judge_starts(connection, "srv", now + 120)
    assert withdraw_starts(connection, "srv", {}) == frozenset()
    until = {"held.srv": 2**62, "started.srv": 2**62}
    until |= dict.fromkeys(("later.srv", "delayed.srv", "unknown.srv", "none.srv"), now + 600)
    assert withdraw_starts(connection, "srv", until) == {"held.srv", "later.srv"}
    rest = connection.execute(text("SELECT server, job_id FROM softwalltime.start_times")).all()
    srv = [("srv", f"{each}.srv") for each in ("delayed", "started", "unknown", "waits")]
    assert sorted(map(tuple, rest)) == [("other", "held.srv"), *srv]
    # It is delayed anew: what was forecast for the first time does not hold.
    assert withdraw_starts(connection, "srv", {"delayed.srv": now + 601}) == {"delayed.srv"}


def test_open_forecasts_are_read_evenly_from_the_first_on(connection: Connection, now: int) -> None:
    raw = tuple(float(each) for each in range(9))
    for number in range(5):
        at = now + number * MAX_GAP_S
        one = forecast("1.srv", at, 10 * MAX_GAP_S, ctime=now, raw=raw)
        publish(connection, at, one, *([forecast("2.srv", now, 60, raw=raw)] if number == 0 else []))
    publish(connection, now, forecast("3.srv", now, 60, raw=None), forecast("4.srv", now, 60, raw=raw))
    publish(connection, now, forecast("1.other", now, 60, raw=raw), server="other")
    set_current(connection, [CurrentJob(job(job_id="4.srv", submitted=now).submission, "srv", now + 60)])
    judge_starts(connection, "srv", now + 120)
    found = open_starts(connection, "srv", 3)
    assert [(each.job_id, each.forecast_at, each.forecasts) for each in found] == [
        ("1.srv", now, 5), ("2.srv", now, 1), ("1.srv", now + 2 * MAX_GAP_S, 5), ("1.srv", now + 4 * MAX_GAP_S, 5)
    ]  # fmt: skip
    assert found[0].raw == list(raw)
