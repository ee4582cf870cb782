"""Shadow predictors: asked after the response, recorded with the decision, compared by a view."""

import json
import logging
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from softwalltime.errors import UsageError
from softwalltime.jobs import DecisionRecord, Submission
from softwalltime.policy.site import SitePolicy, site_policy
from softwalltime.predictors.baselines import Constant
from softwalltime.service.prediction_service import PredictionService
from softwalltime.service.request_handler import RequestHandler
from softwalltime.service.shadow_thread import BEHIND, ShadowThread
from tests.samples import job
from tests.service.running import PATIENT, Daemon, until

LINE = json.dumps({"v": 1, "op": "predict", "event": "queuejob", "job": {"user": "alice", "walltime": 3600}}).encode()
START = LINE.replace(b"queuejob", b"runjob")


def service(**policy: object) -> PredictionService:
    values = {"mode": "on", "waiting": "v1", "shadows": ("v2", "factor:0.5", "v3"), **policy}
    predictions = PredictionService(SitePolicy.model_validate(values), clock=lambda: 1000.0)
    predictions.learn([job(runtime=600), job(runtime=600)])
    predictions.ready = True
    return predictions


def asked(predictions: PredictionService, *lines: bytes) -> tuple[list[DecisionRecord], ShadowThread]:
    handler = RequestHandler(predictions, dict)
    thread = ShadowThread(lambda: handler.predictions, handler.queue)
    handler.after = thread.add
    for line in lines:
        assert b"error" not in handler.answer(line)
        handler.note()
    thread.start()
    assert thread.stop(PATIENT)
    return list(handler.decisions), thread


def test_shadows_are_recorded_with_decisions_on_waiting_jobs_in_their_order() -> None:
    records, _ = asked(service(), LINE, START, LINE)
    assert [(record.event, record.soft_walltime) for record in records] == [
        ("queuejob", 600), ("runjob", None), ("queuejob", 600)
    ]  # fmt: skip
    # v3 of jobs with R = 0.6: 0.6 x 3600 + 900.
    expected = {"v2": 1500, "factor:0.5": 1800, "v3": 3060}
    assert [record.shadows for record in records] == [expected, None, expected]


def test_without_shadows_decisions_are_stored_at_once() -> None:
    predictions = service(shadows=())
    handler = RequestHandler(predictions, dict)
    handler.after = ShadowThread(lambda: predictions, handler.queue).add
    handler.answer(LINE)
    handler.note()
    assert [record.shadows for record in handler.decisions] == [None]


def test_nothing_is_predicted_for_jobs_with_mode_off_or_before_the_history_is_loaded() -> None:
    assert [record.shadows for record in asked(service(mode="off"), LINE)[0]] == [None]
    predictions = service()
    predictions.ready = False
    assert [record.shadows for record in asked(predictions, LINE)[0]] == [None]


def test_a_shadow_that_fails_costs_its_own_value_only(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: Constant, submission: Submission, now: int, elapsed: int = 0) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Constant, "predict", fail)
    with caplog.at_level(logging.ERROR):
        records, _ = asked(service(shadows=("constant", "v2")), LINE)
    assert [record.shadows for record in records] == [{"constant": None, "v2": 1500}]
    assert "predictor constant failed in predict" in caplog.text


@pytest.mark.parametrize("method", ["learn", "fit"])
def test_a_shadow_that_fails_in_the_workers_thread_does_not_keep_the_others_from_learning(
    method: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: Constant, *_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Constant, method, fail)
    monkeypatch.setattr(Constant, "fits", True)
    with caplog.at_level(logging.ERROR):
        predictions = service(shadows=("constant", "v2"))
        predictions.fit(1000)
    assert predictions.shadows is not None
    assert predictions.learnt == predictions.shadows.learnt == 2
    assert predictions.shadow_values(job("alice", walltime=3600).submission, 1000)["v2"] == 1500
    assert caplog.text.count(f"predictor constant failed in {method}") == 1
    (failure,) = predictions.failures
    assert (failure.predictor, failure.step) == ("constant", method)


def test_where_too_many_wait_decisions_are_stored_without_shadows() -> None:
    records, thread = asked(service(), *[LINE] * (BEHIND + 50))
    assert len(records) == BEHIND + 50
    without = [record for record in records if record.shadows is None]
    assert len(without) == thread.skipped == 49
    assert records[:49] == without, "the first ones, while the others wait"


def test_at_the_end_all_decisions_are_passed_on_in_time() -> None:
    predictions = service()
    handler = RequestHandler(predictions, dict)
    thread = ShadowThread(lambda: predictions, handler.queue)
    for _ in range(500):
        thread.add(DecisionRecord(0, "queuejob", job().submission, "on", "v1", 1.0, 60, "set", ""))
    thread.stop(0)
    thread.start()
    until(lambda: len(handler.decisions) == 500)
    assert thread.skipped == 500


def test_shadows_learn_what_the_policys_predictors_learn() -> None:
    predictions = service(waiting="factor:0.5", shadows=("v1", "adaboost", "calibrated"))
    shadows = predictions.shadows
    assert shadows is not None
    assert predictions.learnt == shadows.learnt == 2
    assert len(predictions.histories) == 4
    assert predictions.observes
    assert predictions.fit_seconds == 3600
    predictions.fit(1000)
    assert predictions.fresh().shadows is not None


@pytest.mark.parametrize("shadows", [["v9"], ["walltime"], ["v1"] * 9])
def test_wrong_shadows_are_refused(shadows: list[str]) -> None:
    with pytest.raises(UsageError, match=r"policy\.shadows"):
        site_policy({"shadows": shadows})


@pytest.fixture
def daemon(tmp_path: Path, database: str) -> Iterator[Daemon]:
    policy = 'mode = "shadow"\nwaiting = "v1"\nshadows = ["factor:0.5", "v1"]\n'
    daemon = Daemon(tmp_path, database, policy)
    yield daemon
    if daemon.process is not None and daemon.process.poll() is None:
        daemon.end(signal.SIGKILL)


@pytest.mark.postgres
def test_the_daemon_records_shadows(daemon: Daemon, engine: Engine) -> None:
    daemon.start()
    assert daemon.predict()["action"] == "none"

    def stored() -> list[object]:
        with engine.connect() as connection:
            return list(connection.execute(text("SELECT shadows FROM softwalltime.predictions")).scalars())

    until(stored)
    assert stored() == [{"factor:0.5": 1800, "v1": None}]
    assert daemon.status()["policy"]["shadows"] == ["factor:0.5", "v1"]
