"""Each outcome of the recommendation, and that its policy is one that the daemon accepts."""

import tomllib
from dataclasses import replace

import pytest

from softwalltime.live.options import live_options
from softwalltime.policy.site import SitePolicy, site_policy
from softwalltime.reports.accuracy import Accuracy, explain_selection, select_predictors
from softwalltime.reports.analysis.groups import Group
from softwalltime.reports.analysis.halves import Halves, SubsetScores
from softwalltime.reports.leave_out import EvaluatedSetting, ExcludedGroup, limit, select
from softwalltime.reports.recommendation import (
    Recommendation,
    Verdict,
    keeps_promises,
    recommend,
    recommend_unsimulated,
    shortens,
    too_early,
)
from softwalltime.reports.simulation import (
    GUARD,
    HALF,
    CandidateSetting,
    SettingWaits,
    SimulationFigures,
    SimulationSkipped,
    compare,
    settings_to_simulate,
)
from softwalltime.reports.waits_by_class import ClassWaits, JobClass
from softwalltime.simulation.differences import Interval
from softwalltime.simulation.metrics import Metrics
from softwalltime.simulation.policies import Policy

TODAY = Metrics(
    wait_mean=10_000, wait_p95=50_000, wait_max=200_000, bsld10_mean=20, wide_wait_p99=100_000, weighted_wait=9000,
    promises=500, broken=0.0,
)  # fmt: skip
SEEDS = (31, 32, 33, 34)
REASON = SimulationSkipped("no record holds a number of processors")


def part(accuracy: float, under: float, **more: float) -> SubsetScores:
    return replace(SubsetScores(5000, accuracy, under, under / 2, 100.0, accuracy), **more)


def halves(spec: str, older: tuple[float, float], newer: tuple[float, float] | None = None) -> Halves:
    return Halves(spec, part(*older), part(*older), part(*(newer or older)))


def evaluated(
    spec: str, *left_out: ExcludedGroup, under: float = 0.04, newer: tuple[float, float] | None = None
) -> EvaluatedSetting:
    return EvaluatedSetting(halves(spec, (0.5, under), newer), left_out, 0.1, (), ())


USERS = halves("request", (0.4, 0.0))
ACCURACY = select_predictors(USERS, [halves("v3", (0.5, 0.04)), halves("v1", (0.6, 0.4))], 0.05)


def waits(
    spec: str = HALF, wait: float = 0.8, *, broken: float = 0.03, spread: float = 0.01, p95: float = 0.9,
    slowdown: float = 0.9, guard: int | None = None, ordering: str = "walltime", worse: float = 0.02,
    left_out: tuple[ExcludedGroup, ...] = (), wide: float = 1.0,
) -> SettingWaits:  # fmt: skip
    """A setting whose mean wait is ``wait`` times today's, with so much spread over the workloads."""
    policy = Policy(waiting=spec, guard=guard, ordering=ordering, order="fcfs" if ordering == "walltime" else "xf")
    found = [
        replace(
            TODAY, wait_mean=10_000 * (wait + sign * spread), wait_p95=50_000 * (p95 + sign * spread),
            bsld10_mean=20 * (slowdown + sign * spread), broken=broken + sign * 0.001, worse_1h=worse, better_1h=0.1,
            wide_wait_p99=100_000 * (wide + sign * spread),
        )
        for sign in (-1, 1, -1, 1)
    ]  # fmt: skip
    name = f"{spec}{', with guard' if guard else ''}{', ordered' if ordering != 'walltime' else ''}"
    return compare(CandidateSetting(name, policy, evaluated(spec, *left_out)), found, [TODAY] * 4)


def simulated(*settings: SettingWaits, **more: object) -> SimulationFigures:
    found = SimulationFigures("fcfs", 128, False, 9000, 10_000, 0, 0, 10**7, SEEDS, 10_000.0, TODAY, settings)
    return replace(found, **more)  # type: ignore[arg-type]  # fields of the dataclass


def advised(*settings: SettingWaits, target: float = 0.05, **more: object) -> Recommendation:
    return recommend(simulated(*settings, **more), ACCURACY, target, 10_000)


@pytest.mark.parametrize(("jobs", "days"), [(999, 100), (10_000, 13.9), (0, 0)])
def test_few_jobs_or_days_are_too_early(jobs: int, days: float) -> None:
    advice = too_early(jobs, days)
    assert advice is not None
    assert advice.verdict is Verdict.WAIT
    assert advice.policy == ""


def test_enough_jobs_are_not_too_early() -> None:
    assert too_early(1000, 14) is None


def test_the_cautious_predictor_keeps_the_target_on_the_older_half_and_the_bold_one_is_the_most_accurate() -> None:
    best = halves("a", (0.55, 0.05), newer=(0.1, 0.9))
    found = select_predictors(USERS, [halves("v1", (0.6, 0.06)), best, halves("b", (0.5, 0.0))], 0.05)
    assert found.cautious is best
    assert found.bold is not None
    assert found.bold.spec == "v1"
    said = explain_selection(found, 0.05)
    assert "Of the 3 predictors and settings tried, a is the most accurate that underestimates at most 5%" in said[0]
    assert said[1].startswith("The most accurate of all on the older half is v1: mean accuracy 0.600, 6.0%")


def test_of_equals_the_one_that_underestimates_less_is_selected() -> None:
    found = select_predictors(USERS, [halves("a", (0.5, 0.04)), halves("b", (0.5, 0.01))], 0.05)
    assert found.cautious is not None
    assert found.cautious.spec == "b"


def test_where_no_predictor_keeps_the_target_the_nearest_is_named() -> None:
    found = select_predictors(
        USERS, [halves("v1", (0.6, 0.4)), halves("v2", (0.5, 0.2)), halves("v3", (0.41, 0.0))], 0.05
    )
    assert found.cautious is None
    assert "The nearest is v2: it underestimates 20.0%" in explain_selection(found, 0.05)[1]
    none = select_predictors(USERS, [halves("v3", (0.41, 0.01))], 0.05)
    assert none.bold is None
    assert len(explain_selection(none, 0.05)) == 1


def test_without_a_simulation_nothing_is_switched_on() -> None:
    advice = recommend_unsimulated(ACCURACY, evaluated("v3"), REASON, 0.05)
    assert advice.verdict is Verdict.SHADOW
    assert advice.predictor == "v3"
    assert REASON.reason in advice.reasons[0]


@pytest.mark.parametrize(
    ("newer", "why"),
    [
        ((0.5, 0.0501), "v3 underestimates 5.01% of the newer half of the jobs (the limit is 5%)"),
        ((0.419, 0.01), "v3 is not 0.02 more accurate than the walltimes on the newer half of the jobs"),
    ],
)
def test_without_a_simulation_a_predictor_must_keep_target_and_gain_on_the_newer_half(
    newer: tuple[float, float], why: str
) -> None:
    advice = recommend_unsimulated(ACCURACY, evaluated("v3", newer=newer), REASON, 0.05)
    assert advice.verdict is Verdict.OFF
    assert advice.sentence == f"Do not enable soft walltimes yet: waits were not simulated, and {why}."
    assert advice.policy == ""


def test_without_a_simulation_and_a_predictor_nothing_is_recommended() -> None:
    none = Accuracy(USERS, None, None, None, 3)
    assert recommend_unsimulated(none, None, REASON, 0.05).verdict is Verdict.OFF


def test_shorter_waits_beyond_the_interval_with_few_broken_promises_are_worth_switching_on() -> None:
    advice = advised(waits())
    assert advice.verdict is Verdict.ON
    assert advice.predictor == HALF
    assert "the mean wait changes by \N{MINUS SIGN}20.0% (95% interval \N{MINUS SIGN}2" in advice.sentence
    assert advice.waits is not None
    assert "2.0% of the jobs wait at least 1 h longer than today" in advice.cautions[0]


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (waits(wait=0.99, spread=0.02), "waits do not get shorter beyond the interval"),
        (waits(wait=1.1), "waits do not get shorter beyond the interval"),
        (waits(p95=1.1), "95th percentile wait +10.0%"),
        (waits(slowdown=1.1), "mean bounded slowdown +10.0%"),
        (waits(broken=0.06), "6.0% of the promised starts are broken"),
        (waits(broken=0.0495), "up to 5.1% by the interval, and the limit is 5%"),
    ],
)
def test_a_setting_that_does_not_qualify_is_not_recommended_and_the_reason_is_stated(
    found: SettingWaits, why: str
) -> None:
    advice = advised(found)
    assert advice.verdict is Verdict.OFF
    assert any(why in reason for reason in advice.reasons)
    assert advice.policy == ""


def test_one_workload_is_never_enough() -> None:
    one = compare(waits().setting, [replace(TODAY, wait_mean=1.0)], [TODAY])
    assert not shortens(one)
    assert advised(one).verdict is Verdict.OFF


def test_no_promise_broken_keeps_them_all() -> None:
    assert keeps_promises(waits(broken=0.0), 0.002)
    assert keeps_promises(compare(waits().setting, [replace(TODAY, promises=0, broken=None)] * 2, [TODAY] * 2), 0.0)


def test_half_the_walltime_is_preferred_unless_a_predictor_is_better_beyond_the_interval() -> None:
    assert advised(waits(), waits("v3", 0.797, spread=0.02)).predictor == HALF
    assert advised(waits(), waits("v3", 0.7)).predictor == "v3"
    assert advised(waits(broken=0.2), waits("v3", 0.9)).predictor == "v3"


def test_the_order_of_the_queue_is_changed_only_if_nothing_else_qualifies() -> None:
    ordered = waits("v3", 0.5, ordering="v3")
    advice = advised(waits(), ordered)
    assert advice.predictor == HALF
    assert "With a v3, ordered the mean wait would change by" in " ".join(advice.reasons)
    alone = advised(waits(wait=1.0), ordered)
    assert alone.verdict is Verdict.ON
    assert 'ordering = "v3"' in alone.policy
    assert alone.sentence.startswith("Enable a v3, ordered, first in shadow mode: ")


def test_jobs_that_hardly_wait_have_nothing_to_gain() -> None:
    advice = advised(waits(), baseline=replace(TODAY, wait_mean=59.0), recorded_wait=None)
    assert advice.verdict is Verdict.OFF
    assert "nothing to shorten" in advice.sentence


def test_a_simulation_that_does_not_resemble_the_recorded_waits_is_for_shadow_mode_only() -> None:
    advice = advised(waits(), recorded_wait=50_001.0)
    assert advice.verdict is Verdict.SHADOW
    assert any("as recorded" in caution for caution in advice.cautions)
    assert advised(waits(), recorded_wait=19_000.0).cautions == advised(waits()).cautions


def test_who_waits_longer_and_an_estimated_machine_stand_beside_the_verdict() -> None:
    advice = advised(waits(wide=1.5), estimated=True)
    text = " ".join(advice.cautions)
    assert "jobs on at least half of the machine grows from 1.2 d to 1.7 d (beyond the 95% interval)" in text
    assert "estimated from the log: 128 processors, the most in use at one time. The option" in text
    rarely = " ".join(advised(waits(), estimated=True, usual=90).cautions)
    assert "128 processors, the most in use at one time (99% of the time at most 90 were in use)" in rarely


def test_few_users_are_for_shadow_mode_only() -> None:
    # Moving all jobs of the only user by as many weeks changes nothing: every interval would be a point.
    advice = advised(waits(), shake="jitter")
    assert advice.verdict is Verdict.SHADOW
    assert any("fewer than 10 users" in caution for caution in advice.cautions)


def test_a_mean_accuracy_that_falls_stands_beside_the_verdict() -> None:
    less = waits("v3")
    worse = replace(less.setting.evaluated, halves=halves("v3", (0.5, 0.04), newer=(0.396, 0.04)))
    less = replace(less, setting=replace(less.setting, evaluated=worse))
    expected = "On the newer half of the jobs the mean accuracy falls from 0.400 to 0.396."
    assert expected in advised(less).cautions
    assert expected not in advised(waits("v3")).cautions


def test_underestimates_beyond_the_target_stand_beside_the_verdict() -> None:
    few, many = waits(), waits("v1")
    often = replace(many.setting.evaluated, halves=halves("v1", (0.6, 0.3), newer=(0.6, 0.331)))
    many = replace(many, setting=replace(many.setting, evaluated=often))
    said = "On the newer half of the jobs 33.1% are underestimated while they wait."
    assert any(caution.startswith(said) for caution in advised(many).cautions)
    assert not any("underestimated while" in caution for caution in advised(few).cautions)


def test_the_settings_are_compared_without_and_with_the_guard_then_ordered() -> None:
    found = settings_to_simulate(evaluated(HALF), evaluated("v3"), evaluated("v1"), "wfp")
    assert [(one.policy.waiting, one.policy.guard) for one in found] == [
        (HALF, None), (HALF, GUARD), ("v3", None), ("v3", GUARD), ("v1", None), ("v1", GUARD), ("v3", None),
        ("v3", GUARD),
    ]  # fmt: skip
    assert [one.policy.order for one in found] == ["wfp"] * 6 + ["xf"] * 2
    assert {one.policy.running for one in found} == {"walltime"}
    assert len(settings_to_simulate(evaluated(HALF), None, None, "fcfs")) == 2


def group(name: str, jobs: int, under: float, accuracy: float) -> Group:
    return Group(name, jobs, 100.0, 50.0, 0.4, accuracy, under, 0.5)


def test_those_that_suffer_or_gain_nothing_are_left_out_if_they_have_enough_jobs() -> None:
    found = select(
        "user",
        [
            group("good", 500, 0.1, 0.6),
            group("risky", 500, 0.11, 0.6),
            group("useless", 500, 0.0, 0.4),
            group("small", 99, 0.9, 0.1),
            group("(none)", 500, 0.9, 0.1),
        ],
        limit(0.04, 0.05),
    )
    assert [(one.kind, one.name, one.reason.split(":")[0]) for one in found] == [
        ("user", "risky", "11.0% of the jobs would be underestimated"),
        ("user", "useless", "predictions are no more accurate"),
    ]


def test_the_policy_is_one_that_the_daemon_accepts() -> None:
    spec = "percentile:p=95,keys=user+project,window=30d,threshold=0.5"
    names = ['odd "queue"\\', "tëst", "plain"]
    left_out = (*(ExcludedGroup("queue", name, 100, "") for name in names), ExcludedGroup("user", "eve", 100, ""))
    advice = advised(waits(spec, left_out=left_out))
    policy = SitePolicy(**tomllib.loads(advice.policy)["policy"])
    assert (policy.mode, policy.waiting, policy.running) == ("shadow", spec, "walltime")
    assert [rule.queue for rule in policy.rules] == [*names, None]
    assert policy.rules[-1].user == "eve"
    assert {rule.mode for rule in policy.rules} == {"off"}
    assert "but not for 3 queues and 1 user" in advice.sentence


def test_classes_that_wait_longer_stand_beside_the_verdict() -> None:
    def changed(name: str, mean: float, spread: float = 0.01) -> ClassWaits:
        change = Interval(mean, mean - spread, mean + spread)
        return ClassWaits(name, 1e4, 2e4, change, Interval(1e4 * mean, 0, 0), change, change)

    names = ("tiny", "a", "b", "c", "d", "noise", "glad")
    growth = (9.0, 0.1, 0.4, 0.3, 0.2, 0.05, -0.5)
    today = tuple(JobClass(name, 10 if name == "tiny" else 500, 1e4, 2e4) for name in names)
    new = tuple(changed(name, mean, 1.0 if name == "noise" else 0.01) for name, mean in zip(names, growth, strict=True))
    one = replace(waits(wait=0.5), classes={"size": new, "month": new})
    advice = advised(one, classes={"size": today, "month": today})
    assert advice.verdict is Verdict.ON
    longer = "by size b (+40%), c (+30%), d (+20%) and 1 more"
    expected = f"The mean wait of some jobs grows beyond the 95% interval: {longer}."
    assert expected in advice.cautions


def test_the_guard_is_preferred_and_belongs_to_the_live_values() -> None:
    advice = advised(waits(), waits(guard=GUARD, wait=0.85))
    assert advice.waits is not None
    assert advice.waits.setting.policy.guard == GUARD
    settings = tomllib.loads(advice.policy)
    assert site_policy(settings["policy"]).waiting == HALF
    live = live_options(settings["live"])
    assert (live.mode, live.guard) == ("shadow", GUARD)
    assert "live" not in tomllib.loads(advised(waits()).policy)
