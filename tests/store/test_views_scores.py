"""The views' figures are those of accuracy_metrics.py: on generated jobs, a recorded trace and a recorded log."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine

from softwalltime.accounting.reader import read_jobs
from softwalltime.accounting.tally import Tally
from softwalltime.core.jobs import CompletedJob
from softwalltime.measure.replay.accuracy_metrics import Scores, score
from softwalltime.measure.replay.fast_replay import drive
from softwalltime.measure.replay.workload import Workload
from softwalltime.measure.workloads.synthetic import generate
from softwalltime.predict.predictors.registry import make
from tests.samples import RECORDED_LOG, trace
from tests.store.monitored import asked, fresh, lately, rows, store

pytestmark = pytest.mark.postgres

EQUAL = {
    "jobs": "jobs",
    "accuracy": "accuracy_mean",
    "accuracy_median": "accuracy_median",
    "underestimated": "underestimated",
    "badly_underestimated": "badly_underestimated",
    "overestimated": "over",
    "not_adjusted": "not_adjusted",
    "mean_absolute_error": "mean_absolute_error",
    "extensions": "extensions_mean",
}


def generated() -> list[CompletedJob]:
    return lately(generate(6000, users=25, processors=1024, seed=11))


def recorded_trace() -> list[CompletedJob]:
    return lately(list(read_jobs([trace("KTH-SP2-1996")], Tally()))[:6000])


def recorded_log() -> list[CompletedJob]:
    return list(read_jobs([RECORDED_LOG], Tally()))


class Monitored:
    """Jobs, what the daemon would have given them, and the store that holds both."""

    def __init__(self, engine: Engine, jobs: list[CompletedJob]) -> None:
        self.engine = engine
        self.workload = Workload(jobs)
        self.jobs = list(self.workload.jobs)
        decisions, self.soft_walltimes = asked(self.workload, mode="shadow", waiting="v1")
        store(engine, jobs, decisions)
        assert fresh(engine) > 0

    def score(self, chosen: Callable[[CompletedJob], bool], *, predicted: bool = True) -> Scores:
        """The figures of some of the jobs, as a replay gives them; or those of their walltimes."""
        which = [number for number, job in enumerate(self.jobs) if chosen(job)]
        soft_walltimes = self.soft_walltimes[which] if predicted else np.full(len(which), -1, np.int64)
        return score(Workload([self.jobs[number] for number in which]), soft_walltimes)

    def same(self, row: dict[str, Any], chosen: Callable[[CompletedJob], bool]) -> None:
        """Hold a view's row against the replay's figures of these jobs."""
        scores = self.score(chosen)
        for column, figure in EQUAL.items():
            if column in row:
                assert row[column] == pytest.approx(getattr(scores, figure), rel=1e-9, abs=1e-9), (column, row)
        requested = self.score(chosen, predicted=False)
        assert row["request_accuracy"] == pytest.approx(requested.accuracy_mean, rel=1e-9), row

    def view(self, name: str) -> list[dict[str, Any]]:
        with self.engine.connect() as connection:
            return rows(connection, name)


@pytest.fixture(scope="module", params=[generated, recorded_trace, recorded_log], ids=lambda make: make.__name__)
def monitored(request: pytest.FixtureRequest, module_engine: Engine) -> Monitored:
    jobs = request.param()
    with module_engine.begin() as connection:
        for table in ("completed_jobs", "predictions", "daily_scores", "daily_queues", "daily_medians", "daily_lengths",
            "daily_waits", "daily_decisions", "daily_hook", "monthly_scores"):  # fmt: skip
            connection.exec_driver_sql(f"TRUNCATE softwalltime.{table}")
    return Monitored(module_engine, jobs)


def day_of(job: CompletedJob) -> int:
    return job.end // 86400


def test_the_daemon_predicts_what_the_replay_does(monitored: Monitored) -> None:
    replayed = drive(monitored.workload, make("v1")).soft_walltimes
    assert (replayed == monitored.soft_walltimes).all()
    assert (replayed > 0).sum() > 10, "or there would be nothing to compare"


def test_by_predictor(monitored: Monitored) -> None:
    (row,) = monitored.view("scores_by_predictor")
    assert (row["mode"], row["predictor"]) == ("shadow", "v1")
    monitored.same(row, lambda job: True)
    scores = monitored.score(lambda job: True)
    assert scores.jobs == monitored.workload.scored.sum() > 30
    if scores.jobs > 100:
        assert 0 < row["underestimated"] < 1
        assert row["extensions"] > 0


def test_by_day_with_the_median(monitored: Monitored) -> None:
    found = monitored.view("scores_by_day")
    assert len(found) == len({day_of(job) for job in monitored.jobs if job.scored})
    for row in found:
        monitored.same(row, lambda job, day=row["day"]: day_of(job) == (day - EPOCH).days)


@pytest.mark.parametrize(
    ("view", "column", "of"),
    [
        ("scores_by_queue", "queue", lambda job: job.submission.queue),
        ("scores_by_project", "project", lambda job: job.submission.project),
        ("scores_by_user", "user_name", lambda job: job.submission.user),
    ],
)
def test_by_queue_project_and_user(
    monitored: Monitored, view: str, column: str, of: Callable[[CompletedJob], str]
) -> None:
    def inside(job: CompletedJob, row: dict[str, Any]) -> bool:
        if "day" in row:
            return day_of(job) == (row["day"] - EPOCH).days
        return month_of(job) == (row["month"].year, row["month"].month)

    found = monitored.view(view)
    assert sum(row["jobs"] for row in found) == monitored.workload.scored.sum()
    for row in found[:: max(1, len(found) // 40)]:
        monitored.same(row, lambda job, row=row: inside(job, row) and of(job) == row[column])


def test_the_finest_figures_add_up_to_all_others(monitored: Monitored) -> None:
    total = monitored.score(lambda job: True)
    for view in ("scores", "scores_anonymous"):
        found = monitored.view(view)
        jobs = sum(row["jobs"] for row in found)
        assert jobs == total.jobs
        assert sum(row["accuracy"] * row["jobs"] for row in found) / jobs == pytest.approx(total.accuracy_mean)
        assert sum(row["not_adjusted"] * row["jobs"] for row in found) / jobs == pytest.approx(total.not_adjusted)
    keys = {tuple(row[key] for key in ("day", "queue", "project", "user_name")) for row in monitored.view("scores")}
    assert len(keys) == len(monitored.view("scores"))


def test_extensions_and_coverage(monitored: Monitored) -> None:
    total = monitored.score(lambda job: True)
    found = monitored.view("extensions")
    assert sum(row["extensions"] for row in found) == round((total.extensions_mean or 0) * total.jobs)
    assert sum(row["extended_jobs"] for row in found) == round((total.underestimated or 0) * total.jobs)
    days = monitored.view("coverage")
    assert sum(row["jobs"] for row in days) == total.jobs
    assert all(row["asked"] == 1 and row["had"] == 0 for row in days)
    adjusted = sum(row["would_have"] * row["jobs"] for row in days)
    assert adjusted == pytest.approx((1 - (total.not_adjusted or 0)) * total.jobs)


def test_how_honest_users_are(monitored: Monitored) -> None:
    for row in monitored.view("walltime_honesty")[:20]:
        jobs = [
            job for job in monitored.jobs
            if job.scored and job.submission.user == row["user_name"]
            and month_of(job) == (row["month"].year, row["month"].month)
        ]  # fmt: skip
        shares = [min(1, job.runtime / (job.submission.walltime or 1)) for job in jobs]
        assert row["jobs"] == len(jobs)
        assert row["honesty"] == pytest.approx(np.mean(shares))
        assert row["killed"] == pytest.approx(np.mean([job.state == "walltime exceeded" for job in jobs]))
    (sum_of_all,) = [sum(row["jobs"] for row in monitored.view("walltime_honesty_anonymous"))]
    assert sum_of_all == monitored.workload.scored.sum()


def month_of(job: CompletedJob) -> tuple[int, int]:
    ended = time.gmtime(job.end)
    return ended.tm_year, ended.tm_mon


EPOCH = np.datetime64(0, "D").item()
