"""Simulated policies with the chosen predictors, and what follows from them for the site."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from softwalltime.policy.presets import HALF
from softwalltime.simulation.differences import Interval, means, relative_changes
from softwalltime.simulation.metrics import Metrics
from softwalltime.simulation.policies import WALLTIME, Policy
from softwalltime.tuning.choice import Chosen
from softwalltime.tuning.own_weights import is_calibrated, weights_of, with_weights

TODAY = "today: walltimes"
HALVED = "half the walltime"
MEAN = "calibrated:statistic=mean"
"""The value for waiting jobs and for the order with which recorded logs waited least (predictors/TABLE.md)."""
RECOMMENDED = "Recommended: "
"""The begin of the sentence that says what is recommended."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Values of ``[policy]`` that a site can set: predictors for waiting jobs and for the order; ``None`` for none."""

    waiting: str
    ordering: str | None = None

    def policy(self, formula: str, minimum: int) -> Policy:
        """Return the simulator's policy: PBS's cycle, walltimes from the start on."""
        return Policy(
            order="formula" if self.ordering else "fcfs",
            formula=formula if self.ordering else "",
            backfill="pbs",
            waiting=self.waiting,
            ordering=self.ordering or WALLTIME,
            classes_by_value=self.waiting != WALLTIME or self.ordering is not None,
            minimum=minimum,
        )


def settings_of(chosen: Chosen) -> dict[str, Setting]:
    """Return the settings to simulate by name: today's first, then half the walltime, which needs no history."""
    found = {TODAY: Setting(WALLTIME), HALVED: Setting(HALF)}
    found |= {f"waiting {spec}": Setting(spec) for spec in chosen.specs() if spec != HALF}
    if chosen.middle is not None and chosen.middle != HALF:
        found[f"half the walltime, order by {chosen.middle}"] = Setting(HALF, chosen.middle)
    calibrated = [spec for spec in chosen.specs() if is_calibrated(spec)]
    if calibrated:
        mean = with_weights(MEAN, weights_of(calibrated[0]))
        found[f"waiting and order by {mean}"] = Setting(mean, mean)
    return found


@dataclass(frozen=True, slots=True)
class Advice:
    """The recommended setting by name, ``None`` for today's; the reasons as sentences."""

    name: str | None
    """The recommended setting; null: today's."""
    reasons: tuple[str, ...]
    """The reasons, as sentences."""


def recommend(settings: Mapping[str, Setting], metrics: Mapping[str, Sequence[Metrics]], caution: str = "") -> Advice:
    """Recommend the setting that keeps the order of the queue and shortens the mean wait, where that is shown.

    Half the walltime is simple, needs no history and explains itself: another setting must be better beyond the 95%
    interval of paired workloads.

    :param metrics: of each setting, workload by workload.
    :param caution: why nothing can be recommended from the intervals; empty if they say enough.
    """

    def wait(name: str, other: str) -> Interval:
        return relative_changes(metrics[name], metrics[other])["wait_mean"]

    keeping = [name for name, setting in settings.items() if name not in (TODAY, HALVED) and setting.ordering is None]
    better = {name: wait(name, HALVED) for name in keeping}
    shown = {name: change.mean for name, change in better.items() if _shorter(change) and change.mean is not None}
    half = wait(HALVED, TODAY)
    reasons = [f"Half the walltime changes the mean wait by {_words(half)} against today{_broken(metrics[HALVED])}."]
    reasons += [
        f"{name}: {_words(change)} against half the walltime{_broken(metrics[name])}."
        for name, change in better.items()
    ]
    best = min(shown, key=lambda name: shown[name], default=None)
    if best is None or not _shorter(wait(best, TODAY)):
        best = HALVED if _shorter(half) else None
    if best is None:
        reasons.append(f"{RECOMMENDED}none. No setting is shown to shorten the mean wait: keep mode shadow.")
    elif caution:
        reasons.append(f"{RECOMMENDED}none beyond mode shadow. {caution}")
        best = None
    elif best == HALVED:
        reasons.append(
            f"{RECOMMENDED}half the walltime (preset safe). No predictor is shown to shorten waits more, and half the "
            "walltime needs no history."
        )
    else:
        reasons.append(f"{RECOMMENDED}{best}. Its mean wait is shorter than today's and than with half the walltime.")
    reasons += [
        f"{name}: {_words(wait(name, TODAY))} against today, but it changes the order of the queue "
        "(deploy/POLICIES.md, presets balanced and order)."
        for name, setting in settings.items()
        if setting.ordering is not None
    ]
    return Advice(best, tuple(reasons))


def _shorter(change: Interval) -> bool:
    """Whether the whole interval is below 0."""
    return change.high is not None and change.high < 0


def _broken(metrics: Sequence[Metrics]) -> str:
    """Say what share of the starts promised to top jobs came later; nothing where none was promised."""
    share = means(metrics).broken
    return "" if share is None else f", and breaks {share:.1%} of the promised starts"


def _words(change: Interval) -> str:
    if change.mean is None:
        return "an unknown amount"
    if change.low is None or change.high is None:
        return f"{change.mean:+.1%} (one workload: no interval)"
    return f"{change.mean:+.1%} [{change.low:+.1%}, {change.high:+.1%}]"
