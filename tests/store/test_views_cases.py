"""Rows of each monitoring view, in cases computed by hand."""

import re
import time
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, text

from softwalltime.core.jobs import DecisionRecord
from softwalltime.measure.replay.workload import Workload
from softwalltime.store.definitions import column_comments, views
from softwalltime.store.logs import MalformedLine, record_malformed
from softwalltime.store.migrations import downgrade, upgrade
from softwalltime.store.predictions import add_decisions
from tests.store.monitored import DAY, HOUR, NOW, decision, ended, found, fresh, one, rows, store
from tests.store.whose_prediction import from_decisions, recorded_predictions

pytestmark = pytest.mark.postgres


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


def test_latencies_are_exact_up_to_a_millisecond_and_at_most_a_hundredth_too_high_above(engine: Engine) -> None:
    random = Random(1)
    times = [(random.randrange(30, 1000), int(10 ** random.uniform(2, 5.5))) for _ in range(300)]
    decisions = [
        decision(f"{n}.srv", at=NOW - 60, took=took if n % 9 else None, exchange_before=exchange if n % 7 else None)
        for n, (took, exchange) in enumerate(times)
    ]
    # The recorder stores them as they come.
    for first in range(0, len(decisions), 40):
        store(engine, [], decisions[first : first + 40])
    exact = found(
        engine,
        """SELECT percentile_disc(ARRAY[0.5, 0.99]) WITHIN GROUP (ORDER BY took) AS took, max(took) AS took_most,
            percentile_disc(ARRAY[0.5, 0.99]) WITHIN GROUP (ORDER BY exchange_before) AS exchange,
            max(exchange_before) AS exchange_most FROM softwalltime.predictions""",
    )[0]
    (row,) = before = found(engine, "hook_latency")
    assert row["requests"] == 300
    assert [row[f"answer_{name}"] * 1000 for name in ("p50", "p99", "most")] == [*exact["took"], exact["took_most"]]
    assert row["exchange_most"] * 1000 == exact["exchange_most"]
    for name, microseconds in zip(("p50", "p99"), exact["exchange"], strict=True):
        assert microseconds <= row[f"exchange_{name}"] * 1000 <= microseconds * 1.01
    # A store of the first release has the same, and loses nothing on its way back.
    downgrade(engine, "0001")
    upgrade(engine)
    assert found(engine, "hook_latency") == before
    # The last two days are counted, and nothing else.
    with engine.begin() as connection:
        connection.execute(text("UPDATE softwalltime.hourly_latency SET hour = hour - 3 * 86400"))
    store(engine, [], [decision(at=NOW - 4 * DAY), decision(at=NOW + 4 * DAY)])
    assert found(engine, "hourly_latency") == []


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
    # The first soft walltime stays known when its prediction is pruned.
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM softwalltime.predictions"))
        add_decisions(connection, [decision("10.srv", at=NOW - DAY)])
    fresh(engine)
    assert one(engine, "freshness")["first_set"].timestamp() == first


def begun(job_id: str, had: int | None, **more: Any) -> DecisionRecord:
    """The decision at the start of a job that had this soft walltime then."""
    return decision(job_id, at=NOW - HOUR, event="runjob", soft_walltime=HOUR, had=had, **more)


@pytest.mark.parametrize(
    ("decisions", "soft_walltime", "mode"),
    [
        pytest.param([decision()], 600, "on", id="nothing is known of its start"),
        pytest.param([decision(), begun("1.srv", 600)], 600, "on", id="PBS had it"),
        pytest.param([decision(), begun("1.srv", 0)], None, "on", id="the hook never got the answer"),
        pytest.param([decision(action="late")], None, "on", id="the hook was gone when the answer was sent"),
        pytest.param([decision(action="late"), begun("1.srv", 0)], None, "on", id="both"),
        pytest.param([decision(), begun("1.srv", 500)], 500, "on", id="a manager gave another one"),
        pytest.param([decision(), begun("1.srv", HOUR)], None, "on", id="it was the walltime"),
        pytest.param([decision(), begun("1.srv", None)], 600, "on", id="recorded by a version that did not say"),
        pytest.param([decision(), begun("1.srv", 600), begun("1.srv", HOUR)], 600, "on", id="it was run again"),
        pytest.param([decision("", event="queuejob"), begun("1.srv", 0)], None, "on", id="asked about without an id"),
        pytest.param(
            [decision(mode="shadow", action="shadow"), begun("1.srv", 0, mode="shadow")], 600, "shadow", id="shadow"
        ),
    ],
)
def test_what_counts_is_what_pbs_really_had(
    decisions: list[DecisionRecord], soft_walltime: int | None, mode: str, engine: Engine
) -> None:
    """In the store's figures and by the decisions themselves alike."""
    ended_job = ended(start=NOW - HOUR)
    store(engine, [ended_job], decisions)
    fresh(engine)
    (row,) = found(engine, "SELECT mode, jobs, adjusted, accuracy FROM softwalltime.daily_scores")
    assert (row["mode"], row["jobs"], row["adjusted"]) == (mode, 1, soft_walltime is not None)
    p = soft_walltime or HOUR
    assert row["accuracy"] == pytest.approx(min(p, 900) / max(p, 900))
    workload = Workload([ended_job])
    made = from_decisions(workload, decisions, recorded_predictions(workload))
    assert made.soft_walltime.tolist() == [soft_walltime or -1]


def test_a_subjob_had_what_its_array_had(engine: Engine) -> None:
    store(
        engine,
        [ended("1[3].srv"), ended("1[4].srv")],
        [decision("", event="queuejob"), begun("1[3].srv", 0), begun("1[4].srv", 600)],
    )
    fresh(engine)
    (row,) = found(engine, "SELECT sum(jobs) AS jobs, sum(adjusted) AS adjusted FROM softwalltime.daily_scores")
    assert (row["jobs"], row["adjusted"]) == (2, 1)


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
    assert row["request_accuracy"] == pytest.approx(900 / 3600)


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


def test_no_view_repeats_the_comment_that_its_column_has_by_its_name() -> None:
    comment = re.compile(r"COMMENT ON COLUMN softwalltime\.\w+\.(\w+) IS\s+'((?:[^']|'')*)'")
    own = [pair for statements in views().values() for pair in comment.findall(statements)]
    assert len(own) > 100
    assert [name for name, text in own if column_comments().get(name) == text.replace("''", "'")] == []


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
    assert by_view.keys() == views().keys()
    assert len(by_view) >= 26
    for view, names in by_view.items():
        if "user_name" in names:
            other = by_view[f"{view}_anonymous"]
            assert not {"user_name", "job_id"} & other, view
        assert not view.endswith("_anonymous") or view.removesuffix("_anonymous") in by_view
