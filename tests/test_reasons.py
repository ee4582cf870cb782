"""Reasons: stored codes and the sentences that they stand for."""

import re

import pytest

from softwalltime.core.jobs import NoPrediction
from softwalltime.core.reasons import Reason, sentence

VALUES: dict[Reason, tuple[object, ...]] = {
    Reason.NO_COMPLETED_JOBS: ("{bob}",),
    Reason.NO_COMPLETED_JOBS_WITH_WALLTIME: ("{bob}",),
    Reason.TOO_FEW_JOBS: (3, "user", 30.0, 10),
    Reason.OTHER: ("the model has not converged",),
}


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_is_a_short_code_with_a_sentence(reason: Reason) -> None:
    assert re.fullmatch("[a-z_]{5,40}", reason)
    rendered = sentence(reason, VALUES.get(reason, ()))
    assert len(rendered) > 10
    for value in VALUES.get(reason, ()):
        assert (f"{value:g}" if isinstance(value, float) else str(value)) in rendered


def test_no_two_reasons_have_the_same_sentence() -> None:
    assert len({sentence(reason, VALUES.get(reason, ())) for reason in Reason}) == len(Reason)


def test_a_cold_start_renders_its_reason_with_its_values() -> None:
    cold = NoPrediction(Reason.TOO_FEW_JOBS, (3, "user", 30.0, 10))
    assert cold.basis == "only 3 jobs with the same user ended in the last 30 days; 10 are needed"


def test_a_predictor_of_another_package_gives_its_own_sentence() -> None:
    assert NoPrediction(Reason.OTHER, ("the model has {not} converged",)).basis == "the model has {not} converged"
