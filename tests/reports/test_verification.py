"""verify: the right verdict about waits whose change is known, because a simulator or this test made it."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import Engine

from softwalltime.accounting.writer import as_pbs, write_logs
from softwalltime.cli import run
from softwalltime.core.jobs import CompletedJob, DecisionRecord, Submission
from softwalltime.core.promises import Outcome, Promise
from softwalltime.measure.replay.job_columns import JobColumns
from softwalltime.measure.simulation.engine import simulate
from softwalltime.measure.simulation.simulated_jobs import jobs_of
from softwalltime.measure.workloads.synthetic import generate
from softwalltime.predict.policy.plan_file import Plan, PromisedChange, PromisedClass, plan_text
from softwalltime.predict.policy.site import user_rank
from softwalltime.reports.candidates import preset_policies
from softwalltime.reports.verification import VerifyDocument, verify
from softwalltime.store.predictions import add_decisions
from softwalltime.store.promises import store_promises
from tests.documented import documented, documented_rows
from tests.policy.test_plan_file import PLAN
from tests.samples import job
from tests.store.stored import add_jobs

DAY = 86400
HOUR = 3600
POLICIES = {
    **preset_policies(),
    "no backfilling": replace(preset_policies()["today"], backfill="none"),
}
LOSERS = tuple(
    PromisedClass(kind="size", name=name, jobs=100, wait_before=1.0, wait_after=1.0)
    for name in ("1 processor", "up to 1/8 of the machine", "up to 1/2 of the machine", "more than 1/2 of the machine")
)


def plan(
    baseline: str = "today", *, until: int = 0, processors: int = 128, classes: Sequence[PromisedClass] = ()
) -> Plan:
    promised = PLAN.promised.model_copy(
        update={
            "baseline": baseline, "scheduler": {"backfill": "pbs"} if baseline == "today" else {},
            "processors": processors, "classes": tuple(classes),
            "change": PromisedChange(mean=-0.3, low=-0.4, high=-0.2),
            "last_submission": datetime.fromtimestamp(until, UTC),
        }
    )  # fmt: skip
    return PLAN.model_copy(update={"promised": promised})


@cache
def scheduled(policy: str, seed: int, count: int, shift: int, prefix: str) -> tuple[CompletedJob, ...]:
    """Synthetic jobs as a machine of 128 processors runs them under a policy, so many seconds later."""
    jobs = jobs_of(generate(count, seed=seed))
    starts = (simulate(jobs, 128, POLICIES[policy]).start + shift).tolist()
    return tuple(
        replace(
            found, start=start, end=start + runtime,
            submission=replace(
                found.submission, submitted=found.submission.submitted + shift,
                job_id=f"{prefix}{found.submission.job_id}",
            ),
        )
        for found, start, runtime in zip(list(jobs.completed), starts, jobs.runtime, strict=True)
    )  # fmt: skip


def switched(before: str, after: str, *, seed: int = 3, count: int = 3000) -> tuple[list[CompletedJob], int]:
    """The log of a machine that went from one policy to another while it was idle, and when."""
    older = scheduled(before, seed, count, 0, "")
    first = min(found.submission.submitted for found in older)
    since = max(found.end for found in older) + HOUR
    return [*older, *scheduled(after, seed, count, since - first, "9")], since


def verified(jobs: Iterable[CompletedJob], of: Plan, since: int, share: float = 1.0) -> VerifyDocument:
    return verify(JobColumns.of(iter(jobs)), of, since, share)


def test_a_policy_that_shortens_waits_is_kept() -> None:
    jobs, since = switched("today", "balanced")
    found = verified(jobs, plan(), since)
    assert (found.verdict, found.method, found.command) == ("keep", "simulation", "")
    assert found.relative.mean == pytest.approx(-0.276, abs=0.01)
    assert found.relative.high is not None
    assert found.relative.high < 0
    # The means of the two periods alone prove nothing.
    assert found.recorded.high is not None
    assert found.recorded.high > 0
    assert found.before is not None
    assert found.after is not None
    assert found.after.until - found.after.since == found.before.until - found.before.since == 56 * DAY
    assert "so a changed load does not count" in " ".join(found.reasons)


def test_a_policy_that_lengthens_waits_is_undone() -> None:
    jobs, since = switched("today", "no backfilling", seed=1, count=1500)
    found = verified(jobs, plan(), since)
    assert (found.verdict, found.command) == ("undo", "softwalltime policy set off --apply")
    assert found.sentence.startswith("Undo: jobs wait ")


def test_the_same_policy_proves_nothing() -> None:
    jobs, since = switched("today", "today")
    found = verified(jobs, plan(), since)
    assert found.verdict in ("unknown", "adjust")
    assert "a change of the mean wait is not proven" in found.sentence
    assert found.effect.mean == 0, "the simulation repeats both periods"


def test_after_three_days_it_cannot_be_told() -> None:
    jobs, since = switched("today", "balanced")
    found = verified([each for each in jobs if each.end < since + 3 * DAY], plan(), since)
    assert found.verdict == "unknown"
    assert "days since the switch; 100 jobs in 7 days are needed" in found.sentence
    assert found.command == "softwalltime verify PLAN"


def test_another_machine_is_no_comparison() -> None:
    jobs, since = switched("today", "balanced")
    for of in (plan(processors=256), plan("a formula of the site")):
        found = verified(jobs, of, since)
        assert (found.method, found.verdict) == ("periods", "unknown")
    assert "does not reproduce the waits before" in verified(jobs, plan(processors=256), since).reasons[-1]


def steady(
    minutes: tuple[int, int], *, days: int = 28, daily: int = 20, users: Sequence[str] = ("alice",),
    runtimes: tuple[int, int] = (HOUR, HOUR), wide: tuple[int, int] = (0, 0), of_the_day: Sequence[int] = (),
) -> list[CompletedJob]:  # fmt: skip
    """Jobs that wait so many minutes before and after the middle, and those of the day.

    ``wide``: minutes that each tenth job waits, on all 128 processors.
    """
    of_the_day = of_the_day or [0, 7, 3, 5, 1, 6, 2, 4] * (days // 4)
    found = []
    for number in range(2 * days * daily):
        after = number >= days * daily
        submitted = number * DAY // daily
        large = bool(wide[0]) and number % 10 == 0
        wait = 60 * ((wide if large else minutes)[after] + of_the_day[number // daily])
        runtime = runtimes[after]
        found.append(
            job(
                users[number % len(users)], job_id=f"{number}.srv", submitted=submitted, start=submitted + wait,
                end=submitted + wait + runtime, runtime=runtime, walltime=2 * HOUR, ncpus=128 if large else 1,
            )
        )  # fmt: skip
    return found


NOWHERE = plan("a formula of the site")
SWITCH = 28 * DAY


@pytest.mark.parametrize(
    ("minutes", "runtimes", "verdict", "says"),
    [
        ((60, 30), (HOUR, HOUR), "keep", "Keep: jobs wait 30 min less than without the policy"),
        ((30, 60), (HOUR, HOUR), "undo", "Undo: jobs wait 30 min longer than without the policy"),
        ((60, 60), (HOUR, HOUR), "adjust", "the promised one is out of reach"),
        ((60, 30), (HOUR, HOUR // 2), "unknown", "waits are shorter, and the load changed by \N{MINUS SIGN}50%"),
        ((30, 60), (HOUR, 2 * HOUR), "unknown", "waits are longer, and the load changed by +100%"),
        ((60, 30), (HOUR, 2 * HOUR), "keep", "Keep: "),
    ],
)
def test_without_a_simulation_a_changed_load_is_a_doubt(
    minutes: tuple[int, int], runtimes: tuple[int, int], verdict: str, says: str
) -> None:
    found = verified(steady(minutes, runtimes=runtimes), NOWHERE, SWITCH)
    assert (found.verdict, found.method) == (verdict, "periods")
    assert says in found.sentence
    assert found.before is not None
    assert f"Load: {found.before.processor_hours_per_day:,.0f} processor hours submitted per day" in found.reasons[1]


def test_users_outside_of_the_share_are_the_control() -> None:
    names = [f"user{number}" for number in range(40)]
    inside = [name for name in names if user_rank(name) < 0.5]
    outside = [name for name in names if user_rank(name) >= 0.5]
    assert inside
    assert outside
    # Everybody waits half an hour longer, and those inside an hour less than that.
    jobs = [
        replace(each, start=each.start - HOUR, end=each.end - HOUR)
        if each.submission.user in inside and each.submission.submitted >= SWITCH and each.start is not None
        else each
        for each in steady((90, 120), users=names, daily=40)
    ]
    found = verified(jobs, NOWHERE, SWITCH, 0.5)
    assert (found.verdict, found.method) == ("keep", "users")
    assert found.effect.mean == pytest.approx(-HOUR, abs=120)
    assert found.command == "softwalltime policy set PLAN --apply"
    assert "The policy holds for 50% of the users" in " ".join(found.reasons)
    without = verified([each for each in jobs if each.submission.user in inside], NOWHERE, SWITCH, 0.5)
    assert without.method == "periods", "nobody is outside"
    assert without.effect.mean == pytest.approx(-HOUR / 2, abs=120)


def test_a_class_that_loses_is_named_unless_the_plan_says_so() -> None:
    jobs = steady((60, 20), wide=(60, 180), daily=40)
    classes = [each.model_copy(update={"longer": False}) for each in LOSERS]
    found = verified(jobs, plan("x", classes=classes), SWITCH)
    assert (found.verdict, found.command) == ("adjust", "softwalltime report store --write PLAN")
    assert "those of size more than 1/2 of the machine wait longer, which the plan did not say" in found.sentence
    assert [(each.name, each.longer) for each in found.classes] == [
        ("1 processor", False), ("more than 1/2 of the machine", True),
    ]  # fmt: skip
    announced = [each.model_copy(update={"longer": True}) for each in LOSERS]
    kept = verified(jobs, plan("x", classes=announced), SWITCH)
    assert kept.verdict == "keep"
    assert "wait longer beyond chance, as the plan says" in " ".join(kept.reasons)


def test_jobs_that_began_before_the_switch_or_still_run_do_not_count() -> None:
    late = [
        job(job_id=f"x{number}.srv", submitted=SWITCH - HOUR, start=SWITCH + DAY, end=SWITCH + DAY + 60, runtime=60)
        for number in range(500)
    ]
    jobs = steady((60, 30))
    assert verified([*jobs, *late], NOWHERE, SWITCH).effect == verified(jobs, NOWHERE, SWITCH).effect


@pytest.mark.parametrize(("days", "memory"), [(28, 1), (56, 7)], ids=["days", "weeks"])
def test_the_interval_holds_although_days_or_weeks_depend_on_each_other(days: int, memory: int) -> None:
    """Of waits that do not change, at most about 5% of the intervals may be wholly on one side of 0."""
    chance = np.random.default_rng(1)
    wrong = 0
    for _ in range(60):
        level = [0.0]
        for _ in range(2 * days // memory - 1):
            level.append(0.6 * level[-1] + chance.normal())
        minutes = [round(60 * level[day // memory]) for day in range(2 * days)]
        effect = verified(steady((600, 600), days=days, daily=2, of_the_day=minutes), NOWHERE, days * DAY).effect
        assert effect.low is not None
        assert effect.high is not None
        wrong += effect.low > 0 or effect.high < 0
    assert wrong <= 6


def written(jobs: Sequence[CompletedJob], of: Plan, folder: Path) -> tuple[str, str]:
    """Write logs and plan; return their paths."""
    write_logs((as_pbs(each, "srv") for each in jobs), folder / "accounting", UTC)
    (folder / "plan.toml").write_text(plan_text(of, "plan.toml"))
    return str(folder / "plan.toml"), str(folder / "accounting")


def test_the_command_reads_logs_from_the_first_soft_walltime_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "site.toml"
    config.write_text("")
    # One value of before the plan is an earlier trial.
    jobs = [
        replace(each, soft_walltime=HOUR) if number == 5 or each.submission.submitted >= SWITCH else each
        for number, each in enumerate(steady((60, 30)))
    ]
    file, logs = written(jobs, plan("x", until=20 * DAY, classes=LOSERS), tmp_path)
    command = ["verify", file, logs, "--config", str(config)]
    assert run(command) == 0
    said = capsys.readouterr().out
    assert said.startswith("Keep: jobs wait 30 min less than without the policy, beyond chance")
    assert "| all jobs" in said
    assert run([*command, "--format", "json"]) == 0
    document = documented("verify", capsys.readouterr().out)
    assert (document["since"], document["verdict"], document["share"]) == (SWITCH, "keep", 1.0)
    assert run([*command, "--format", "csv"]) == 0
    rows = documented_rows("verify", capsys.readouterr().out)
    assert [row["name"] for row in rows] == ["all jobs", "1 processor"]
    assert float(rows[0]["effect_mean"]) == document["effect"]["mean"]
    assert run([*command, "--change-date", "1970-01-22", "--format", "json"]) == 0
    assert documented("verify", capsys.readouterr().out)["since"] == 21 * DAY


def test_without_any_value_the_command_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "site.toml"
    config.write_text("")
    file, logs = written(steady((60, 30), days=8), plan("x", until=DAY), tmp_path)
    assert run(["verify", file, logs, "--config", str(config)]) == 2
    said = capsys.readouterr().err
    assert "no value was set after 1970-01-02" in said
    assert f"softwalltime policy set {file} --apply, or give the day with --change-date" in said


@pytest.mark.postgres
def test_the_store_knows_when_it_was_switched_on_and_which_promises_were_broken(
    engine: Engine, database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = [as_pbs(each, "srv") for each in steady((60, 30), users=[f"user{number}" for number in range(20)])]
    file, _ = written(jobs[:1], plan("x", until=20 * DAY), tmp_path)
    config = tmp_path / "site.toml"
    config.write_text(f'dsn = "{database}"\n[policy]\npreset = "custom"\nmode = "on"\nshare = 0.999\n')

    def decided(at: int, mode: str, ordering: int | None, soft: int | None = None) -> DecisionRecord:
        submission = Submission("7.srv", "user1", at, 2 * HOUR)
        action = "set" if soft else "none"
        return DecisionRecord(at, "queuejob", submission, mode, "v1", 60.0, soft, action, "why", 1, ordering=ordering)

    promises = [
        Promise(f"{number}.srv", SWITCH, SWITCH + 60, SWITCH + 60, Outcome.LATE if number < 2 else Outcome.KEPT,
                SWITCH + HOUR, "q", 1)
        for number in range(8)
    ]  # fmt: skip
    with engine.begin() as connection:
        add_jobs(connection, jobs)
        # A trial of before the plan, shadow mode, then the order alone, which sets no soft walltime.
        add_decisions(connection, [decided(DAY, "on", None, 600), decided(25 * DAY, "shadow", 60)])
        add_decisions(connection, [decided(SWITCH, "on", 60), decided(SWITCH + 5, "on", 60)])
        store_promises(connection, "srv", promises)
    assert run(["verify", file, "--config", str(config), "--format", "json"]) == 0
    document = documented("verify", capsys.readouterr().out)
    assert (document["since"], document["verdict"], document["share"]) == (SWITCH, "keep", 0.999)
    assert (document["promised_starts"], document["broken"]) == (8, 0.25)
    assert "Of 8 promised starts 25.0% came later; the plan says 3.0%." in document["reasons"]
