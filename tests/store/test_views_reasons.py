"""Every reason for no prediction is distinguished."""

from typing import Any

import pytest
from sqlalchemy import Connection, Engine, text

from softwalltime.core.reasons import Reason
from softwalltime.core.states import State
from softwalltime.predict.policy.site import SitePolicy
from softwalltime.service.prediction_service import PredictionService
from softwalltime.service.request_handler import RequestHandler
from tests.samples import job
from tests.store.monitored import HOUR, NOW, found, fresh, store

pytestmark = pytest.mark.postgres


def handler(taught: bool, ready: bool = True, guarded: bool = False, **policy: Any) -> RequestHandler:
    predictions = PredictionService(SitePolicy(**{"mode": "on", "waiting": "v1", **policy}), clock=lambda: float(NOW))
    if taught:
        predictions.learn([job(end=NOW - 10, runtime=600), job(end=NOW - 10, runtime=600)])
    predictions.ready, predictions.guarded = ready, guarded
    return RequestHandler(predictions, dict)


REASONS = [
    (handler(True), {}, Reason.PREDICTED),
    (handler(True), {"walltime": 60}, Reason.NOT_BELOW_WALLTIME),
    (handler(False), {}, Reason.NO_COMPLETED_JOBS),
    (handler(False), {"user": "user x has no completed job"}, Reason.NO_COMPLETED_JOBS),
    (handler(False, waiting="v3"), {}, Reason.NO_COMPLETED_JOBS_WITH_WALLTIME),
    (handler(False, waiting="percentile"), {}, Reason.TOO_FEW_JOBS),
    (handler(False, waiting="request"), {}, Reason.BASELINE),
    (handler(True), {"walltime": None}, Reason.NO_WALLTIME),
    (handler(True), {"min_walltime": 60}, Reason.SHRINK_TO_FIT),
    (handler(True, ready=False), {}, Reason.HISTORY_LOADING),
    (handler(True, mode="off"), {}, Reason.POLICY_OFF),
    (handler(True), {"place": "scatter:excl"}, Reason.EXCLUSIVE),
    (handler(True, guarded=True), {}, Reason.GUARD),
]
RUNNING = [
    (handler(True), Reason.POLICY_WALLTIME),
    (handler(True, running="keep"), Reason.POLICY_KEEP),
]


def test_every_reason_for_no_prediction_is_distinguished(engine: Engine) -> None:
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
    assert set(expected) == set(Reason) - {Reason.OTHER}
    cold = found(engine, "cold_starts")
    assert {row["reason"] for row in cold} == {reason for *_, reason in REASONS}
    assert sum(row["share"] for row in cold if row["mode"] == "on" and row["predictor"] == "v1") == pytest.approx(1)


def ask(at: RequestHandler, event: str, fields: dict[str, Any]) -> None:
    import json

    at.answer(json.dumps({"v": 1, "op": "predict", "event": event, "now": NOW, "job": fields}).encode())
    at.note()


def test_the_type_in_postgresql_has_these_reasons_and_states(connection: Connection) -> None:
    for name, members in (("decision_reason", Reason), ("job_state", State)):
        labels = connection.execute(text(f"SELECT enum_range(NULL::softwalltime.{name})::text[]")).scalar_one()
        assert labels == [member.value for member in members]
