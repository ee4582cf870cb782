"""Orders as data: the formula that PBS gets, the specification, and what a user can gain with each term."""

import pytest

from softwalltime.core.errors import OptionError
from softwalltime.predict.policy.power_order import BALANCED, EXPANSION_FACTOR, PowerOrder


def test_the_formulas_of_the_presets() -> None:
    assert BALANCED.formula("predicted") == (
        "2e7 if predicted == 1 and walltime > 1 else (1e7 + eligible_time) if eligible_time > 345600 else "
        "(eligible_time + 3600.0) / "
        "(predicted or walltime or 1e9)**0.125 / (walltime or 1e9)**0.375 * (ncpus or 1)**0.25"
    )
    assert EXPANSION_FACTOR.formula("guess") == (
        "2e7 if guess == 1 and walltime > 1 else (eligible_time + 3600.0) / (guess or walltime or 1e9)"
    )


@pytest.mark.parametrize(
    ("spec", "formula"),
    [
        ("powers:predicted=0,size=0,days=0", "(eligible_time + 3600.0) / (walltime or 1e9)**0.5"),
        (
            "powers:length=0,days=0.5,age=60",
            "(1e7 + eligible_time) if eligible_time > 43200 else (eligible_time + 60.0) * (ncpus or 1)**0.25",
        ),
        (
            "powers:predicted=0.5,size=0,days=0",
            "(eligible_time + 3600.0) / ((p or walltime or 1e9) * (walltime or 1e9))**0.25",
        ),
        (
            "powers:wait=1,predicted=0.25,size=-1,days=0",
            "(eligible_time + 3600.0) / (p or walltime or 1e9)**0.25 / (walltime or 1e9)**0.75 * (ncpus or 1)**-1.0",
        ),
        (
            "powers:size=0,days=0,length=1,predicted=0.5,cap=8",
            "(eligible_time + 3600.0) / ((min(p or walltime, 28800.0) or 1e9) * (min(walltime, 28800.0) or 1e9))**0.25",
        ),
    ],
)  # fmt: skip
def test_each_option_is_in_the_formula(spec: str, formula: str) -> None:
    order = PowerOrder.of(spec)
    assert order.formula("p") == f"2e7 if p == 1 and walltime > 1 else {formula}"
    assert PowerOrder.of(str(order)) == order


def test_fair_share_is_a_factor_below_the_age_limit() -> None:
    plain, fair = BALANCED.formula("p"), BALANCED.formula("p", fair_share=True)
    assert fair == f"{plain} * fairshare_perc / (fairshare_perc + fairshare_tree_usage)"


def test_without_options_the_order_is_balanced() -> None:
    assert PowerOrder.of("powers") == PowerOrder.of("powers:") == BALANCED


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("powers:wait=0", "wait=0 must be from 0.01 to 10"),
        ("powers:wait=nan", "wait=nan must be from"),
        ("powers:days=inf", "days=inf must be from 0 to 100"),
        ("powers:weight=1", "'weight=1' is not of the form option=number; options: wait, length, size, predicted, age"),
        ("powers:wait", "wait=: not a number"),
        ("powers:wait=1,wait=2", "option 'wait' is given twice"),
        ("power:wait=1", "the order is not powers"),
    ],
)
def test_a_wrong_specification_is_refused_in_one_line(spec: str, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        PowerOrder.of(spec)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("option", "least", "most"),
    [
        ("wait", 0.01, 10), ("length", 0, 10), ("size", -10, 10), ("predicted", 0, 1), ("age", 1, 1_000_000),
        ("days", 0, 100), ("cap", 0, 1000),
    ],
)  # fmt: skip
def test_each_option_has_bounds_which_are_allowed_themselves(option: str, least: float, most: float) -> None:
    for value in (least, most):
        assert getattr(PowerOrder.of(f"powers:{option}={value}"), option) == value
    for value in (least - 0.001, most + 0.001):
        with pytest.raises(OptionError, match=f"{option}=.* must be from"):
            PowerOrder.of(f"powers:{option}={value}")


def priority(order: PowerOrder, wait: float, walltime: float, predicted: float, ncpus: int) -> float:
    """The formula as PBS evaluates it: a Python expression."""
    names = {"eligible_time": wait, "walltime": walltime, "predicted": predicted, "ncpus": ncpus}
    return float(eval(order.formula("predicted"), {"__builtins__": {"min": min}}, names))


@pytest.mark.parametrize(("order", "gain"), [(BALANCED, 8**0.125), (EXPANSION_FACTOR, 8)], ids=["balanced", "order"])
def test_what_the_shortest_prediction_for_the_order_buys(order: PowerOrder, gain: float) -> None:
    honest, forged = (priority(order, 7200, 86400, predicted, 1) for predicted in (86400, 86400 / 8))
    assert forged / honest == pytest.approx(gain)


def test_sixteen_times_the_processors_count_as_twice_the_wait() -> None:
    assert priority(BALANCED, 7200, 3600, 3600, 16) / priority(BALANCED, 7200, 3600, 3600, 1) == pytest.approx(2)


def test_no_job_of_a_minute_or_more_comes_before_those_that_waited_four_days() -> None:
    # The shortest job that has waited almost four days, on all of a machine of 10 million processors.
    assert priority(BALANCED, 345_600, 60, 60, 10**7) < priority(BALANCED, 345_601, 10**6, 10**6, 1)


def test_a_job_that_asks_for_no_processors_counts_as_one() -> None:
    assert priority(BALANCED, 3600, 3600, 3600, 0) == priority(BALANCED, 3600, 3600, 3600, 1)


@pytest.mark.parametrize("order", [BALANCED, PowerOrder(cap=8)], ids=["balanced", "with a cap"])
def test_a_job_without_a_walltime_comes_last(order: PowerOrder) -> None:
    unknown = priority(order, 3600, 0, 0, 1)
    assert unknown < priority(order, 3600, 10**7, 10**7, 1)


def test_jobs_longer_than_the_cap_count_as_equally_long() -> None:
    order = PowerOrder(cap=8)
    limits = (4 * 3600, 8 * 3600, 72 * 3600)
    shorter, equal, longer = (priority(order, 3600, walltime, walltime, 1) for walltime in limits)
    assert shorter > equal == longer
