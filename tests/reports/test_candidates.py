"""The presets and baselines as policies of the simulator."""

import pytest

from softwalltime.measure.simulation import names
from softwalltime.measure.simulation.engine import check
from softwalltime.measure.simulation.policies import SchedulerPolicy, read_policies
from softwalltime.measure.simulation.shares import FairShareSettings
from softwalltime.predict.policy.presets import BALANCED_WAITING, HALF, HOUR, MEDIAN, PRESETS
from softwalltime.reports.candidates import (
    BASELINES,
    FAIR,
    WITHOUT_LIVE,
    Baseline,
    common_candidates,
    preset_policies,
    preset_policy,
    usual_baseline,
)
from tests.samples import ROOT

TODAY = SchedulerPolicy(backfill="pbs")


def test_a_preset_is_simulated_as_it_is_switched_on() -> None:
    order = PRESETS["balanced"].order
    assert order is not None
    assert preset_policy("balanced") == SchedulerPolicy(
        order="formula", formula=order.formula("predicted"), backfill="pbs", waiting=BALANCED_WAITING,
        ordering=MEDIAN, guard=HOUR,
        classes_by_value=True, keep_promises=60,
    )  # fmt: skip
    assert preset_policy("safe") == SchedulerPolicy(backfill="pbs", waiting=HALF, guard=HOUR, classes_by_value=True)
    for name in PRESETS:
        check(preset_policy(name))


def test_without_live_values_a_preset_that_needs_the_guard_plans_with_walltimes() -> None:
    balanced, order = preset_policy("balanced", guard=None), preset_policy("order", guard=None)
    assert (balanced.waiting, balanced.guard, balanced.ordering) == ("walltime", None, MEDIAN)
    assert (order.waiting, order.guard) == (HALF, None)


@pytest.mark.parametrize("name", ["off", "shadow", "custom"])
def test_presets_that_set_nothing_are_today(name: str) -> None:
    assert preset_policy(name) == TODAY  # type: ignore[arg-type]


def test_a_candidate_that_keeps_the_order_keeps_the_sites_order() -> None:
    for candidate in common_candidates(usual_baseline("WFP")):
        assert (candidate.policy.order == "wfp") is candidate.keeps_order
        assert candidate.policy.strict_ordering
    for candidate in common_candidates(usual_baseline("as delivered")):
        # An order alone works without jobs that are planned ahead.
        assert candidate.policy.strict_ordering is (candidate.name != f"balanced{WITHOUT_LIVE}")
    assert all(one.policy.guard == HOUR for one in common_candidates() if one.policy.waiting not in ("walltime", HALF))


def test_the_order_of_a_site_stays_unless_the_preset_has_one() -> None:
    own = SchedulerPolicy(
        order="formula", formula="queue_priority", queue_priorities=(("fast", 2),), queues=("fast", "slow"),
        backfill="pbs", depth=3, minimum=600, strict_ordering=False,
    )  # fmt: skip
    site = Baseline("queue by queue", own)
    assert preset_policies(site)["queue by queue"] == own
    safe, balanced = preset_policy("safe", site), preset_policy("balanced", site)
    assert (safe.order, safe.formula, safe.queue_priorities) == ("formula", "queue_priority", (("fast", 2),))
    assert safe.queues == ("fast", "slow")
    order = PRESETS["balanced"].order
    assert order is not None
    assert (balanced.formula, balanced.queue_priorities, balanced.queues) == (order.formula("predicted"), (), ())
    assert all(one.policy.depth == 3 and one.policy.minimum == 600 for one in common_candidates(site))
    assert not preset_policy("balanced", site, None).strict_ordering


def test_where_fair_share_orders_the_jobs_an_order_has_it_as_a_factor() -> None:
    shares = FairShareSettings("egroup")
    site = Baseline("fair share", SchedulerPolicy(order="fairshare", fair_share=shares, backfill="pbs"))
    assert preset_policy("safe", site).order == "fairshare"
    ordered = [one.policy for one in common_candidates(site) if not one.keeps_order]
    assert ordered
    assert all(
        policy.formula.endswith("* fairshare_perc / (fairshare_perc + fairshare_tree_usage)") for policy in ordered
    )
    assert all(policy.fair_share == shares for policy in ordered)


def test_each_baseline_can_be_the_first_one() -> None:
    assert tuple(BASELINES) == names.BASELINES
    assert all(next(iter(preset_policies(usual_baseline(name)))) == name for name in BASELINES)
    assert FAIR not in preset_policies()
    assert BASELINES["as delivered"] == SchedulerPolicy(backfill="pbs", strict_ordering=False)
    assert BASELINES["WFP"] == SchedulerPolicy(backfill="pbs", order="wfp")


def test_the_file_of_policies_has_those_of_the_presets() -> None:
    written = read_policies(ROOT / "deploy" / "policies.toml", {})
    compared = preset_policies()
    assert {name: written.get(name) for name in compared} == compared
    delivered = read_policies(ROOT / "deploy" / "delivered.toml", {})
    compared = preset_policies(usual_baseline("as delivered"))
    assert {name: compared[name] for name in delivered} == delivered
