"""A plan file can be read back as it was written, and an error in it names file, key and value."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from softwalltime.core.errors import SoftwalltimeError
from softwalltime.measure.simulation.policies import SchedulerPolicy, policy_of
from softwalltime.measure.simulation.resources import RunLimit
from softwalltime.measure.simulation.shares import FairShareSettings, ShareGroup
from softwalltime.predict.policy.plan_file import (
    Plan,
    PlannedLive,
    PlannedPbs,
    PlannedPolicy,
    Promised,
    PromisedChange,
    PromisedClass,
    plan_text,
    read_plan,
)

CHANGE = PromisedChange(mean=-0.25, low=-0.375, high=-0.125)
QUOTED = PromisedClass(kind="queue", name='a "b"\\\x7f\n', jobs=5, wait_before=9.0, wait_after=8.0, longer=True)
PROMISED = Promised(
    baseline="today", wait_before=10_800.0, wait_after=8000.0, change=CHANGE, broken_before=0.01, broken_after=0.03,
    jobs=9000, processors=128, first_submission=datetime(2026, 1, 1, tzinfo=UTC),
    last_submission=datetime(2026, 3, 1, 12, 30, 5, tzinfo=UTC),
    classes=(
        PromisedClass(kind="size", name="1 processor", jobs=7, wait_before=1.0, wait_after=0.5, change=CHANGE), QUOTED,
    ),
)  # fmt: skip
PLAN = Plan(
    written=datetime(2026, 3, 2, tzinfo=UTC), version="1", setting="balanced", recommendation="Switch on balanced: é.",
    policy=PlannedPolicy(preset="balanced"), live=PlannedLive(mode="on", guard=3600),
    pbs=PlannedPbs(job_sort_formula="eligible_time / (predicted or 1e9)"), promised=PROMISED,
)  # fmt: skip
CUSTOM = PLAN.model_copy(
    update={
        "policy": PlannedPolicy(preset="custom", mode="on", waiting="v3", running="walltime"),
        "live": PlannedLive(mode="off", guard="off"), "pbs": None,
        "promised": PROMISED.model_copy(update={"classes": ()}),
    }
)  # fmt: skip


SITE = SchedulerPolicy(
    backfill="pbs", order="fairshare", queues=("a", "b"), limits=(RunLimit("", "u", 'a "b"', "ncpus", 4),),
    fair_share=FairShareSettings(groups=(ShareGroup("physics", "root", 3),)),
)  # fmt: skip


def test_the_scheduler_of_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    promised = PROMISED.model_copy(update={"scheduler": SITE.given})
    file.write_text(plan_text(PLAN.model_copy(update={"promised": promised}), file.name))
    assert policy_of(read_plan(file).promised.scheduler, "") == SITE


@pytest.mark.parametrize("plan", [PLAN, CUSTOM], ids=["preset", "custom"])
def test_a_plan_is_read_as_it_was_written(plan: Plan, tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    file.write_text(plan_text(plan, file.name))
    assert read_plan(file) == plan
    assert "#   softwalltime policy set plan.toml --apply " in file.read_text()
    assert plan.promised_until == 1772368205


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('preset = "balanced"', 'preset = "fast"', "policy.preset: "),
        ('preset = "balanced"', 'preset = "custom"', "preset custom needs mode, waiting and running"),
        ("share = 1.0", 'waiting = "v3"', "preset balanced has values of its own"),
        ("share = 1.0", 'waiting = "v99"', "policy.waiting: "),
        ("share = 1.0", "share = 0", "policy.share: should be greater than 0 ('0')"),
        ("guard = 3600", 'guard = "on"', "live.guard"),
        ("guard = 3600", "garde = 3600", "live.guard: "),
        ("wait_after = 8000.0", "", "promised.wait_after: "),
        ("\n[live]\n", "\n[lives]\n", "live: Field required"),
        ("\n[live]\n", "\n[live\n", "not TOML"),
        ('version = "1"', "version = 1", "version: "),
    ],
)
def test_an_error_names_file_key_and_value(old: str, new: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    text = plan_text(PLAN, file.name)
    assert old in text
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(SoftwalltimeError) as raised:
        read_plan(file)
    assert str(raised.value).startswith(f"{file}: ")
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_file_that_is_missing_or_no_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    with pytest.raises(SoftwalltimeError, match=r"plan\.toml: No such file"):
        read_plan(file)
    file.write_bytes(b"\xff")
    with pytest.raises(SoftwalltimeError, match=r"plan\.toml: not UTF-8 at byte 0"):
        read_plan(file)
