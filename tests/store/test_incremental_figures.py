"""A refresh of what changed computes the same figures, to the last digit, as a refresh of everything."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any

import pytest
from sqlalchemy import Engine, text

from softwalltime.core.jobs import CompletedJob, DecisionRecord
from softwalltime.store import daily
from softwalltime.store.retention import RetentionRun
from tests.store.monitored import DAY, HOUR, NOW, decision, ended, found, fresh, store

pytestmark = pytest.mark.postgres

OF_DAYS = "scores queues medians lengths waits ordering decisions hook"
TABLES = {f"daily_{name}": "day" for name in OF_DAYS.split()} | {"monthly_scores": "month"}
DAYS, KEEP_DAYS, LONGEST_WAIT_DAYS = 60, 42, 3


def history(random: Random) -> tuple[list[CompletedJob], list[DecisionRecord]]:
    """Jobs of ``DAYS`` days, and predictions with and without job id, of whole arrays, at submission and at start."""
    jobs, decisions = [], []
    for number in range(70):
        array = number % 4 == 0
        start = NOW - random.randrange(DAYS * DAY)
        job = ended(
            f"{number // 8}[{number}].srv" if array else f"{number}.srv", start=start, user=random.choice("abc"),
            runtime=random.choice((1, 900, HOUR)), ncpus=random.choice((1, 4, 100)),
            etime=start - random.randrange(HOUR),
        )  # fmt: skip
        submitted = start - random.randrange(LONGEST_WAIT_DAYS * DAY)
        job = replace(job, submission=replace(job.submission, submitted=submitted))
        jobs.append(job)
        mode = random.choice(("on", "shadow"))
        given: dict[str, Any] = {"mode": mode, "action": "set" if mode == "on" else "shadow", "took": number}
        given |= {"soft_walltime": random.choice((None, 600, 1800)), "ordering": random.choice((None, 700))}
        kind = random.choice(("none", "queuejob", "postqueuejob", "runjob"))
        if kind == "queuejob":
            submission = replace(job.submission, job_id="")
            decided = decision("", at=submitted + random.randrange(-2, 3), event=kind, **given)
            decisions.append(replace(decided, submission=submission))
        elif kind != "none":
            job_id = f"{number // 8}[].srv" if array else f"{number}.srv"
            decisions.append(decision(job_id, at=submitted, timeouts=number % 3, **given))
        if kind == "runjob":
            given["had"] = random.choice((0, 500))
            decisions.append(decision(job.submission.job_id, at=start, event=kind, **given))
    return jobs, decisions


def figures(engine: Engine, since: date) -> dict[str, list[Any]]:
    """All rows of days since then, and of months that begin since then."""
    query = "SELECT * FROM softwalltime.{} WHERE {} >= '{}'"
    return {
        name: sorted((tuple(row.values()) for row in found(engine, query.format(name, column, since))), key=repr)
        for name, column in TABLES.items()
    }


@pytest.mark.parametrize("pruned", [False, True])
@pytest.mark.parametrize("late", [False, True])
def test_an_incremental_refresh_equals_a_full_one(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, late: bool, pruned: bool
) -> None:
    monkeypatch.setattr(daily, "REREAD_PREDICTIONS", 2)
    monkeypatch.setattr(daily, "MARK_BATCH", 30)
    random = Random(1)
    jobs, decisions = history(random)
    # Old logs are read later, predictions are recorded late: in any order, or after all jobs and the newest first.
    random.shuffle(jobs)
    decisions.sort(key=lambda decision: -decision.at if late else random.random())
    since = date.min
    while jobs or decisions:
        some_jobs, some_decisions = random.randrange(30), 0 if jobs and late else random.randrange(20)
        store(engine, jobs[:some_jobs], decisions[:some_decisions])
        del jobs[:some_jobs], decisions[:some_decisions]
        fresh(engine)
        if pruned:
            deleted = dict(RetentionRun(engine, KEEP_DAYS, NOW, force=True))
            assert {"completed_jobs", "predictions", "daily figures"} <= deleted.keys()
            # Predictions of jobs that ended later are deleted too, but for those that waited for less than that.
            since = datetime.fromtimestamp(NOW, UTC).date() - timedelta(days=KEEP_DAYS - LONGEST_WAIT_DAYS - 1)
    incremental = figures(engine, since)
    assert all(incremental.values())
    with engine.begin() as connection:
        connection.execute(text("TRUNCATE " + ", ".join(f"softwalltime.{name}" for name in TABLES)))
        # The first soft walltime stays known when its prediction is deleted.
        first = "first_set" if pruned else "NULL"
        connection.execute(
            text(f"UPDATE softwalltime.monitoring SET jobs_id = 0, predictions_id = 0, first_set = {first}")
        )
    fresh(engine)
    assert figures(engine, since) == incremental
