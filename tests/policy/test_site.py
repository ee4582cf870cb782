"""The site's policy: the users of a share, rules, the limits of values, and the line in the log."""

from typing import Any

import pytest
from pydantic import ValidationError

from softwalltime.core.errors import UsageError
from softwalltime.predict.policy.presets import guard_of, resolved
from softwalltime.predict.policy.site import KEEP, WALLTIME, SitePolicy, site_policy, user_rank
from tests.samples import job

USERS = [f"user{number}" for number in range(1000)]


def users_on(share: float, **values: Any) -> set[str]:
    policy = site_policy({"mode": "on", "share": share, **values})
    modes = {user: policy.terms(job(user).submission).mode for user in USERS}
    assert set(modes.values()) <= {"on", "shadow"}
    return {user for user in USERS if modes[user] == "on"}


def test_the_rank_of_a_user_never_changes() -> None:
    # Another place would move users in and out of the share at an upgrade.
    assert user_rank("alice") == pytest.approx(0.3043658763184171, rel=1e-12)
    assert all(0 <= user_rank(user) < 1 for user in USERS)
    assert user_rank("\udcff") != user_rank("\udcfe")


def test_mode_on_holds_for_a_share_of_the_users_which_only_grows() -> None:
    some, more = users_on(0.1), users_on(0.5)
    assert 60 < len(some) < 140
    assert 430 < len(more) < 570
    assert some < more
    assert users_on(1.0) == set(USERS)
    assert users_on(0.0) == set()


def test_a_user_at_the_edge_of_the_share_is_outside() -> None:
    rank = user_rank("alice")
    assert site_policy({"mode": "on", "share": rank}).terms(job("alice").submission).mode == "shadow"
    assert site_policy({"mode": "on", "share": rank + 1e-9}).terms(job("alice").submission).mode == "on"


@pytest.mark.parametrize("mode", ["off", "shadow"])
def test_the_share_does_not_concern_other_modes(mode: str) -> None:
    policy = site_policy({"mode": mode, "share": 0.0})
    assert policy.terms(job().submission).mode == mode


@pytest.mark.parametrize(
    ("values", "accepted"),
    [
        ({"minimum": 60}, True), ({"minimum": 59}, False), ({"share": 0}, True), ({"share": 1}, True),
        ({"share": -0.01}, False), ({"share": 1.01}, False),
        ({"rules": [{"minimum": 60}]}, True), ({"rules": [{"minimum": 59}]}, False),
    ],
)  # fmt: skip
def test_values_have_limits(values: dict[str, Any], accepted: bool) -> None:
    if accepted:
        site_policy(values)
    else:
        with pytest.raises(UsageError):
            site_policy(values)


def test_an_unknown_predictor_is_an_error_of_its_key_and_keep_and_walltime_are_none() -> None:
    with pytest.raises(UsageError, match=r"policy.waiting: no predictor is called 'v99'"):
        site_policy({"waiting": "v99"})
    assert site_policy({"waiting": KEEP, "running": WALLTIME}).specs() == set()


@pytest.mark.parametrize(
    ("rule", "applies"),
    [
        ({}, True), ({"queue": "q"}, True), ({"queue": "r"}, False), ({"user": "alice"}, True),
        ({"user": "bob"}, False),
        ({"project": "p"}, True), ({"project": "x"}, False), ({"queue": "q", "user": "alice", "project": "p"}, True),
        ({"queue": "r", "user": "alice", "project": "p"}, False),
        ({"queue": "q", "user": "bob", "project": "p"}, False),
        ({"queue": "q", "user": "alice", "project": "x"}, False),
    ],
)  # fmt: skip
def test_a_rule_is_for_the_jobs_that_match_all_of_it(rule: dict[str, str], applies: bool) -> None:
    policy = site_policy({"mode": "shadow", "rules": [{**rule, "mode": "on"}]})
    assert policy.terms(job("alice", queue="q").submission).mode == ("on" if applies else "shadow")


def test_a_later_rule_overrides_an_earlier_one_value_by_value() -> None:
    first = {"waiting": "v1", "running": "v2", "ordering": "v3", "minimum": 90, "exclusive": "waiting", "mode": "on"}
    policy = site_policy({"rules": [first, {"waiting": "v4", "minimum": 120}]})
    assert policy.terms(job().submission) == ("on", "v4", "v2", 120, "v3", False, False)


def test_the_line_in_the_log_has_what_differs_from_the_defaults() -> None:
    policy = SitePolicy(mode="on", waiting="v1", share=0.25, rules=({}, {}))
    assert str(policy) == ("mode on, for 25% of the users, waiting v1, running walltime, minimum 60 s, 2 rules")
    assert str(SitePolicy(preset="off", waiting="v1")) == (
        "preset off: mode off, waiting v1, running walltime, minimum 60 s"
    )


def test_a_policy_and_its_rules_do_not_change() -> None:
    policy = site_policy({"rules": [{"queue": "q"}]})
    for model, name in ((policy, "mode"), (policy.rules[0], "queue")):
        with pytest.raises(ValidationError, match="frozen"):
            setattr(model, name, "on")


def test_the_guard_of_a_preset_is_an_hour() -> None:
    assert [guard_of(name) for name in ("off", "shadow", "safe", "order", "custom", "sfae", None)] == [
        None, None, 3600, 3600, None, None, None,
    ]  # fmt: skip


def test_presets_fix_what_they_are_and_leave_the_rest() -> None:
    assert resolved({"preset": "sfae", "mode": "on"}) == {"preset": "sfae", "mode": "on"}
