"""Which jobs are altered, and in which order."""

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softwalltime.core.jobs import Prediction, Submission
from softwalltime.core.reasons import Reason
from softwalltime.predict.policy.decide import Action, Decision
from softwalltime.service.live.alters import Revise, Urgency, plan_changes
from softwalltime.service.live.live_options import LiveOptions
from softwalltime.service.live.watch import ServerJob

NOW = 1_000_000
OPTIONS = LiveOptions(mode="on", change_seconds=300, change_share=0.2, lead=120)


def job(
    number: int = 1, *, state: str = "Q", soft: int | None = None, started: int | None = None,
    promised: int | None = None, walltime: int = 36000, job_id: str = "", ordering: int | None = None,
) -> ServerJob:  # fmt: skip
    submission = Submission(job_id or f"{number}.pbs1", "alice", number, walltime)
    return ServerJob(submission, state, soft, started, promised, ordering)


def predicting(seconds: int, ordering: int | None = None, mode: Literal["on", "shadow"] = "on") -> Revise:
    """Decide as the policy does with predictors that always say this."""

    def revise(_: Submission, has: int | None, __: int | None) -> Decision:
        action: Action = "none" if has == seconds else "set" if mode == "on" else "shadow"
        return Decision(mode, "v3", action, Reason.PREDICTED, seconds, Prediction(seconds, ""), ordering)

    return revise


@pytest.mark.parametrize(
    ("has", "predicted", "changed"),
    [
        (None, 3600, True),
        (3600, 3600, False),
        (3600, 3899, False),  # less than 300 s
        (3600, 4320, True),
        (3600, 4319, False),  # less than 20%
        (600, 899, False),
        (600, 900, True),
        (3600, 2880, True),
        (None, 35000, False),  # without a soft walltime it is planned with its walltime
    ],
)
def test_a_waiting_job_is_altered_if_its_value_changes_enough(has: int | None, predicted: int, changed: bool) -> None:
    changes = plan_changes([job(soft=has)], NOW, OPTIONS, predicting(predicted))
    assert [change.seconds for change in changes] == ([predicted] if changed else [])


def test_a_running_job_is_extended_before_its_soft_walltime_ends() -> None:
    running = job(state="R", soft=1000, started=NOW - 900)
    (change,) = plan_changes([running], NOW, OPTIONS, predicting(1100))
    assert (change.urgency, change.seconds) == (Urgency.RUNNING_OUT, 1100)


def test_a_running_job_with_time_left_needs_a_change_that_is_worth_it() -> None:
    running = job(state="R", soft=1000, started=NOW - 100)
    assert not plan_changes([running], NOW, OPTIONS, predicting(1100))
    (change,) = plan_changes([running], NOW, OPTIONS, predicting(1300))
    assert change.urgency is Urgency.RUNNING


def test_pbs_extends_a_job_that_has_outlived_its_prediction() -> None:
    assert not plan_changes([job(state="R", soft=1000, started=NOW - 990)], NOW, OPTIONS, predicting(1000))
    assert not plan_changes([job(state="R", soft=1000, started=NOW - 5000)], NOW, OPTIONS, predicting(2000))


@pytest.mark.parametrize(
    "other",
    [job(state="S", soft=1000, started=NOW - 900), job(state="R", soft=1000, started=NOW - 900, job_id="5[1].pbs1")],
)
def test_suspended_jobs_and_subjobs_that_run_are_left_alone(other: ServerJob) -> None:
    assert not plan_changes([other], NOW, OPTIONS, predicting(5000))


def test_the_most_urgent_changes_come_first_and_older_jobs_before_younger_ones() -> None:
    jobs = [
        job(1),
        job(2, state="R", soft=9000, started=NOW - 10),
        job(3, promised=NOW + 10),
        job(4, state="R", soft=1000, started=NOW - 900),
        job(5, promised=NOW + 5),
    ]
    changes = plan_changes(jobs, NOW, OPTIONS, predicting(5000))
    assert [change.job.job_id[0] for change in changes] == ["4", "3", "5", "2", "1"]


@pytest.mark.parametrize(
    ("state", "promised", "has", "mode", "given"),
    [
        ("Q", True, 7200, "on", 1),
        ("Q", True, None, "on", 1),
        ("B", True, 7200, "on", 1),
        ("Q", True, 1, "on", None),
        ("Q", True, 7200, "shadow", None),  # the policy orders no job of this user
        ("Q", False, 1, "on", 5000),
        ("B", False, 1, "on", 5000),
        ("Q", True, 1, "shadow", 36000),
        ("H", True, 1, "on", 5000),  # or its owner would have the place again at the release
        ("W", False, 1, "shadow", 36000),
        ("H", False, 7200, "on", None),
        ("R", True, 1, "on", None),  # PBS alters no such resource of a job that runs
    ],
)
def test_a_promised_job_keeps_its_place_while_it_waits(
    state: str, promised: bool, has: int | None, mode: Literal["on", "shadow"], given: int | None
) -> None:
    has_started = NOW - 10 if state == "R" else None
    each = job(state=state, soft=5000, started=has_started, ordering=has)
    order = 5000 if mode == "on" else None
    changes = plan_changes([each], NOW, OPTIONS, predicting(5000, order, mode), ["1.pbs1"] if promised else [])
    assert [change.ordering for change in changes] == ([] if given is None else [given])
    assert all(change.urgency is Urgency.TOP_JOB for change in changes if given == 1 or state in "HW")


@pytest.mark.parametrize("state", "QBHW")
def test_a_job_of_one_second_is_not_altered_at_each_look(state: str) -> None:
    """Its prediction is the ordering value of a kept place: many of them would take the alters of all others."""
    short = job(state=state, soft=1, walltime=1, ordering=1)
    assert plan_changes([short], NOW, OPTIONS, predicting(1, 1)) == []


@given(
    has=st.none() | st.integers(60, 36000),
    elapsed=st.none() | st.integers(0, 40000),
    predicted=st.integers(60, 36000),
)
def test_no_value_ends_before_now_or_is_set_twice(has: int | None, elapsed: int | None, predicted: int) -> None:
    state, started = ("Q", None) if elapsed is None else ("R", NOW - elapsed)
    for change in plan_changes([job(state=state, soft=has, started=started)], NOW, OPTIONS, predicting(predicted)):
        assert change.seconds >= (elapsed or 0) + (OPTIONS.lead if elapsed is not None else 0)
        assert change.seconds != has
        assert not plan_changes(
            [job(state=state, soft=change.seconds, started=started)], NOW, OPTIONS, predicting(predicted)
        )
