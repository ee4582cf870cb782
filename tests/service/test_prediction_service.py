"""Answers of the daemon by policy, event and history."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from softwalltime.core.jobs import NoPrediction, Submission
from softwalltime.core.reasons import Reason
from softwalltime.predict.policy.site import SitePolicy, user_rank
from softwalltime.predict.predictors.baselines import Constant
from softwalltime.service.prediction_service import PredictionService
from softwalltime.service.request_handler import MAX_WAITING_DECISIONS, RequestHandler
from tests.samples import job


def handler(*, taught: bool = True, ready: bool = True, **policy: Any) -> RequestHandler:
    predictions = PredictionService(SitePolicy(**{"mode": "on", "waiting": "v1", **policy}), clock=lambda: 1000.0)
    if taught:
        predictions.learn([job(runtime=600), job(runtime=600)])
    predictions.ready = ready
    return RequestHandler(predictions, lambda: {"state": "fine"})


def ask(handler: RequestHandler, event: str = "queuejob", op: str = "predict", **fields: object) -> dict[str, Any]:
    job = {"user": "alice", "walltime": 3600, **fields}
    document = {"v": 1, "op": op, "event": event, "job": job}
    answer: dict[str, Any] = json.loads(handler.answer(json.dumps(document).encode()))
    handler.note()
    return answer


def test_a_waiting_job_gets_the_waiting_predictors_soft_walltime() -> None:
    assert ask(handler()) == {
        "v": 1, "action": "set", "soft_walltime": 600, "basis": "mean of the last 2 runtimes of user alice",
    }  # fmt: skip


def test_a_job_without_a_group_is_predicted_with_that_of_its_users_last_job(monkeypatch: pytest.MonkeyPatch) -> None:
    groups: list[str] = []

    def predict(_: Constant, submission: Submission, *_now: int) -> NoPrediction:
        groups.append(submission.group)
        return NoPrediction(Reason.NO_COMPLETED_JOBS, (submission.user,))

    monkeypatch.setattr(Constant, "predict", predict)
    answers = handler(taught=False, waiting="constant")
    answers.predictions.learn([job(group="chem"), job(group="bio"), job("bob", group="")])
    for fields in ({}, {"group": "chem"}, {"user": "bob"}, {"user": "carol"}):
        ask(answers, **fields)
    assert groups == ["bio", "chem", "", ""]


def test_at_start_the_soft_walltime_is_raised_to_the_walltime() -> None:
    answer = ask(handler(), "runjob", soft_walltime=600)
    assert (answer["action"], answer["soft_walltime"]) == ("set", 3600)
    assert ask(handler(), "runjob")["action"] == "none", "without soft walltime the scheduler uses the walltime"


def test_at_start_another_predictor_or_keep_may_apply() -> None:
    assert ask(handler(running="v2"), "runjob", soft_walltime=600)["soft_walltime"] == 1500
    assert ask(handler(running="keep"), "runjob", soft_walltime=600)["action"] == "none"


def test_a_soft_walltime_without_prediction_is_reset_to_the_walltime() -> None:
    assert ask(handler(taught=False), "modifyjob", soft_walltime=600)["soft_walltime"] == 3600
    assert ask(handler(), "modifyjob", walltime=500, soft_walltime=400)["soft_walltime"] == 500
    assert ask(handler(), "modifyjob", soft_walltime=600)["action"] == "none", "it has it already"


@pytest.mark.parametrize(
    ("fields", "basis", "reason"),
    [
        ({"walltime": None}, "no walltime", Reason.NO_WALLTIME),
        ({"min_walltime": 60}, "shrink-to-fit", Reason.SHRINK_TO_FIT),
        ({"user": "bob"}, "user bob has no completed job", Reason.NO_COMPLETED_JOBS),
        ({"walltime": 500}, "mean of the last 2 runtimes", Reason.NOT_BELOW_WALLTIME),
    ],
)
def test_a_job_without_soft_walltime_gets_none_and_the_reason(
    fields: dict[str, object], basis: str, reason: Reason
) -> None:
    asked = handler()
    answer = ask(asked, **fields)
    assert answer["action"] == "none"
    assert basis in answer["basis"]
    assert [decision.reason for decision in asked.decisions] == [reason]


@pytest.mark.parametrize(
    ("policy", "event", "reason"),
    [
        ({}, "queuejob", Reason.PREDICTED),
        ({"mode": "off"}, "queuejob", Reason.POLICY_OFF),
        ({"ready": False}, "queuejob", Reason.HISTORY_LOADING),
        ({"running": "keep"}, "runjob", Reason.POLICY_KEEP),
        ({}, "runjob", Reason.POLICY_WALLTIME),
        ({"waiting": "request"}, "queuejob", Reason.BASELINE),
        ({"waiting": "percentile"}, "queuejob", Reason.TOO_FEW_JOBS),
    ],
)
def test_a_recorded_decision_carries_its_reason_as_a_code(policy: dict[str, Any], event: str, reason: Reason) -> None:
    asked = handler(**policy)
    ask(asked, event)
    assert [decision.reason for decision in asked.decisions] == [reason]


def test_the_response_has_the_ordering_value() -> None:
    asked = handler(ordering="v2")
    basis = "mean of the last 2 runtimes of user alice"
    assert ask(asked) == {"v": 1, "action": "set", "soft_walltime": 600, "ordering": 1500, "basis": basis}
    assert ask(asked, soft_walltime=600) == {"v": 1, "action": "none", "ordering": 1500, "basis": basis}
    assert "ordering" not in ask(asked, "runjob"), "a running job is not ordered"
    assert "ordering" not in ask(handler()), "the policy orders nothing"
    assert [decision.ordering for decision in asked.decisions] == [1500, 1500, None]


def test_in_shadow_mode_the_ordering_value_is_recorded_only() -> None:
    shadow = handler(mode="shadow", ordering="v2")
    assert ask(shadow) == {"v": 1, "action": "none", "basis": "mean of the last 2 runtimes of user alice"}
    assert [decision.ordering for decision in shadow.decisions] == [1500]


def test_shadow_mode_sets_nothing_and_records_what_it_would_have_set() -> None:
    shadow = handler(mode="shadow")
    assert ask(shadow)["action"] == "none"
    (decision,) = shadow.decisions
    assert (decision.action, decision.soft_walltime, decision.predicted) == ("shadow", 600, 600.0)


def test_mode_off_predicts_nothing() -> None:
    assert ask(handler(mode="off"))["action"] == "none"


def test_before_the_history_is_loaded_nothing_is_set() -> None:
    answer = ask(handler(ready=False))
    assert (answer["action"], answer["basis"]) == ("none", "the history is still being loaded")


def test_later_rules_by_queue_user_and_project_override_earlier_ones() -> None:
    rules = (
        {"queue": "long", "mode": "shadow"},
        {"queue": "long", "project": "astro", "mode": "on", "minimum": 900},
        {"user": "bob", "waiting": "v2", "ordering": "v1"},
    )
    asked = handler(rules=rules)
    asked.predictions.learn([job("bob", runtime=600)])
    assert ask(asked, queue="short")["soft_walltime"] == 600
    assert ask(asked, queue="long")["action"] == "none"
    assert ask(asked, queue="long", project="astro")["soft_walltime"] == 900
    assert ask(asked, user="bob")["soft_walltime"] == 1500
    assert ask(asked, user="bob")["ordering"] == 600
    assert "ordering" not in ask(asked)


def test_the_share_of_users_is_stable() -> None:
    users = [f"user{number}" for number in range(2000)]
    ranks = {user: user_rank(user) for user in users}
    assert ranks["user0"] == pytest.approx(0.01842036, abs=1e-8), "the same on every machine and in every version"
    assert sum(rank < 0.1 for rank in ranks.values()) == pytest.approx(200, abs=40)
    policy = SitePolicy(mode="on", share=0.1)
    for user in users[:200]:
        expected = "on" if ranks[user] < 0.1 else "shadow"
        assert policy.terms(job(user).submission).mode == expected


@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "maybe"}, {"waiting": "v9"}, {"ordering": "v9"}, {"running": "v9"}, {"minimum": 0}, {"share": 2},
        {"rules": [{"waiting": "percentile:p=x"}]}, {"colour": "red"}, {"rules": [{"que": "long"}]},
    ],
)  # fmt: skip
def test_an_invalid_policy_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        SitePolicy(**wrong)


def test_explain_returns_the_decision_and_records_nothing() -> None:
    asked = handler(mode="shadow")
    assert ask(asked, op="explain") == {
        "v": 1, "action": "shadow", "mode": "shadow", "predictor": "v1", "predicted": 600.0, "soft_walltime": 600,
        "ordering": None, "reason": "predicted", "missing_jobs": None,
        "basis": "mean of the last 2 runtimes of user alice",
    }  # fmt: skip
    assert not asked.decisions


def test_a_decision_is_recorded_before_the_next_response() -> None:
    asked = handler()
    line = json.dumps({"v": 1, "op": "predict", "job": {"user": "alice", "walltime": 3600}}).encode()
    asked.answer(line)
    assert not asked.decisions
    asked.answer(line)
    assert len(asked.decisions) == asked.counts["predict"] == 1
    asked.answer(b'{"v":1,"op":"status"}')
    assert len(asked.decisions) == 2
    asked.note()
    assert asked.counts == {"predict": 2, "status": 1}


def test_status_requests_and_invalid_requests_get_a_response() -> None:
    assert json.loads(handler().answer(b'{"v":1,"op":"status"}')) == {"v": 1, "state": "fine"}
    assert json.loads(handler().answer(b"nonsense")) == {"v": 1, "error": "the request is not JSON"}


def test_a_predictor_that_fails_gives_nothing_and_the_ordering_value_of_another_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = handler(waiting="constant", ordering="v1")
    monkeypatch.setattr(Constant, "predict", lambda *_: 1 / 0)
    basis = "predictor constant failed: ZeroDivisionError, see softwalltime status"
    assert ask(asked) == {"v": 1, "action": "none", "ordering": 600, "basis": basis}
    assert ask(asked, "modifyjob", soft_walltime=60)["soft_walltime"] == 3600, "an old value stays on no job"
    assert [decision.reason for decision in asked.decisions] == [Reason.OTHER] * 2
    assert [(failure.step, failure.count) for failure in asked.predictions.errors.failures()] == [("predict", 2)]


def test_a_users_odd_value_is_not_counted_as_an_invalid_request() -> None:
    asked = handler()
    job = {"user": "eve", "job_id": "7.srv", "walltime": 3600, "ncpus": 10**12 + 1}
    response = json.loads(asked.answer(json.dumps({"v": 1, "op": "predict", "job": job}).encode()))
    assert response["error"] == asked.unusable
    asked.note()
    assert asked.counts == {"unusable": 1}


def test_an_error_outside_of_the_predictors_is_an_error_response(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = handler()
    monkeypatch.setattr(SitePolicy, "terms", lambda *_: 1 / 0)
    assert ask(asked) == {"v": 1, "error": "ZeroDivisionError: division by zero"}
    assert asked.counts["failed"] == 1


def test_decisions_wait_for_the_store_and_the_oldest_are_dropped_and_counted() -> None:
    asked = handler()
    for _ in range(3):
        ask(asked)
    first = asked.decisions[0]
    asked.decisions.extend([first] * (MAX_WAITING_DECISIONS - 3))
    ask(asked)
    assert (len(asked.decisions), asked.dropped) == (MAX_WAITING_DECISIONS, 1)


def test_a_job_is_learnt_in_the_second_of_its_end_and_not_before() -> None:
    now = 1000
    predictions = PredictionService(SitePolicy(mode="on", waiting="v1"), clock=lambda: float(now))
    predictions.ready = True
    predictions.learn([job(job_id="1.srv", end=1000), job(job_id="2.srv", end=1001), job(job_id="3.srv", end=1006)])
    assert (predictions.learnt, predictions.from_the_future) == (1, 2)
    now = 1001
    predictions.learn([job(job_id="4.srv", end=900)])
    assert (predictions.learnt, predictions.from_the_future) == (3, 1)
    predictions.predict("v1", job().submission, 1005)
    assert predictions.from_the_future == 1
    predictions.predict("v1", job().submission, 1006)
    assert (predictions.learnt, predictions.from_the_future) == (4, 0), "by the time of a question"
