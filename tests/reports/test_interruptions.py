"""Days after a switch on which a plan's policy was off, or another one was set."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from sqlalchemy import Engine

from softwalltime.core.jobs import DecisionRecord, Submission, SubmissionDecisions
from softwalltime.measure.replay.job_columns import JobColumns
from softwalltime.predict.policy.plan_file import PlannedLive
from softwalltime.predict.policy.presets import BALANCED_WAITING, MEDIAN
from softwalltime.reports.before_after import interruptions
from softwalltime.reports.verification import verify
from softwalltime.store.predictions import add_decisions, count_decisions
from tests.policy.test_plan_file import PLAN
from tests.reports.test_verification import SWITCH, plan, steady

DAY = 86400
BALANCED = PLAN.model_copy(update={"live": PlannedLive(mode="on", guard=3600)})
ALONE = PLAN.model_copy(update={"live": PlannedLive(mode="off", guard="off")})
ON = SubmissionDecisions(0, "alice", "on", BALANCED_WAITING, ordered=True, count=10)


def said(days: Sequence[Sequence[SubmissionDecisions]], of: object = BALANCED, share: float = 1.0) -> list[str]:
    """The interruptions of one day after another, from 1970-01-01 on."""
    decisions = (replace(one, day=number * DAY) for number, day in enumerate(days) for one in day)
    return [str(found) for found in interruptions(of, share, decisions)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (replace(ON, mode="off", ordered=False), "the policy was off from 1970-01-02 to 1970-01-03"),
        (replace(ON, mode="shadow"), "the policy was off from 1970-01-02 to 1970-01-03"),
        (replace(ON, predictor="v1"), "another policy was set from 1970-01-02 to 1970-01-03"),
        (replace(ON, ordered=False), "another policy was set from 1970-01-02 to 1970-01-03"),
    ],
)
def test_what_most_submissions_of_a_day_say_holds(other: SubmissionDecisions, expected: str) -> None:
    few = replace(other, count=9)
    assert said([[ON], [other, replace(ON, count=9)], [other], [ON, few], [ON]]) == [expected]
    assert said([[ON, few], [few, ON]]) == [], "rules give some jobs another value"


def test_days_without_jobs_do_not_part_an_interruption_and_others_do() -> None:
    off = replace(ON, mode="off")
    assert said([[off], [], [off]]) == ["the policy was off from 1970-01-01 to 1970-01-03"]
    assert said([[off], [ON], [off]]) == ["the policy was off on 1970-01-01", "the policy was off on 1970-01-03"]


def test_without_its_guard_a_preset_plans_with_walltimes() -> None:
    assert said([[replace(ON, predictor="walltime")]], ALONE) == []
    assert said([[ON]], ALONE) == ["another policy was set on 1970-01-01"]


def test_users_outside_of_the_share_do_not_count() -> None:
    off = [replace(ON, user=f"user{number}", mode="off") for number in range(50)]
    assert said([off]) != []
    assert said([off], share=1e-6) == []


def test_jobs_of_an_interruption_are_left_out_and_named() -> None:
    def counts(first: int, last: int) -> Iterator[SubmissionDecisions]:
        for day in range(SWITCH // DAY, SWITCH // DAY + 30):
            off = first <= day - SWITCH // DAY < last
            yield replace(ON, day=day * DAY, mode="off" if off else "on")

    jobs, of = JobColumns.of(steady((60, 30))), plan("x", until=SWITCH - DAY)
    of = of.model_copy(update={"policy": BALANCED.policy, "live": BALANCED.live})
    whole, parted = (verify(jobs, of, SWITCH, decisions=counts(first, last)) for first, last in ((0, 0), (5, 8)))
    assert (whole.verdict, whole.interruptions) == ("keep", ())
    assert parted.verdict == "keep"
    (reason,) = parted.interruptions
    assert reason.startswith("the policy was off from ")
    assert f"Jobs of these days are left out: {reason}." in parted.reasons
    assert whole.after is not None
    assert parted.after is not None
    assert parted.after.jobs < whole.after.jobs
    ended = verify(jobs, of, SWITCH, decisions=counts(3, 30))
    assert ended.verdict == "unknown"
    assert "since the switch under the policy" in ended.sentence


@pytest.mark.postgres
def test_the_store_counts_decisions_on_submissions_by_day_user_and_policy(engine: Engine) -> None:
    def decided(at: int, event: str, ordering: int | None) -> DecisionRecord:
        job = Submission("7.srv", "alice", at, 7200)
        return DecisionRecord(at, event, job, "on", MEDIAN, 60.0, 60, "set", "why", 1, ordering=ordering)

    events = [(DAY - 1, "queuejob", 5), (DAY, "queuejob", None), (DAY + 5, "queuejob", None), (DAY + 6, "runjob", None)]
    with engine.begin() as connection:
        add_decisions(connection, [decided(*one) for one in events])
        found = sorted(count_decisions(connection, DAY - 5), key=lambda one: one.day)
    alike = SubmissionDecisions(0, "alice", "on", MEDIAN, ordered=True, count=1)
    assert found == [alike, replace(alike, day=DAY, ordered=False, count=2)]
