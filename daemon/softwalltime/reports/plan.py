"""Create the plan file of a recommendation: values for settings and PBS, and the simulated effect."""

from datetime import datetime

from softwalltime import __version__
from softwalltime.measure.simulation.differences import Interval
from softwalltime.predict.policy.plan_file import (
    Plan,
    PlannedLive,
    PlannedPbs,
    PlannedPolicy,
    Promised,
    PromisedChange,
    PromisedClass,
    moment_of,
)
from softwalltime.reports.candidates import Candidate
from softwalltime.reports.recommendation import Recommendation
from softwalltime.reports.simulation import SimulationFigures

_KINDS = ("runtime", "size", "queue")
"""Kinds of classes in the plan: recorded ones whose names identify nobody."""
_DIGITS = 4


def plan_of(recommended: Recommendation, simulated: SimulationFigures, now: datetime) -> Plan:
    waits = recommended.waits
    if waits is None:
        raise ValueError("only a recommended policy has a plan")
    candidate, before, after = waits.setting, simulated.baseline, waits.metrics
    classes = tuple(
        PromisedClass(
            kind=kind,
            name=today.name,
            jobs=today.jobs,
            wait_before=round(today.metrics.wait_mean or 0.0),
            wait_after=round(then.metrics.wait_mean or 0.0),
            change=_change(then.changes["wait_mean"]),
            longer=then.longer and not today.small,
        )
        for kind in _KINDS
        for today, then in zip(simulated.classes.get(kind, ()), waits.classes.get(kind, ()), strict=True)
    )
    guard = candidate.policy.guard
    return Plan(
        written=now,
        version=__version__,
        setting=candidate.name,
        recommendation=recommended.sentence,
        policy=PlannedPolicy.model_validate(_policy(candidate)),
        # Without a guard, the settings say so.
        live=PlannedLive(mode="off", guard="off") if guard is None else PlannedLive(mode="on", guard=guard),
        pbs=PlannedPbs(job_sort_formula=candidate.policy.formula) if not candidate.keeps_order else None,
        promised=Promised(
            baseline=simulated.order,
            scheduler=simulated.scheduler.given,
            wait_before=round(before.wait_mean or 0.0),
            wait_after=round(after.wait_mean or 0.0),
            change=_change(waits.changes["wait_mean"]) or PromisedChange(mean=0.0, low=0.0, high=0.0),
            broken_before=round(before.broken or 0.0, _DIGITS),
            broken_after=round(after.broken or 0.0, _DIGITS),
            jobs=simulated.jobs,
            processors=simulated.processors,
            first_submission=moment_of(simulated.since),
            last_submission=moment_of(simulated.until),
            classes=classes,
        ),
    )


def _policy(candidate: Candidate) -> dict[str, str]:
    if candidate.preset != "custom":
        return {"preset": candidate.preset}
    policy = candidate.policy
    values = {"preset": "custom", "mode": "on", "waiting": policy.waiting, "running": policy.running}
    return values if candidate.keeps_order else {**values, "ordering": policy.ordering}


def _change(relative: Interval) -> PromisedChange | None:
    if relative.mean is None or relative.low is None or relative.high is None:
        return None
    return PromisedChange(**{end: round(getattr(relative, end), _DIGITS) for end in ("mean", "low", "high")})
