"""Baselines and candidates of a simulation: the site's current policy, and policies that it could enable."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.predict.policy.clamp import MIN_SOFT_WALLTIME_S
from softwalltime.predict.policy.plan_file import Plan
from softwalltime.predict.policy.power_order import BALANCED, PowerOrder
from softwalltime.predict.policy.presets import HALF, HOUR, PRESETS, PresetName
from softwalltime.predict.policy.site import WALLTIME

RESOURCE = "predicted"
"""Name of the ordering value in the simulator's formulas."""
CAPPED = replace(BALANCED, cap=8.0)
"""The order of balanced in which jobs longer than a working day count as equally long."""
CAPPED_NAME = f"balanced, lengths up to {CAPPED.cap:g} h"
TODAY = "today"
FAIR = "fair share"
WITHOUT_LIVE = ", live values off"
WITH_GUARD = ", with guard"
PREDICTORS = ("v1", "v3", "percentile", "calibrated")
"""Predictors to plan waiting jobs with, under the guard: they need no training at the site."""
MEDIAN = "calibrated:statistic=median"
"""The median of ``calibrated``, for the order of the queue."""
LOOK = 60
"""Seconds between two polls of live values: a job keeps its place from the second poll on."""
CHANCE = "chance: walltimes x 0.98"
"""Placebo policy: its effects on single jobs are chance."""
BASELINES = {
    TODAY: SchedulerPolicy(backfill="pbs"),
    "as delivered": SchedulerPolicy(backfill="pbs", strict_ordering=False),
    "WFP": SchedulerPolicy(backfill="pbs", order="wfp"),
    FAIR: SchedulerPolicy(backfill="pbs", order="fairshare"),
}
"""What sites run, by name: PBS with strict ordering in order of arrival, PBS as delivered (it reserves nothing, so
every job that fits starts), WFP, which is usual on machines for wide jobs, and fair share with equal shares; all with
walltimes."""
_CHANGING: tuple[PresetName, ...] = ("safe", "balanced", "order")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A policy that a site can switch on.

    ``preset``: its name in ``[policy]``, or ``custom``.  ``own``: chosen by the site's own log; it may replace a
    common candidate, but does not decide the verdict.
    """

    name: str
    policy: SchedulerPolicy
    preset: PresetName = "custom"
    own: bool = False

    @property
    def keeps_order(self) -> bool:
        return self.policy.ordering == WALLTIME

    @property
    def guarded(self) -> bool:
        return self.policy.guard is not None

    @property
    def predictor(self) -> str:
        """The predictor for waiting jobs, or else for the order."""
        return self.policy.waiting if self.policy.waiting != WALLTIME else self.policy.ordering


@dataclass(frozen=True, slots=True)
class Baseline:
    """The site's current policy: its name in tables and sentences, and the scheduler with walltimes on PBS's cycle.

    Candidates have its least soft walltime, and its order of the queue unless they have one of their own.
    """

    name: str = TODAY
    policy: SchedulerPolicy = BASELINES[TODAY]
    remarks: tuple[str, ...] = ()
    """Features of the site's scheduler that are not simulated."""
    plan: Plan | None = None
    """A plan whose policy is a candidate too."""


STRICT_ARRIVAL = Baseline()
"""PBS with strict ordering in order of arrival."""


def common_candidates(baseline: Baseline = STRICT_ARRIVAL) -> list[Candidate]:
    """Return the candidates for every site: presets, ``CAPPED``, predictors under the guard, the policy of a plan."""
    presets = [
        Candidate(name if guard else f"{name}{WITHOUT_LIVE}", preset_policy(name, baseline, guard), name)
        for name in _CHANGING
        for guard in (HOUR, None)
        if guard or PRESETS[name].order
    ]
    balanced = preset_policy("balanced", baseline)
    capped = Candidate(CAPPED_NAME, replace(balanced, formula=order_formula(CAPPED, baseline)))
    planned = [] if baseline.plan is None else [planned_candidate(baseline.plan, baseline)]
    return [*presets, capped, *(waiting_candidate(spec, baseline) for spec in PREDICTORS), *planned]


def own_candidates(specs: Sequence[str], ordering: str, baseline: Baseline = STRICT_ARRIVAL) -> list[Candidate]:
    """Return candidates with predictors that were chosen by the site's own log.

    :param specs: predictors for waiting jobs.
    :param ordering: predictor for the order of ``balanced`` without live values.
    """
    waiting = [spec for spec in specs if spec not in (HALF, *PREDICTORS)]
    balanced = replace(preset_policy("balanced", baseline, None), ordering=ordering)
    return [
        *(replace(waiting_candidate(spec, baseline), own=True) for spec in waiting),
        Candidate(f"balanced by {ordering}{WITHOUT_LIVE}", balanced, own=True),
    ]


def waiting_candidate(spec: str, baseline: Baseline) -> Candidate:
    """Return the candidate that plans waiting jobs with this predictor, under the guard of the presets."""
    policy = replace(preset_policy("safe", baseline), waiting=spec)
    return Candidate(f"waiting {spec}{WITH_GUARD}", policy)


def planned_candidate(plan: Plan, baseline: Baseline = STRICT_ARRIVAL) -> Candidate:
    values, guard = plan.policy, None if plan.live.guard == "off" else plan.live.guard
    alike: PresetName = "safe" if plan.pbs is None else "balanced"
    policy = preset_policy(alike if values.preset == "custom" else values.preset, baseline, guard)
    if values.preset == "custom":
        waiting, running = values.waiting or WALLTIME, values.running or WALLTIME
        policy = replace(
            policy, waiting=waiting, running=running, ordering=values.ordering or WALLTIME, guard=guard,
            strict_ordering=_is_strict(baseline, waiting, guard),
        )  # fmt: skip
    if plan.pbs is not None:
        policy = replace(policy, formula=plan.pbs.job_sort_formula)
    return Candidate(f"plan {plan.setting.removeprefix('plan ')}", policy, values.preset)


def chance_policy(baseline: SchedulerPolicy) -> SchedulerPolicy:
    return replace(baseline, waiting="factor:0.98", classes_by_value=True)


def preset_policies(baseline: Baseline = STRICT_ARRIVAL) -> dict[str, SchedulerPolicy]:
    """Return the baselines and the presets by name, the baseline first; fair share only as the baseline.

    A preset has its guard; another policy is the preset while live values are off.  safe is today's policy then, and
    is left out.
    """
    usual = {name: usual_baseline(name, baseline.policy.minimum).policy for name in BASELINES if name != FAIR}
    presets = {one.name: one.policy for one in common_candidates(baseline) if one.preset != "custom"}
    return {baseline.name: baseline.policy} | usual | presets


def preset_policy(name: PresetName, baseline: Baseline = STRICT_ARRIVAL, guard: int | None = HOUR) -> SchedulerPolicy:
    """Return a preset as a policy of the simulator: order, backfilling and predictors on a PBS set up for it.

    Presets that set nothing, and ``custom``, are the baseline.  One without an order of its own keeps the baseline's.
    Strict ordering is the baseline's if waiting jobs keep their walltimes and no promise is kept.

    :param guard: seconds; ``None``: live values are off, so a preset that needs the guard plans with walltimes.
    """
    preset, site = PRESETS[name], baseline.policy
    if preset.fixed.get("mode") != "on":
        return site
    values = preset.fixed
    order = preset.order
    waiting = WALLTIME if guard is None and preset.needs_guard else values.get("waiting") or WALLTIME
    return replace(
        site,
        order=site.order if order is None else "formula",
        formula=site.formula if order is None else order_formula(order, baseline),
        queue_priorities=site.queue_priorities if order is None else (),
        queues=site.queues if order is None else (),
        strict_ordering=_is_strict(baseline, waiting, guard),
        waiting=waiting,
        running=values.get("running") or WALLTIME,
        ordering=values.get("ordering") or WALLTIME,
        classes_by_value=True,
        guard=guard if waiting != WALLTIME else None,
        keep_promises=LOOK if guard is not None and order is not None else None,
    )


def _is_strict(baseline: Baseline, waiting: str, guard: int | None) -> bool:
    """Whether a policy runs with strict ordering: values of waiting jobs and a guard need it, else the site decides."""
    return baseline.policy.strict_ordering or waiting != WALLTIME or guard is not None


def order_formula(order: PowerOrder, baseline: Baseline) -> str:
    """Return an order as the formula that the site gets; where fair share orders its jobs, it is a factor."""
    return order.formula(RESOURCE, fair_share=baseline.policy.order == "fairshare")


def usual_baseline(name: str = TODAY, minimum: int = MIN_SOFT_WALLTIME_S) -> Baseline:
    """Return one of :data:`BASELINES`."""
    return Baseline(name, replace(BASELINES[name], minimum=minimum))
