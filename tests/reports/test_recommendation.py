"""Each outcome of the recommendation, and that its policy is one that the daemon takes."""

import tomllib
from dataclasses import replace

import pytest

from softwalltime.policy.site import SitePolicy
from softwalltime.reports.analysis.groups import Group
from softwalltime.reports.analysis.halves import Halves, Part
from softwalltime.reports.recommendation import (
    Choice,
    LeftOut,
    Recommendation,
    Verdict,
    choose,
    conclude,
    queues_to_leave_out,
)


def part(accuracy: float, under: float, **more: float) -> Part:
    return replace(Part(5000, accuracy, under, under / 2, 100.0, accuracy), **more)


def halves(spec: str, older: tuple[float, float], newer: tuple[float, float] | None = None) -> Halves:
    return Halves(spec, part(*older), part(*older), part(*(newer or older)))


USERS = halves("request", (0.4, 0.0))
ENOUGH = {"jobs": 10_000, "days": 100.0}


def chosen(*candidates: Halves, target: float = 0.05) -> Recommendation | Choice:
    return choose(USERS, candidates, target, **ENOUGH)


@pytest.mark.parametrize(("jobs", "days"), [(999, 100), (10_000, 13.9), (0, 0)])
def test_few_jobs_or_days_give_no_recommendation(jobs: int, days: float) -> None:
    advice = choose(USERS, [halves("v3", (0.9, 0.0))], 0.05, jobs, days)
    assert isinstance(advice, Recommendation)
    assert advice.verdict is Verdict.WAIT
    assert advice.policy == ""


def test_accurate_walltimes_need_no_predictor() -> None:
    advice = choose(halves("request", (0.8, 0.0)), [halves("v3", (0.99, 0.0))], 0.05, **ENOUGH)
    assert isinstance(advice, Recommendation)
    assert advice.verdict is Verdict.OFF
    assert "walltimes are good" in advice.sentence


def test_without_a_predictor_within_the_target_the_verdict_is_off() -> None:
    advice = chosen(halves("v1", (0.6, 0.4)), halves("v2", (0.5, 0.2)), halves("v3", (0.41, 0.01)))
    assert isinstance(advice, Recommendation)
    assert advice.verdict is Verdict.OFF
    assert "The closest is v2: it underestimates 20.0%" in advice.reasons[1]


def test_without_improvement_no_closest_predictor_is_named() -> None:
    advice = chosen(halves("v3", (0.41, 0.01)))
    assert isinstance(advice, Recommendation)
    assert len(advice.reasons) == 1


def test_the_older_half_selects_the_most_accurate_predictor_within_the_target() -> None:
    best = halves("a", (0.55, 0.05), newer=(0.1, 0.9))
    advice = chosen(halves("v1", (0.6, 0.06)), best, halves("b", (0.5, 0.0), newer=(0.9, 0.0)))
    assert isinstance(advice, Choice)
    assert advice.predictor is best
    assert advice.tried == 3


def test_equal_accuracy_selects_fewer_underestimates() -> None:
    advice = chosen(halves("a", (0.5, 0.04)), halves("b", (0.5, 0.01)))
    assert isinstance(advice, Choice)
    assert advice.predictor.spec == "b"


def concluded(found: Halves, *leave_out: LeftOut, jobs: int = 10_000) -> Recommendation:
    return conclude(Choice(found, USERS, 7), found, 0.05, leave_out, jobs)


def test_a_confirmed_predictor_is_enabled() -> None:
    advice = concluded(halves("v3", (0.5, 0.05), newer=(0.45, 0.075)))
    assert advice.verdict is Verdict.ON
    assert "expect mean accuracy 0.45 instead of 0.40, 7.5% of the jobs underestimated" in advice.sentence
    assert advice.cautions[0].startswith("On the newer half it underestimates 7.5%, slightly more than the target")
    assert concluded(halves("v3", (0.5, 0.05))).cautions == ()
    assert advice.expected is not None
    assert advice.expected.underestimated == 0.075


@pytest.mark.parametrize("newer", [(0.5, 0.0751), (0.419, 0.01)])
def test_an_unconfirmed_predictor_is_for_shadow_mode_only(newer: tuple[float, float]) -> None:
    advice = concluded(halves("v3", (0.5, 0.05), newer))
    assert advice.verdict is Verdict.SHADOW
    assert "does not confirm it" in advice.cautions[-1]


def test_cautions_name_losses() -> None:
    worse = part(0.5, 0.01, mean_absolute_error=200.0, accuracy_by_cpu_hours=0.3)
    advice = concluded(replace(halves("v3", (0.5, 0.01)), newer=worse), LeftOut("q", 6000, "why"))
    assert [caution.split(":")[0] for caution in advice.cautions] == [
        "The mean absolute error increases from 1.7 min to 3.3 min",
        "Weighted by CPU hours the accuracy decreases from 0.400 to 0.300",
        "The excluded queues contain 60% of the jobs.",
    ]


def queue(name: str, jobs: int, under: float, accuracy: float) -> Group:
    return Group(name, jobs, 100.0, 50.0, 0.4, accuracy, under, 0.5)


def test_large_queues_with_underestimates_or_without_improvement_are_excluded() -> None:
    found = queues_to_leave_out(
        [
            queue("good", 500, 0.1, 0.6),
            queue("risky", 500, 0.11, 0.6),
            queue("useless", 500, 0.0, 0.4),
            queue("small", 99, 0.9, 0.1),
        ],
        0.05,
    )
    assert [(one.name, one.reason.split(":")[0]) for one in found] == [
        ("risky", "11.0% of its jobs would be underestimated"),
        ("useless", "no improvement"),
    ]


def test_the_daemon_accepts_the_policy() -> None:
    spec = "percentile:p=95,keys=user+project,window=30d,threshold=0.5"
    names = ['odd "queue"\\', "tëst", "plain"]
    advice = concluded(halves(spec, (0.5, 0.01)), *(LeftOut(name, 100, "") for name in names))
    policy = SitePolicy(**tomllib.loads(advice.policy)["policy"])
    assert (policy.mode, policy.waiting, policy.running) == ("shadow", spec, "walltime")
    assert [rule.queue for rule in policy.rules] == names
    assert {rule.mode for rule in policy.rules} == {"off"}
