"""Presets: named sets of the policy's values, one word apart from each other."""

import json
from pathlib import Path
from typing import Any

import pytest

from softwalltime.core.errors import UsageError
from softwalltime.predict.policy.presets import BALANCED_WAITING, HALF, MEDIAN, PRESETS, unused
from softwalltime.predict.policy.site import KEEP, WALLTIME, JobPolicy, SitePolicy, site_policy
from softwalltime.predict.predictors.registry import make
from tests.samples import job

POLICIES = Path(__file__).parents[2] / "deploy" / "POLICIES.md"
OWN = {"mode": "on", "waiting": "v1", "running": "v2", "ordering": "v3"}
"""What a site had before it chose presets."""


def terms(user: str = "alice", queue: str = "q", **values: Any) -> JobPolicy:
    return site_policy(values).terms(job(user, queue=queue).submission)


@pytest.mark.parametrize(
    ("preset", "mode", "waiting", "running", "ordering"),
    [
        ("off", "off", "percentile", WALLTIME, None),
        ("shadow", "shadow", BALANCED_WAITING, WALLTIME, MEDIAN),
        ("safe", "on", HALF, WALLTIME, None),
        ("balanced", "on", BALANCED_WAITING, WALLTIME, MEDIAN),
        ("order", "on", HALF, WALLTIME, MEDIAN),
        ("custom", "shadow", "percentile", WALLTIME, None),
    ],
)
def test_a_preset_is_a_named_set_of_values(
    preset: str, mode: str, waiting: str, running: str, ordering: str | None
) -> None:
    policy = site_policy({"preset": preset})
    assert (policy.mode, policy.waiting, policy.running, policy.ordering) == (mode, waiting, running, ordering)
    assert policy.terms(job().submission) == (mode, waiting, running, 60, ordering, True, False)
    assert site_policy(json.loads(policy.model_dump_json())) == policy, "status and settings can be compared"
    assert f"`{preset}`" in POLICIES.read_text()


def test_without_a_preset_the_values_are_those_of_the_settings() -> None:
    assert site_policy(OWN) == site_policy({"preset": "custom", **OWN})
    assert terms(**OWN)[:5] == ("on", "v1", "v2", 60, "v3")


@pytest.mark.parametrize("own", [{}, OWN])
def test_a_site_goes_through_all_presets_and_back_by_one_word(own: dict[str, Any]) -> None:
    before = terms(**own)
    found = [terms(**own, preset=preset) for preset in ("off", "shadow", "safe", "balanced", "order", "off")]
    assert [each.mode for each in found] == ["off", "shadow", "on", "on", "on", "off"]
    assert [each.waiting for each in found[2:5]] == [HALF, BALANCED_WAITING, HALF]
    assert [each.ordering for each in found[2:5]] == [None, MEDIAN, MEDIAN]
    assert terms(**own, preset="custom") == before


def test_shadow_records_the_values_of_the_settings_where_there_are_some() -> None:
    assert terms(**OWN, preset="shadow") == ("shadow", "v1", "v2", 60, "v3", True, False)
    assert terms(waiting="v1", preset="shadow")[1:5] == ("v1", WALLTIME, 60, MEDIAN)


def test_values_that_a_preset_does_not_use_are_named() -> None:
    assert unused({**OWN, "preset": "safe", "minimum": 90}) == ("waiting", "running", "ordering")
    assert unused({**OWN, "preset": "off"}) == unused({**OWN, "preset": "shadow"}) == ("mode",)
    assert unused({**OWN, "preset": "custom"}) == unused(OWN) == unused({"preset": "order"}) == ()


def test_rules_override_the_values_of_a_preset_and_no_mode_exceeds_off_and_shadow() -> None:
    rules = [
        {"queue": "q", "waiting": "v1", "ordering": "v2"},
        {"queue": "r", "mode": "off"},
        {"queue": "s", "mode": "on", "ordering": KEEP, "exclusive": "waiting"},
    ]
    assert terms(preset="safe", rules=rules) == ("on", "v1", WALLTIME, 60, "v2", True, False)
    assert terms(preset="order", rules=rules, queue="r").mode == "off"
    assert terms(preset="order", rules=rules, queue="s") == ("on", HALF, WALLTIME, 60, None, False, False)
    assert terms(preset="shadow", rules=rules, queue="s").mode == "shadow"
    assert terms(preset="shadow", rules=rules, queue="r").mode == "off"
    assert terms(preset="off", rules=rules, queue="s").mode == "off"
    assert terms(preset="custom", mode="off", rules=rules, queue="s").mode == "on", "as without presets"


def test_every_predictor_that_a_policy_names_is_known_to_the_daemon() -> None:
    policy = SitePolicy(preset="order", rules=({"ordering": "v4"}, {"running": KEEP}, {"waiting": WALLTIME}))
    assert policy.specs() == {HALF, MEDIAN, "v4"}
    assert all(make(spec) for preset in PRESETS for spec in SitePolicy(preset=preset).specs())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"preset": "sfae"},
            "policy.preset: should be 'off', 'shadow', 'safe', 'balanced', 'order' or 'custom' ('sfae')",
        ),
        ({"preset": ["safe"]}, "policy.preset: should be"),
        ({"preset": "order", "waitin": "v1"}, "policy.waitin: unknown key; is waiting meant?"),
        ({"preset": "order", "exclusive": "no"}, "policy.exclusive: should be 'walltime' or 'waiting' ('no')"),
        ({"ordering": "v99"}, "policy.ordering: no predictor is called 'v99'"),
        ({"rules": [{"ordering": "v99"}]}, "policy.rules[0].ordering: no predictor is called 'v99'"),
    ],
)
def test_an_error_is_one_line_that_names_the_key(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        site_policy(values)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_the_policy_in_one_line() -> None:
    assert str(site_policy({"preset": "safe"})) == (
        "preset safe: mode on, waiting factor:0.5, running walltime, minimum 60 s"
    )
    assert f"ordering {MEDIAN}, minimum" in str(site_policy({"preset": "order"}))
