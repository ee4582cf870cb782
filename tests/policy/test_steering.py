"""Steering: theta follows kept and broken promises within its bounds, and scales what is decided for waiting jobs."""

import math

import pytest

from softwalltime.errors import UsageError
from softwalltime.events import Kind
from softwalltime.jobs import NoPrediction, Prediction
from softwalltime.live.options import live_options, without_live
from softwalltime.policy.decide import decide
from softwalltime.policy.presets import unused
from softwalltime.policy.site import JobPolicy, site_policy
from softwalltime.policy.steering import Steering
from softwalltime.reasons import Reason
from tests.samples import job


def test_theta_moves_by_a_twentieth_of_the_difference_to_the_target() -> None:
    steering = Steering(0.2)
    steering.started(61)
    assert steering.theta == pytest.approx(0.05 * 0.8)
    steering.started(60)
    assert steering.theta == pytest.approx(0.05 * 0.6)
    assert steering.factor == pytest.approx(math.exp(0.03))


def test_theta_is_bounded() -> None:
    for late, bound in ((1000, 3.0), (-1000, -3.0)):
        steering = Steering(0.5, theta=bound * 0.99)
        for _ in range(10):
            steering.started(late)
        assert steering.theta == bound
    assert Steering(0.5, theta=99.0).theta == 3.0


@pytest.mark.parametrize(
    ("kind", "factor", "predicted", "expected"),
    [
        (Kind.SUBMITTED, 2.0, 600.0, 1200),
        (Kind.ALTERED, 0.5, 600.0, 300),
        (Kind.STARTED, 2.0, 600.0, 600),
        (Kind.SUBMITTED, 0.05, 600.0, 60),
        # At most the walltime, before the factor: a shorter waiting value follows at once.
        (Kind.SUBMITTED, 0.5, 1e9, 1800),
        (Kind.SUBMITTED, 20.0, 600.0, None),
        (Kind.SUBMITTED, 0.5, math.nan, None),
    ],
)
def test_predictions_for_waiting_jobs_are_multiplied(
    kind: Kind, factor: float, predicted: float, expected: int | None
) -> None:
    terms = JobPolicy("on", "w", "r", 60, factor=factor)
    decision = decide(
        terms, kind, job(walltime=3600).submission, None, lambda *_: Prediction(predicted, "mean of {}", (7,))
    )
    assert decision.soft_walltime == expected
    steered = f"mean of 7, times {factor:.2f} by steering" if kind != Kind.STARTED else "mean of 7"
    assert decision.basis.startswith(steered)


def test_what_is_not_predicted_is_not_multiplied() -> None:
    terms = JobPolicy("on", "w", "r", 60, "o", factor=0.5)
    cold = NoPrediction(Reason.NO_COMPLETED_JOBS, ("alice",))
    submission = job(walltime=3600).submission
    assert decide(terms, Kind.SUBMITTED, submission, None, lambda *_: cold).soft_walltime is None
    assert decide(terms, Kind.SUBMITTED, submission, None, lambda *_: Prediction(600.0, "")).ordering == 600
    held = decide(terms._replace(guarded=True), Kind.SUBMITTED, submission, 600, lambda *_: cold)
    assert (held.soft_walltime, held.reason) == (3600, Reason.GUARD)


def test_the_setting_is_for_queues_in_order_of_arrival() -> None:
    assert site_policy({"preset": "safe", "steer": 0.2}).steer == 0.2
    assert site_policy({}).steer is None
    assert "steered to 20% of the promised starts late" in str(site_policy({"preset": "safe", "steer": 0.2}))
    with pytest.raises(UsageError, match="steer needs a queue without ordering value"):
        site_policy({"mode": "on", "ordering": "v1", "steer": 0.2})
    for preset in ("off", "shadow", "order"):
        values = {"preset": preset, "steer": 0.2}
        assert site_policy(values).steer is None
        assert unused(values) == ("steer",)
    for wrong in (0, 1, "much"):
        with pytest.raises(UsageError, match=r"^policy.steer: "):
            site_policy({"steer": wrong})


def test_what_needs_live_values_says_so_while_they_are_off() -> None:
    safe, steered = site_policy({"preset": "safe"}), site_policy({"mode": "on", "waiting": "v1", "steer": 0.2})
    off, on = live_options({}, "safe"), live_options({"mode": "on"}, "safe")
    assert (on.guard, live_options({"guard": "off"}, "safe").guard, live_options({}, "custom").guard) == (
        3600,
        None,
        None,
    )
    assert without_live(safe, on) == ""
    assert without_live(safe, off).startswith(
        "preset safe: the guard needs live values, and they are off, so waiting jobs are planned with their walltimes: "
        "set mode"
    )
    assert "planned" not in without_live(site_policy({"preset": "order"}), live_options({}, "order"))
    without_guard = live_options({"mode": "on", "guard": "off"}, "safe")
    assert "the guard is off, so waiting jobs are planned with their walltimes" in without_live(safe, without_guard)
    assert without_live(site_policy({"preset": "safe", "steer": 0.2}), without_guard) == "", "steering is in its place"
    assert without_live(steered, live_options({"mode": "shadow"})).startswith("the policy: steering needs live values")
    assert "the guard and steering need" in without_live(site_policy({"preset": "safe", "steer": 0.2}), off)
    assert without_live(site_policy({"preset": "shadow"}), live_options({}, "shadow")) == ""
