"""From prediction to soft walltime: never less than the minimum, never the walltime or more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softwalltime.core.jobs import NoPrediction, Prediction
from softwalltime.core.reasons import Reason
from softwalltime.predict.policy.clamp import soft_walltime
from tests.samples import job


@pytest.mark.parametrize(
    ("seconds", "walltime", "expected"),
    [
        (1800.0, 3600, 1800), (1800.2, 3600, 1801), (0.0, 3600, 60), (59.1, 3600, 60), (60.5, 3600, 61),
        (3599.0, 3600, 3599), (3599.5, 3600, None), (3600.0, 3600, None), (9e9, 3600, None), (10.0, 60, None),
        (10.0, 61, 60), (5.0, 30, None), (100.0, None, None), (100.0, 0, None),
        (float("nan"), 3600, None), (float("inf"), 3600, None), (-5.0, 3600, 60), (float("-inf"), 3600, 60),
    ],
)  # fmt: skip
def test_it_is_rounded_up_and_clamped(seconds: float, walltime: int | None, expected: int | None) -> None:
    assert soft_walltime(Prediction(seconds, ""), job(walltime=walltime).submission) == expected


def test_a_shrink_to_fit_job_and_a_cold_start_get_none() -> None:
    assert soft_walltime(Prediction(100.0, ""), job(min_walltime=60).submission) is None
    assert soft_walltime(NoPrediction(Reason.BASELINE), job().submission) is None


@given(st.floats(), st.none() | st.integers(0, 10**7), st.integers(1, 10**5))
def test_whatever_is_predicted_the_result_is_safe(seconds: float, walltime: int | None, minimum: int) -> None:
    result = soft_walltime(Prediction(seconds, ""), job(walltime=walltime).submission, minimum)
    assert result is None or (walltime is not None and minimum <= result < walltime)
