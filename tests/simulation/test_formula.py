"""PBS's job_sort_formula: evaluated as PBS does, and nothing else can be run by it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softwalltime.core.errors import OptionError
from softwalltime.measure.simulation.engine import check, simulate
from softwalltime.measure.simulation.formula import compiled
from softwalltime.measure.simulation.orders import NAMES, Formula
from softwalltime.measure.simulation.planned_values import Values
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.simulated_jobs import Jobs, jobs_of
from tests.samples import job


def priority(formula: str, waiting: str = "walltime") -> float:
    """Values of a job with a walltime of 1 h and 4 processors that has waited 30 min."""
    workload = jobs_of([job(submitted=0, walltime=3600, ncpus=4, mem=2**30)])
    policy = SchedulerPolicy(order="formula", formula=formula, waiting=waiting, ordering="factor:0.25")
    values = Values(workload, policy, list(workload.runtime))
    values.submitted(0, 0)
    return float(Formula(workload, values, policy).priorities(np.array([0]), 1800)[0])


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("eligible_time", 1800),
        ("walltime / ncpus - 1", 899),
        ("-(soft_walltime or walltime)", -3600),
        ("predicted", 900),
        ("(eligible_time + 3600.0) / (predicted or walltime or 1e9)", 6),
        ("1e6 + eligible_time if eligible_time > 1000 else 5", 1001800),
        ("5 if not eligible_time > 1000 else 6", 6),
        ("min(ncpus, 2, 3) + max(ncpus, 2) + abs(-1)", 7),
        ("pow(ncpus, 2) + ncpus ** 2 + ncpus // 3 + ncpus % 3", 34),
        ("ngpus or 7", 7),
        ("ncpus and 7", 7),
        ("sqrt(ncpus) + floor(1.5) + ceil(1.5) + log10(100) + log2(8) + exp(0)", 11),
        ("eligible_time / ngpus", 0),
        ("log10(ngpus)", 0),
        ("mem", 2**20),
        ("3", 3),
        # Single precision, as in PBS.
        ("16777217", 16777216),
    ],
)
def test_a_formula_is_evaluated(formula: str, expected: float) -> None:
    assert priority(formula) == expected


def test_a_waiting_value_below_the_walltime_is_the_soft_walltime() -> None:
    assert priority("soft_walltime", waiting="factor:0.5") == 1800


@pytest.mark.parametrize(
    "formula",
    [
        "__import__('os').system('true')", "walltime.__class__", "(lambda: 1)()", "[1][0]", "{1: 2}[1]", "'text'",
        "f'{walltime}'", "open", "eval('1')", "min(*[1, 2])", "max(1, key=2)", "x := 3", "1 < 2 < 3", "True", "1 if 1",
        "min(1)", "walltime; ncpus", "(" * 500 + "1" + ")" * 500, "-" * 3000 + "1", "", "yield", "1 << 2", "~1", "1j",
        "import os", "walltime @ ncpus", "9" * 400, "unknown + 1", "1\x00",
    ],
)  # fmt: skip
def test_what_is_not_listed_is_refused_in_one_line(formula: str) -> None:
    with pytest.raises(OptionError) as caught:
        check(SchedulerPolicy(order="formula", formula=formula))
    assert "\n" not in str(caught.value).strip()


PIECES = [*"0123456789.+-*/%()<>=! ,", *(f" {name} " for name in (*NAMES, "if", "else", "or"))]


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_any_text_is_a_formula_or_an_option_error(text: str) -> None:
    try:
        evaluate = compiled(text, NAMES)
    except OptionError:
        return
    with np.errstate(all="ignore"):
        evaluate(dict.fromkeys(NAMES, np.array([0.0, 1.0])))


def test_the_expansion_factor_as_a_formula_gives_the_same_schedule(jobs: Jobs) -> None:
    formula = "(eligible_time + 3600.0) / (predicted or walltime or 1e9)"
    assert np.array_equal(
        simulate(jobs, 64, SchedulerPolicy(order="formula", formula=formula)).start,
        simulate(jobs, 64, SchedulerPolicy(order="xf")).start,
    )


def test_a_formula_without_its_order_and_the_other_way_round_are_refused() -> None:
    with pytest.raises(OptionError, match="a formula is for the order formula, and the order is wfp"):
        check(SchedulerPolicy(order="wfp", formula="walltime"))
    with pytest.raises(OptionError, match="needs an expression"):
        check(SchedulerPolicy(order="formula"))
