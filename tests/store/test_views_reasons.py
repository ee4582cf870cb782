"""Every reason for which nothing is predicted is told apart."""

from typing import Any

import pytest
from sqlalchemy import Connection, Engine, text

from softwalltime.policy.site import SitePolicy
from softwalltime.predictors.registry import make
from softwalltime.service.prediction_service import PredictionService
from softwalltime.service.request_handler import RequestHandler
from tests.samples import job
from tests.store.monitored import HOUR, NOW, found, fresh, store

pytestmark = pytest.mark.postgres


def handler(taught: bool, ready: bool = True, **policy: Any) -> RequestHandler:
    predictions = PredictionService(SitePolicy(**{"mode": "on", "waiting": "v1", **policy}), clock=lambda: float(NOW))
    if taught:
        predictions.learn([job(end=NOW - 10, runtime=600), job(end=NOW - 10, runtime=600)])
    predictions.ready = ready
    return RequestHandler(predictions, dict)


REASONS = [
    (handler(True), {}, ""),
    (handler(True), {"walltime": 60}, "predicted to last as long as its walltime"),
    (handler(False), {}, "unknown user"),
    (handler(False), {"user": "user x has no completed job"}, "unknown user"),
    (handler(False, waiting="v3"), {}, "unknown user"),
    (handler(False, waiting="percentile"), {}, "too few like jobs"),
    (handler(False, waiting="request"), {}, "the predictor is the request"),
    (handler(True), {"walltime": None}, "no walltime"),
    (handler(True), {"min_walltime": 60}, "shrink-to-fit"),
    (handler(True, ready=False), {}, "history not loaded yet"),
    (handler(True, mode="off"), {}, "policy off"),
]
RUNNING = [
    (handler(True), "running: its walltime"),
    (handler(True, running="keep"), "policy keeps it"),
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


def ask(at: RequestHandler, event: str, fields: dict[str, Any]) -> None:
    import json

    at.answer(json.dumps({"v": 1, "op": "predict", "event": event, "now": NOW, "job": fields}).encode())
    at.note()


@pytest.mark.parametrize("spec", ["v1", "v2", "v3", "v4", "percentile", "request"])
def test_every_predictors_cold_start_is_known(connection: Connection, spec: str) -> None:
    for walltime in (HOUR, None):
        answer = make(spec).predict(job(walltime=walltime).submission, NOW)
        reason = connection.execute(
            text("SELECT softwalltime.reason(:basis, NULL, NULL)"), {"basis": answer.basis}
        ).scalar_one()
        assert reason not in ("", "other"), answer.basis
