"""What needs live values says so while they are off."""

from softwalltime.predict.policy.site import site_policy
from softwalltime.service.live.live_options import live_options, without_live


def test_what_needs_live_values_says_so_while_they_are_off() -> None:
    safe = site_policy({"preset": "safe"})
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
    slack = live_options({"slack": 60}, "safe")
    assert "the guard and slack need live values" in without_live(safe, slack)
    assert without_live(site_policy({"preset": "shadow"}), live_options({}, "shadow")) == ""
