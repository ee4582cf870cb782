"""Each outcome of the recommendation, and that its policy is one that the daemon accepts."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from softwalltime.cli.output import Output
from softwalltime.cli.recommendation_output import write_plan
from softwalltime.core.formatting import DAY
from softwalltime.measure.simulation.differences import Interval
from softwalltime.measure.simulation.schedule_metrics import Metrics
from softwalltime.predict.policy.plan_file import read_plan
from softwalltime.predict.policy.presets import HALF
from softwalltime.reports.candidates import Candidate, common_candidates, own_candidates
from softwalltime.reports.likeness import BothWaits, Level, Likeness, doubts, likeness_line
from softwalltime.reports.recommendation import (
    Recommendation,
    Verdict,
    WaitLimits,
    recommend,
    shortens,
    too_early,
    unsimulated,
)
from softwalltime.reports.simulation import SettingWaits, SimulationFigures, SimulationSkipped, compare
from softwalltime.reports.waits_by_class import ClassWaits, JobClass
from softwalltime.service.live.live_options import inert, read_policy

TODAY = Metrics(
    wait_mean=10_800, wait_p95=50_000, wait_max=200_000, bsld10_mean=20, wide_wait_p99=100_000, weighted_wait=9000,
    promises=500, broken=0.01,
)  # fmt: skip
SEEDS = (31, 32, 33, 34)
ALIKE = BothWaits(Level(11_000, 900), Level(10_800, 700))
LIKE = Likeness(ALIKE, ALIKE, 0.999, 0.9, None)
CANDIDATES = {one.name: one for one in common_candidates()}
SAFE, V3, ORDERED = "safe", "waiting v3, with guard", "balanced, live values off"


def waits(
    name: str = SAFE, wait: float = 0.8, *, broken: float = 0.03, spread: float = 0.01, p95: float = 0.9,
    slowdown: float = 0.9, worse: float = 0.02, wide: float = 1.0, wide_spread: float = 0.01, longest: float = 1.0,
    candidate: Candidate | None = None,
) -> SettingWaits:  # fmt: skip
    """A candidate whose mean wait is ``wait`` times the baseline's, with so much spread over the workloads."""
    found = [
        replace(
            TODAY, wait_mean=10_800 * (wait + sign * spread), wait_p95=50_000 * (p95 + sign * spread),
            bsld10_mean=20 * (slowdown + sign * spread), broken=broken + sign * 0.001, worse_1h=worse, better_1h=0.1,
            wide_wait_p99=100_000 * (wide + sign * wide_spread), wait_max=200_000 * longest,
        )
        for sign in (-1, 1, -1, 1)
    ]  # fmt: skip
    return compare(candidate or CANDIDATES[name], found, [TODAY] * 4)


def simulated(*settings: SettingWaits, **more: object) -> SimulationFigures:
    chance = waits(wait=1.0, worse=0.0)
    found = SimulationFigures("today", 128, False, 9000, 10_000, 0, 0, 10**7, SEEDS, LIKE, TODAY, settings, chance)
    return replace(found, **more)  # type: ignore[arg-type]  # fields of the dataclass


def advised(*settings: SettingWaits, **more: object) -> Recommendation:
    return recommend(simulated(*settings, **more), WaitLimits())


@pytest.mark.parametrize(("jobs", "days"), [(999, 100), (10_000, 13.9), (0, 0)])
def test_few_jobs_or_days_cannot_tell(jobs: int, days: float) -> None:
    advice = too_early(jobs, days)
    assert advice is not None
    assert advice.verdict is Verdict.UNKNOWN
    assert advice.waits is None


def test_a_busy_site_simulates_more_jobs_before_a_verdict() -> None:
    figures = replace(simulated(waits()), jobs=4000, of=51_000, since=0, until=2 * DAY)
    advice = recommend(figures, WaitLimits())
    assert advice.verdict is Verdict.UNKNOWN
    assert "only 4,000 scored jobs in 2 days" in advice.sentence
    assert advice.reasons[0].endswith("47,000 earlier jobs of the log can be simulated too: --simulated-jobs.")


def test_enough_jobs_are_not_too_early() -> None:
    assert too_early(1000, 14) is None


def test_without_a_simulation_nobody_can_tell() -> None:
    advice = unsimulated(SimulationSkipped("no record holds a number of processors"))
    assert advice.verdict is Verdict.UNKNOWN
    assert "no record holds a number of processors" in advice.reasons[0]


def test_the_sentence_is_for_a_manager() -> None:
    advice = advised(waits())
    assert advice.verdict is Verdict.ON
    assert advice.sentence == (
        "Switch on the preset safe: jobs would start about 36 min earlier on average (3 h \N{RIGHTWARDS ARROW} 2.4 h); "
        "no group of jobs waits longer; undo with one command, softwalltime policy set off --apply."
    )
    assert advice.predictor == HALF


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (waits(wait=0.99, spread=0.02), "waits do not get shorter beyond the interval"),
        (waits(wait=1.1), "waits do not get shorter beyond the interval"),
        (waits(p95=1.1), "95th percentile wait +10.0%"),
        (waits(slowdown=1.1), "mean bounded slowdown +10.0%"),
        (waits(broken=0.07), "promised starts that come later +6.0%"),
        (waits(broken=0.061), "promised starts that come later +5.1% (+4.9 to +5.3), and the limit is 5%"),
        (waits(wide=1.06), "99th percentile wait of half the machine +6.0% (+4.2 to +7.8), and the limit is 5%"),
        (waits(longest=1.11), "longest wait +11.0% (+11.0 to +11.0), and the limit is 10%"),
        (replace(waits(), as_submitted=Interval(0.01)), ", +1.0% as submitted"),
    ],
)
def test_a_policy_that_does_not_qualify_is_not_recommended_and_the_reason_is_stated(
    found: SettingWaits, why: str
) -> None:
    advice = advised(found)
    assert advice.verdict is Verdict.OFF
    assert any(why in reason for reason in advice.reasons)
    assert advice.waits is None


def test_what_the_site_breaks_now_does_not_count_against_a_policy() -> None:
    assert advised(waits(broken=0.065)).verdict is Verdict.OFF
    assert advised(waits(broken=0.055)).verdict is Verdict.ON, "5.5% in all, 4.5% more than today"


def test_one_workload_is_never_enough() -> None:
    single = compare(CANDIDATES[SAFE], [replace(TODAY, wait_mean=1.0)], [TODAY])
    assert not shortens(single)
    assert advised(single).verdict is Verdict.OFF


def test_half_the_walltime_is_preferred_unless_a_predictor_is_better_beyond_the_interval() -> None:
    assert advised(waits(), waits(V3, 0.797, spread=0.02)).predictor == HALF
    assert advised(waits(), waits(V3, 0.7)).predictor == "v3"
    assert advised(waits(broken=0.2), waits(V3, 0.9)).predictor == "v3"


def test_the_order_of_the_queue_is_changed_only_if_that_is_better_beyond_the_interval() -> None:
    assert advised(waits(), waits(ORDERED, 0.797, spread=0.02)).predictor == HALF
    advice = advised(waits(), waits(ORDERED, 0.5))
    assert f"{ORDERED} changes the order of the queue. With safe, which keeps it, the mean wait changes by" in " ".join(
        advice.reasons
    )
    alone = advised(waits(wait=1.0), waits(ORDERED, 0.5))
    assert alone.verdict is Verdict.ON
    assert "which keeps it" not in " ".join(alone.reasons)


def test_an_own_predictor_refines_the_choice_and_decides_about_no_verdict() -> None:
    own, *_ = own_candidates(["last2"], "calibrated:statistic=median")
    better = waits(wait=0.6, candidate=own)
    assert advised(waits(), better).predictor == "last2"
    assert advised(waits(wait=1.0), better).verdict is Verdict.OFF


def test_jobs_that_hardly_wait_have_nothing_to_gain() -> None:
    short = BothWaits(Level(50, 0), Level(59, 0))
    advice = advised(waits(), baseline=replace(TODAY, wait_mean=59.0), likeness=replace(LIKE, whole=short, month=None))
    assert advice.verdict is Verdict.OFF
    assert "in the simulation of what the site runs, jobs wait 59 s on average, so there is nothing" in advice.sentence


def test_a_log_in_which_no_job_waits_gives_nothing_to_shorten_whatever_shaken_users_wait() -> None:
    idle = BothWaits(Level(0, 0), Level(1, 0))
    advice = advised(waits(), likeness=replace(LIKE, whole=idle, month=None))
    assert advice.verdict is Verdict.OFF
    assert "in the log, jobs wait 1 s on average, so there is nothing to shorten" in advice.sentence


def test_shaken_workloads_that_wait_much_longer_are_a_caution() -> None:
    busy = BothWaits(Level(4000, 900), Level(4000, 900))
    cautions = " ".join(advised(waits(), likeness=replace(LIKE, whole=busy, month=None)).cautions)
    assert "Jobs wait 3 h on average in the shaken workloads, and 1.1 h as they were submitted: what holds" in cautions
    assert "as they were submitted" not in " ".join(advised(waits()).cautions)


def test_one_workload_shows_no_chance_and_so_gives_no_verdict() -> None:
    one = compare(CANDIDATES[SAFE], [replace(TODAY, wait_mean=5000)], [TODAY])
    advice = advised(one, seeds=SEEDS[:1])
    assert advice.verdict is Verdict.UNKNOWN
    assert advice.reasons[0] == "--seeds needs at least two."


@pytest.mark.parametrize(
    ("likeness", "share", "says"),
    [
        (replace(LIKE, whole=BothWaits(Level(16_300, 900), Level(10_800, 900))), 1.0, "--processors"),
        (replace(LIKE, whole=BothWaits(Level(10_800, 900), Level(10_800, 1351))), 1.0, "--processors"),
        (replace(LIKE, month=BothWaits(Level(5000, 0), Level(10_800, 0))), 1.0, "the jobs of the last 30 days"),
        (replace(LIKE, pause=(0, 10**6)), 1.0, "the machine was down"),
        (None, 1.0, "Give other logs"),
        (LIKE, 0.49, "--walltime-from"),
    ],
)
def test_a_simulation_that_is_not_of_this_machine_cannot_tell(
    likeness: Likeness | None, share: float, says: str
) -> None:
    advice = advised(waits(), likeness=likeness, scored_share=share)
    assert advice.verdict is Verdict.UNKNOWN
    assert says in advice.sentence
    # It is decided first: neither long nor short simulated waits are a reason for or against.
    assert (
        advised(waits(), likeness=likeness, scored_share=share, baseline=replace(TODAY, wait_mean=0.0)).verdict
        is Verdict.UNKNOWN
    )


def test_waits_below_a_scheduling_interval_are_alike() -> None:
    assert BothWaits(Level(660, 660), Level(600, 0)).alike
    assert not BothWaits(Level(901, 0), Level(600, 0)).alike
    assert doubts(LIKE, 0.5) == ()
    assert likeness_line(LIKE) == (
        "Recorded mean wait 3.1 h (median 15 min), simulated 3 h (12 min); rank correlation of the starts 1.00, of the "
        "waits 0.90."
    )


def test_few_users_cannot_tell() -> None:
    # Moving all jobs of the only user by as many weeks changes nothing: every interval would be a point.
    advice = advised(waits(), shake="jitter")
    assert advice.verdict is Verdict.UNKNOWN
    assert any("fewer than 10 users" in reason for reason in advice.reasons)


def test_a_class_that_never_waited_may_not_wait_for_hours() -> None:
    today, then = (replace(TODAY, wait_mean=wait, wide_wait_p99=wide) for wait, wide in ((10_800, 0), (8000, 7200)))
    advice = advised(compare(CANDIDATES[SAFE], [then] * 4, [today] * 4))
    assert advice.verdict is Verdict.OFF
    assert "99th percentile wait of half the machine +200.0%" in " ".join(advice.reasons)


def test_a_policy_recommended_on_few_workloads_has_a_caution() -> None:
    assert "The intervals are of 4 shaken workloads" in " ".join(advised(waits()).cautions)
    assert "The intervals are of" not in " ".join(advised(waits(), seeds=tuple(range(5))).cautions)


def test_who_waits_longer_and_an_estimated_machine_are_cautions() -> None:
    text = " ".join(advised(waits(wide=1.5, wide_spread=1), estimated=True).cautions)
    assert "jobs on at least half of the machine grows from 1.2 d to 1.7 d (not beyond the 95% interval)" in text
    assert "estimated from the log: 128 processors, the most in use at one time. The option" in text


def test_what_chance_does_is_subtracted() -> None:
    chance = waits(wait=1.0, worse=0.15)
    text = " ".join(advised(waits(worse=0.23), chance=chance).cautions)
    assert "Beyond chance 8.0% of the jobs wait at least 1 h longer than today, 0.0% at least 1 h less (23.0%" in text


def changed(name: str, mean: float = 0.0, spread: float = 0.01, p99: float = 0.0) -> ClassWaits:
    """A class whose mean and 99th percentile wait change by these shares of 10,000 s."""
    change, tail = (Interval(growth, growth - spread, growth + spread) for growth in (mean, p99))
    difference, difference_p99 = (Interval(1e4 * growth, 0, 0) for growth in (mean, p99))
    changes = {"wait_mean": change, "wait_p99": tail, "bsld10_mean": change}
    return ClassWaits(name, TODAY, changes, {"wait_mean": difference, "wait_p99": difference_p99})


def by_class(
    kind: str, *classes: ClassWaits, jobs: tuple[int, ...] = (), use: float = 0.1
) -> tuple[SettingWaits, dict[str, tuple[JobClass, ...]]]:
    """A policy with these waits of classes, and the classes, of 1,000 jobs unless ``jobs`` says how many."""
    counts = jobs or (1000,) * len(classes)
    today = tuple(JobClass(found.name, count, use, TODAY) for found, count in zip(classes, counts, strict=True))
    return replace(waits(), classes={kind: classes}), {kind: today}


def test_the_classes_that_lose_within_the_limits_are_in_the_sentence_with_their_share_of_the_jobs() -> None:
    losing = (changed("short", 0.04), changed("long", -0.3), changed("tiny", 9.0), changed("noise", 0.05, 1.0))
    setting, classes = by_class("queue", *losing, jobs=(5500, 3000, 10, 1490))
    advice = advised(setting, classes=classes)
    assert advice.verdict is Verdict.ON
    assert "longer waits for jobs in queue short (+4%, 55% of the jobs); undo" in advice.sentence


@pytest.mark.parametrize(
    ("kind", "losing", "why"),
    [
        ("queue", changed("short", 0.07), "mean wait of queue short +7.0% (+6.0 to +8.0), and the limit is 5%"),
        ("size", changed("1 processor", p99=0.2), "99th percentile wait of size 1 processor +20.0%"),
        ("runtime", changed("up to 10 min", 0.06), "mean wait of runtime up to 10 min +6.0%"),
        ("user", changed("dave", p99=0.06), "99th percentile wait of user dave +6.0%"),
    ],
)
def test_a_policy_for_which_a_class_of_jobs_pays_is_not_recommended(kind: str, losing: ClassWaits, why: str) -> None:
    setting, classes = by_class(kind, changed("other"), losing)
    advice = advised(setting, classes=classes)
    assert advice.verdict is Verdict.OFF
    assert any(why in reason for reason in advice.reasons)
    assert any("tune --order" in reason for reason in advice.reasons), "what may help"


@pytest.mark.parametrize(
    ("kind", "losing", "more"),
    [
        ("queue", changed("short", 0.07, 0.1), {}),  # within its interval
        ("queue", changed("short", 0.004, 0.001), {}),  # 40 s
        ("queue", changed("short", 0.5), {"jobs": (49,)}),
        ("user", changed("dave", 0.5), {"use": 0.009}),
        ("month", changed("2026-03", 0.5), {}),  # pays nobody
    ],
)
def test_a_class_that_is_small_or_loses_by_chance_does_not_decide(
    kind: str, losing: ClassWaits, more: dict[str, Any]
) -> None:
    setting, classes = by_class(kind, losing, **more)
    assert advised(setting, classes=classes).verdict is Verdict.ON


def test_the_reasons_against_a_policy_name_the_worst_classes_and_count_the_others() -> None:
    setting, classes = by_class("queue", *(changed(f"q{number}", 0.1 * number) for number in range(1, 6)))
    (reason,) = (reason for reason in advised(setting, classes=classes).reasons if reason.startswith("safe: "))
    assert "; mean wait of queue q5 +50.0%" in reason
    assert "queue q2" not in reason
    assert reason.endswith("; and 2 more limits are exceeded.")


@pytest.mark.parametrize(
    "candidate", [*common_candidates(), *own_candidates(["last2"], "v2")], ids=lambda one: one.name
)
def test_the_plan_of_a_candidate_is_what_was_simulated(
    candidate: Candidate, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = waits(candidate=candidate)
    figures = simulated(found)
    advice = replace(recommend(figures, WaitLimits()), verdict=Verdict.ON, waits=found)
    file = tmp_path / "plan.toml"
    write_plan(Output(), file, advice, figures)
    assert capsys.readouterr().out.startswith(f"{file}: written; softwalltime policy set {file} ")
    plan = read_plan(file)
    policy, live = read_policy(plan.policy.values(), plan.live.model_dump())
    assert (policy.mode, policy.waiting) == ("on", candidate.policy.waiting)
    assert (policy.ordering or "walltime") == candidate.policy.ordering
    assert (live.mode == "on", live.guard) == (candidate.guarded, candidate.policy.guard)
    assert inert(policy, live) == ""
    assert (plan.pbs.job_sort_formula if plan.pbs else "") == candidate.policy.formula
    assert plan.promised.change.mean == pytest.approx(-0.2)
    assert (plan.promised.wait_before, plan.promised.wait_after) == (10_800, 8640)


def test_without_a_recommendation_no_plan_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures = simulated(waits(wait=1.0))
    write_plan(Output(), tmp_path / "plan.toml", recommend(figures, WaitLimits()), figures)
    assert capsys.readouterr().out == f"{tmp_path}/plan.toml: not written: no policy is recommended\n"
    assert not list(tmp_path.iterdir())
