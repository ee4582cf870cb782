"""What counts as a job's prediction, and what each monitoring view says, in cases done by hand."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, text

from softwalltime.jobs import Decision
from softwalltime.predictors.registry import make
from softwalltime.service.adviser import Adviser, Desk
from softwalltime.service.site_policy import SitePolicy
from softwalltime.store import MalformedLine, add_decisions, record_malformed, refresh
from softwalltime.store.views import views
from tests.store.monitored import DAY, NOW, fresh, rows, store
from tests.workloads import job

pytestmark = pytest.mark.postgres

HOUR = 3600
TODAY = datetime.fromtimestamp(NOW, UTC).date()


def decision(job_id: str = "1.srv", at: int = NOW - 2 * HOUR, **more: Any) -> Decision:
    """A decision in mode on that gives the job 600 s, of a walltime of one hour."""
    fields = {
        "event": "postqueuejob", "mode": "on", "predictor": "v1", "predicted": 600.0, "soft_walltime": 600,
        "action": "set", "basis": "mean", "took": 100,
    } | more  # fmt: skip
    submission = job(job_id=job_id, walltime=fields.pop("walltime", HOUR), queue="q").submission
    return Decision(at, submission=submission, **fields)


def ended(job_id: str = "1.srv", *, start: int = NOW - HOUR, runtime: int = 900, **more: Any) -> Any:
    """A job that ran for 900 s of an hour, submitted two hours ago."""
    return job(
        job_id=job_id, submitted=start - HOUR, end=start + runtime, runtime=runtime,
        **{"walltime": HOUR, "queue": "q", "ncpus": 4, **more},
    )  # fmt: skip


def one(engine: Engine, view: str) -> dict[str, Any]:
    with engine.connect() as connection:
        (row,) = rows(connection, view)
    return row


def found(engine: Engine, query: str) -> list[dict[str, Any]]:
    with engine.connect() as connection:
        return rows(connection, query)


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
        ([decision(job_id="", event="queuejob")], [ended()], None),
    ],
)  # fmt: skip
def test_the_last_prediction_made_while_it_waited_counts(
    engine: Engine, decisions: list[Decision], jobs: list[Any], expected: tuple[int, str] | None
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


def test_a_refresh_that_was_stopped_goes_on(engine: Engine) -> None:
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


def test_jobs_from_the_future_wait_for_their_day_and_mad_clocks_stop_nothing(engine: Engine) -> None:
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


def test_what_is_forgotten_stays_in_the_figures_until_they_are_too_old(engine: Engine) -> None:
    store(engine, [ended(f"{number}.srv") for number in range(10)], [decision(f"{number}.srv") for number in range(10)])
    fresh(engine)
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM softwalltime.completed_jobs WHERE job_id < '5'"))
        connection.execute(text("DELETE FROM softwalltime.predictions WHERE job_id < '5'"))
    store(engine, [ended("late.srv")])
    fresh(engine)
    assert one(engine, "scores_by_day")["jobs"] == one(engine, "hook_latency_by_day")["requests"] == 10
    fresh(engine, NOW + 40 * DAY, keep_days=30)
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


def test_users_helped_and_hurt(engine: Engine) -> None:
    jobs, decisions = [], []
    # Asked for 3600 s and ran 900 s: 600 s is closer, 3000 s only a little, none no better; 60 s for 3500 s is worse.
    for number, (user, soft, runtime) in enumerate(
        [("ann", 600, 900), ("ann", 900, 900), ("bob", 60, 3500), ("cid", None, 900)]
    ):
        jobs.append(ended(f"{number}.srv", user=user, runtime=runtime, start=NOW - 2 * HOUR))
        decisions.append(decision(f"{number}.srv", soft_walltime=soft, at=NOW - 3 * HOUR))
    store(engine, jobs, decisions)
    fresh(engine)
    by_user = {row["user_name"]: row for row in found(engine, "users_helped")}
    assert {user: row["outcome"] for user, row in by_user.items()} == {"ann": "helped", "bob": "hurt", "cid": "neither"}
    assert by_user["ann"]["gain"] == 2700 - 150
    assert by_user["ann"]["underestimated"] == 0.5
    counts = {row["outcome"]: (row["users"], row["jobs"]) for row in found(engine, "users_helped_anonymous")}
    assert counts == {"helped": (1, 2), "hurt": (1, 1), "neither": (1, 1)}
    row = one(engine, "scores_by_user_anonymous")
    assert (row["users"], row["jobs"]) == (3, 4)
    assert row["accuracy_p10"] < row["accuracy_p50"] < row["accuracy_p90"]


def test_queues_that_jobs_should_leave(engine: Engine) -> None:
    jobs = [ended(f"{number}.srv", user=f"u{number % 3}", queue="short", walltime=2 * HOUR) for number in range(12)]
    jobs += [
        ended(f"{number}.srv", user="u0", queue="long", walltime=24 * HOUR, runtime=runtime, start=NOW - 20 * HOUR)
        for number, runtime in ((20, HOUR), (21, 3 * HOUR), (22, HOUR), (23, HOUR))
    ]
    jobs += [ended(f"3{number}.srv", queue="long", walltime=24 * HOUR, user="carl") for number in range(10)]
    jobs += [ended(f"4{number}.srv", queue="rare", walltime=HOUR, user="carl") for number in range(9)]
    decisions = [
        # Two hours are within the limit of the short queue, more are not; one ran longer than it was predicted to.
        decision(f"{number}.srv", at=NOW - 21 * HOUR, soft_walltime=soft, walltime=24 * HOUR)
        for number, soft in ((20, 2 * HOUR), (21, 2 * HOUR), (22, 2 * HOUR + 1), (23, None))
    ]
    decisions += [decision(f"{number}.srv", walltime=2 * HOUR) for number in range(12)]
    store(engine, jobs, decisions)
    fresh(engine)
    row = one(engine, "queues_to_leave")
    assert (row["queue"], row["shorter_queue"], row["limit_there"]) == ("long", "short", timedelta(hours=2))
    assert (row["jobs"], row["belong"], row["share"], row["too_long"]) == (4, 2, 0.5, 1)
    assert (row["users"], row["users_of_both"]) == (2, 1)


def test_lengths_are_classed_by_the_limits_that_queues_have(connection: Connection) -> None:
    (row,) = rows(
        connection,
        "SELECT array_agg(softwalltime.length_class(seconds)) AS classes "
        "FROM unnest(ARRAY[0, 300, 301, 7200, 7201, 86400, 2592000, 2592001, 9223372036854775807]) AS seconds",
    )
    assert row["classes"] == [300, 300, 600, 7200, 10800, 86400, 2592000, 2147483647, 2147483647]


def desk(taught: bool, ready: bool = True, **policy: Any) -> Desk:
    adviser = Adviser(SitePolicy(**{"mode": "on", "waiting": "v1", **policy}), clock=lambda: float(NOW))
    if taught:
        adviser.learn([job(end=NOW - 10, runtime=600), job(end=NOW - 10, runtime=600)])
    adviser.ready = ready
    return Desk(adviser, dict)


REASONS = [
    (desk(True), {}, ""),
    (desk(True), {"walltime": 60}, "predicted to last as long as its walltime"),
    (desk(False), {}, "unknown user"),
    (desk(False), {"user": "user x has no completed job"}, "unknown user"),
    (desk(False, waiting="v3"), {}, "unknown user"),
    (desk(False, waiting="percentile"), {}, "too few like jobs"),
    (desk(False, waiting="request"), {}, "the predictor is the request"),
    (desk(True), {"walltime": None}, "no walltime"),
    (desk(True), {"min_walltime": 60}, "shrink-to-fit"),
    (desk(True, ready=False), {}, "history not loaded yet"),
    (desk(True, mode="off"), {}, "policy off"),
]
RUNNING = [
    (desk(True), "running: its walltime"),
    (desk(True, running="keep"), "policy keeps it"),
]


def test_every_reason_for_no_prediction_is_told_apart(engine: Engine) -> None:
    decisions = []
    for at, fields, _ in REASONS:
        line = {"user": "alice", "walltime": HOUR, "job_id": "1.srv", **fields}
        ask(at, "postqueuejob", line)
        decisions.append(at.decisions.pop())
    for at, _ in RUNNING:
        ask(at, "runjob", {"user": "alice", "walltime": HOUR})
        decisions.append(at.decisions.pop())
    store(engine, [], decisions)
    fresh(engine)
    told = found(engine, "SELECT reason, sum(requests)::int AS count FROM softwalltime.daily_decisions GROUP BY 1")
    expected = [reason for *_, reason in (*REASONS, *RUNNING)]
    assert {row["reason"]: row["count"] for row in told} == {reason: expected.count(reason) for reason in expected}
    assert "other" not in expected
    cold = found(engine, "cold_starts")
    assert {row["reason"] for row in cold} == {reason for *_, reason in REASONS}
    assert sum(row["share"] for row in cold if row["mode"] == "on" and row["predictor"] == "v1") == pytest.approx(1)


def ask(at: Desk, event: str, fields: dict[str, Any]) -> None:
    import json

    at.answer(json.dumps({"v": 1, "op": "predict", "event": event, "now": NOW, "job": fields}).encode())
    at.note()


@pytest.mark.parametrize("spec", ["v1", "v2", "v3", "v4", "percentile", "request"])
def test_every_predictors_cold_start_is_known(connection: Connection, spec: str) -> None:
    for walltime in (HOUR, None):
        answer = make(spec).predict(job(walltime=walltime).submission, NOW)
        reason = connection.execute(
            text("SELECT softwalltime.reason(:basis, NULL, NULL)"), {"basis": answer.reason}
        ).scalar_one()
        assert reason not in ("", "other"), answer.reason


def test_the_hooks_time_outs_are_counted_once(engine: Engine) -> None:
    # The daemon hung for 3 questions; later it answered 2 too late, which it recorded, and hung for 2 more.
    told = [0, 3, 0, 0, 1, 2, 2, 0]
    decisions = [
        decision(f"{n}.srv", at=NOW - 60, timeouts=count, exchange_before=1000 * (n + 1), took=100)
        for n, count in enumerate(told)
    ]
    store(engine, [], decisions)
    fresh(engine)
    day, hour = one(engine, "hook_latency_by_day"), one(engine, "hook_latency")
    for row in (day, hour):
        assert (row["requests"], row["timeouts"], row["most_timeouts"]) == (8, 7, 3)
        assert (row["answer_p50"], row["exchange_p50"], row["exchange_p99"], row["exchange_most"]) == (
            pytest.approx(0.1), 4, 8, 8,
        )  # fmt: skip


def test_waits_before_and_after_the_first_soft_walltime(engine: Engine) -> None:
    first = NOW - 10 * DAY
    jobs = [
        ended("1.srv", start=first - DAY, runtime=HOUR, walltime=HOUR),
        ended("2.srv", start=first - 200 * DAY, runtime=HOUR, walltime=HOUR),
        ended("3.srv", start=first + DAY, runtime=2 * HOUR, walltime=2 * HOUR, ncpus=1, etime=first + DAY - 1800),
        ended("4.srv", start=first + DAY, runtime=1, walltime=HOUR),
        ended("5.srv", start=first + DAY, runtime=HOUR, walltime=HOUR, etime=first + DAY + 5),
    ]
    store(engine, jobs, [decision("9.srv", at=first)])
    fresh(engine)
    classes = {(row["processors"], row["walltime"]): row for row in found(engine, "waits")}
    assert set(classes) == {("2 to 8", "up to 1 h"), ("1", "1 to 8 h")}
    row = classes["2 to 8", "up to 1 h"]
    assert (row["jobs_before"], row["jobs_after"]) == (1, 2), "what was more than three months before does not count"
    assert (row["wait_before"], row["slowdown_before"]) == (HOUR, 2)
    # Bounded at 10 s; a job that was started before it became eligible has not waited.
    assert row["slowdown_after"] == pytest.approx(((HOUR + 1) / 10 + 1) / 2)
    assert row["typical_slowdown_after"] == pytest.approx(((HOUR + 1) / 10) ** 0.5)
    assert classes["1", "1 to 8 h"]["wait_after"] == 1800
    # The first soft walltime stays known when its prediction is forgotten.
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM softwalltime.predictions"))
        add_decisions(connection, [decision("10.srv", at=NOW - DAY)])
    fresh(engine)
    assert one(engine, "freshness")["first_set"].timestamp() == first


def test_drift(engine: Engine) -> None:
    jobs, decisions = [], []
    for week in range(10):
        for number in range(4):
            name = f"{week}{number}.srv"
            start = NOW - week * 7 * DAY - HOUR
            # Two of four are underestimated this week, one in the weeks before.
            soft = 800 if number < (2 if week == 0 else 1) else 900
            jobs.append(ended(name, start=start))
            decisions.append(decision(name, at=start - 10, soft_walltime=soft))
    store(engine, jobs, decisions)
    fresh(engine)
    row = one(engine, "drift")
    assert (row["jobs"], row["jobs_before"], row["weeks_before"]) == (4, 32, 8)
    assert (row["underestimated"], row["underestimated_before"], row["worst_underestimated_before"]) == (
        0.5,
        0.25,
        0.25,
    )
    assert row["accuracy"] == pytest.approx((2 + 2 * 8 / 9) / 4)
    assert row["accuracy_before"] == row["worst_accuracy_before"] == pytest.approx((3 + 8 / 9) / 4)


def test_ingest_lag(engine: Engine) -> None:
    now = int(time.time())
    store(engine, [ended(), ended("2.srv", start=NOW + 10 * DAY), ended("3.srv", server="srv2", start=NOW - 30 * DAY)])
    with engine.begin() as connection:
        connection.execute(
            text("""
                INSERT INTO softwalltime.log_positions (
                    server, path, byte_offset, line_number, head_length, head_digest, tail_length, tail_digest,
                    updated_at
                )
                SELECT server, path, 1, 1, 0, '', 0, '', to_timestamp(:now - age)
                FROM (VALUES ('srv', 'a', 50), ('srv', 'b', 20), ('srv2', 'c', 100)) AS log (server, path, age)
            """),
            {"now": now},
        )
        record_malformed(connection, [MalformedLine("srv", "a", number, number, "bad", "", b"x") for number in (1, 2)])
    by_server = {row["server"]: row for row in found(engine, "ingest_lag")}
    assert set(by_server) == {"srv", "srv2"}
    row = by_server["srv"]
    assert (row["logs"], row["last_read"].timestamp(), row["malformed_lines"]) == (2, now - 20, 2)
    assert row["newest_job"].timestamp() == NOW - HOUR + 900, "and not the one from the future"
    since = timedelta(seconds=time.time() - now + 20)
    assert since - timedelta(minutes=1) < row["since_last_read"] < since + timedelta(minutes=1)
    assert (by_server["srv2"]["newest_job"], by_server["srv2"]["malformed_lines"]) == (None, 0)


def test_each_view_and_column_is_described_and_names_no_user_without_an_anonymous_one(connection: Connection) -> None:
    columns = rows(
        connection,
        """
        SELECT relation.relname AS view, obj_description(relation.oid, 'pg_class') AS of_view, attname AS column,
            col_description(relation.oid, attnum) AS of_column
        FROM pg_class AS relation JOIN pg_attribute ON attrelid = relation.oid AND attnum > 0
        WHERE relnamespace = 'softwalltime'::regnamespace AND relkind = 'v'
        """,
    )
    by_view: dict[str, set[str]] = {}
    for row in columns:
        assert row["of_view"], row["view"]
        assert row["of_column"], (row["view"], row["column"])
        by_view.setdefault(row["view"], set()).add(row["column"])
    assert set(by_view) == {view.name for view in views()}
    assert len(by_view) >= 26
    for view, names in by_view.items():
        if "user_name" in names:
            other = by_view[f"{view}_anonymous"]
            assert not {"user_name", "job_id"} & other, view
        assert not view.endswith("_anonymous") or view.removesuffix("_anonymous") in by_view
