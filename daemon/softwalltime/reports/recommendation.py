"""What to do about soft walltimes: switch a policy on, do not, or the simulation cannot tell.  One set of rules for
``report``, ``tune`` and ``policy compare``.

1. The simulation cannot tell where there are fewer than ``MIN_JOBS`` scored jobs or fewer than ``MIN_DAYS`` days;
   where nothing was simulated; where it does not reproduce the recorded waits (:mod:`.likeness`); with fewer than
   ``shaking.MIN_USERS`` users, whose workloads differ too little for the intervals to speak about other weeks; and with
   fewer than ``MIN_SEEDS`` workloads.
2. Jobs wait less than ``MIN_MEAN_WAIT_S`` on average today, in the log or in the simulation: there is nothing to gain.
3. A candidate qualifies if, over shaken workloads, its mean wait is below the baseline's by more than the 95% interval,
   neither its mean bounded slowdown nor its 95th percentile wait is above by more than theirs, and neither the waits of
   any class of jobs nor the share of promised starts that come later grow beyond their limits (:class:`WaitLimits`);
   and if it shortens the mean wait in the workload as it is recorded too, in which users react to the queue.
4. Of those that qualify half the walltime is chosen, unless the best one that keeps the order of the queue has a mean
   wait below its by more than the 95% interval of the difference; and that one, unless the best one that changes the
   order has.
5. A candidate of the site's own log replaces the chosen one by the same rules, and so decides about no verdict.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from operator import itemgetter

from softwalltime.core.formatting import DAY, duration, exact_percent, percent, plural
from softwalltime.core.progress import ShowProgress, no_progress
from softwalltime.measure.replay.workload import Recorded
from softwalltime.measure.simulation.differences import Interval, interval
from softwalltime.measure.simulation.shaking import FEW_USERS
from softwalltime.predict.policy.presets import HALF, UNDO
from softwalltime.reports.candidates import Candidate, common_candidates
from softwalltime.reports.cautions import changed_classes, simulation_cautions
from softwalltime.reports.likeness import doubts, likeness_line
from softwalltime.reports.simulation import (
    TAILS,
    SettingWaits,
    SimulationFigures,
    SimulationOptions,
    SimulationSkipped,
    prepare,
    simulate_candidates,
)
from softwalltime.reports.waits_by_class import NOTABLE_WAIT_S, ClassWaits, Rename, surely_longer

_NAMES = dict(zip(TAILS, ("all jobs", "widest tenth", "half the machine", "longest tenth"), strict=True))
_WATCHED = ("runtime", "size", "queue", "user")
MIN_USE = 0.01
"""Minimum share of the processor time for a user's jobs to be a class with a limit."""


@dataclass(frozen=True, slots=True)
class WaitLimits:
    """Maximum growth of waits and broken promises against the baseline, as shares."""

    tail: float = 0.05
    """Of the mean and the 99th percentile of the wait of each class of jobs."""
    longest: float = 0.10
    """Of the longest wait."""
    broken: float = 0.05
    """Of the promised starts, those that a policy breaks more."""


def worst_tail(simulated: SimulationFigures, waits: SettingWaits) -> tuple[str, Interval]:
    """Return the class whose 99th percentile wait grows most, as "widest tenth" or "queue long", and its change."""
    growths = {name: waits.changes[tail] for tail, name in _NAMES.items()}
    growths |= {name: then.changes["wait_p99"] for name, then in watched(simulated, waits).items()}
    known = ((name, growth) for name, growth in growths.items() if growth.mean is not None)
    return max(known, key=lambda item: item[1].mean or 0.0, default=("", Interval()))


def exceeded(
    simulated: SimulationFigures, waits: SettingWaits, limits: WaitLimits
) -> dict[str, tuple[Interval, float]]:
    """Return each growth that exceeds its limit, with the limit, by what grows.

    The mean must be above the limit, and the whole 95% interval above 0.  For the classes of jobs, which are many, the
    interval is 1.5 times as wide (:func:`~.waits_by_class.surely_longer`).
    """
    held = {f"99th percentile wait of {name}": (waits.changes[tail], limits.tail) for tail, name in _NAMES.items()}
    held["longest wait"] = (waits.changes["wait_max"], limits.longest)
    held["promised starts that come later"] = (waits.added, limits.broken)
    for name, then in watched(simulated, waits).items():
        for what, metric in (("mean wait", "wait_mean"), ("99th percentile wait", "wait_p99")):
            growth, seconds = then.changes[metric], then.differences[metric].mean or 0.0
            if seconds >= NOTABLE_WAIT_S and surely_longer(growth):
                held[f"{what} of {name}"] = (growth, limits.tail)
    return {
        name: (growth, limit)
        for name, (growth, limit) in held.items()
        if growth.mean is not None and growth.mean > limit and (growth.low is None or growth.low > 0)
    }


def watched(simulated: SimulationFigures, waits: SettingWaits) -> dict[str, ClassWaits]:
    """Return the waits of each class with limits by its name; small classes and light users have no limits."""
    return {
        f"{kind} {today.name}": then
        for kind in _WATCHED
        for today, then in zip(simulated.classes.get(kind, ()), waits.classes.get(kind, ()), strict=True)
        if not today.small and (kind != "user" or today.use >= MIN_USE)
    }


_NAMED = 3
"""Maximum number of exceeded limits named in the sentence about a policy."""
_OWN_ORDER = "softwalltime tune --order searches the site's own order of the queue within the same limits."
MIN_SEEDS = 2
MIN_JOBS = 1000
MIN_DAYS = 14
MIN_MEAN_WAIT_S = 60


class Verdict(Enum):
    """The recommended action."""

    ON = "Switch on"
    OFF = "Do not switch on"
    UNKNOWN = "Cannot tell"


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The verdict and its reasons.

    ``waits`` is the recommended candidate as simulated, ``None`` unless the verdict is ON.
    """

    verdict: Verdict
    sentence: str
    reasons: tuple[str, ...]
    cautions: tuple[str, ...] = ()
    waits: SettingWaits | None = None

    @property
    def predictor(self) -> str | None:
        return None if self.waits is None else self.waits.setting.predictor


def too_early(jobs: int, days: float, earlier: int = 0) -> Recommendation | None:
    """Return the verdict for too few scored jobs or days; ``None`` if there are enough.

    :param days: from the first one's submission to the last one's.
    :param earlier: number of earlier jobs of the log that were not simulated.
    """
    if jobs >= MIN_JOBS and days >= MIN_DAYS:
        return None
    count = f"{plural(jobs, 'scored job')} in {plural(round(days), 'day') if days >= 1 else 'less than 1 day'}"
    return cannot_tell(
        f"only {count}" if jobs else "no job can be scored",
        f"At least {MIN_JOBS:,} jobs that ran and had a walltime, over at least {MIN_DAYS} days, are needed. "
        + (
            f"{plural(earlier, 'earlier job')} of the log can be simulated too: --simulated-jobs."
            if earlier
            else "Give more logs; --walltime-from gives walltimes of jobs that have none."
        ),
    )


def unsimulated(skipped: SimulationSkipped) -> Recommendation:
    return cannot_tell("waits were not simulated", f"The effect on waits is not known: {skipped.reason}.")


def cannot_tell(why: str, *reasons: str, cautions: tuple[str, ...] = ()) -> Recommendation:
    """Return the verdict UNKNOWN.

    :param why: in a few words, without a full stop.
    """
    return Recommendation(Verdict.UNKNOWN, f"Cannot tell whether soft walltimes would help: {why}.", reasons, cautions)


def simulated_advice(
    workload: Recorded, options: SimulationOptions, limits: WaitLimits, own: Sequence[Candidate] = (),
    show: ShowProgress = no_progress, rename: Rename = lambda kind, name: name,
) -> tuple[Recommendation, SimulationFigures | SimulationSkipped]:  # fmt: skip
    """Simulate the common candidates and those of the site's own log on the newest jobs, and return the verdict."""
    recorded = prepare(workload, options)
    if isinstance(recorded, SimulationSkipped):
        return unsimulated(recorded), recorded
    figures = simulate_candidates(recorded, [*common_candidates(options.baseline), *own], options, show, rename)
    return recommend(figures, limits), figures


def recommend(simulated: SimulationFigures, limits: WaitLimits) -> Recommendation:
    """Return the verdict for a log of any length."""
    unable = undecidable(simulated)
    if unable is not None:
        return unable
    reasons = population(simulated)
    common = [candidate for candidate in simulated.settings if not candidate.setting.own]
    shorter = [candidate for candidate in simulated.settings if shortens(candidate)]
    qualifying = [candidate for candidate in shorter if not exceeded(simulated, candidate, limits)]
    if all(candidate.setting.own for candidate in qualifying):
        return Recommendation(
            Verdict.OFF,
            f"Do not switch soft walltimes on: none of {len(common)} policies shortens waits "
            "beyond chance, lets no class of jobs wait much longer, and breaks at most "
            f"{exact_percent(limits.broken)} more of the promised starts.",
            (*reasons, *(_fails(simulated, candidate, limits) for candidate in common), _OWN_ORDER),
            simulation_cautions(simulated, None),
        )
    chosen = _choose(qualifying)
    reasons += effects(chosen, limits.broken)
    keeping = min((each for each in qualifying if each.setting.keeps_order), key=_mean, default=chosen)
    if not chosen.setting.keeps_order and keeping is not chosen:
        reasons.append(
            f"{chosen.setting.name} changes the order of the queue. With {keeping.setting.name}, which keeps it, the "
            f"mean wait changes by {wait_change(keeping)}."
        )
    cautions = simulation_cautions(simulated, chosen)
    return Recommendation(Verdict.ON, switch_on(simulated, chosen), tuple(reasons), cautions, chosen)


def undecidable(simulated: SimulationFigures) -> Recommendation | None:
    """Return a verdict that does not depend on the candidates; ``None`` if they decide.

    There are too few jobs, days or users, the simulation is not like this machine, or there is nothing to gain.
    """
    days = (simulated.until - simulated.since) / DAY
    if early := too_early(simulated.jobs - simulated.unscored, days, simulated.of - simulated.jobs):
        return early
    reasons = population(simulated)
    cautions = simulation_cautions(simulated, None)
    if doubtful := doubts(simulated.likeness, simulated.scored_share):
        why = f"the simulation is not like this machine, or the log says too little. {doubtful[0].removesuffix('.')}"
        return cannot_tell(why, *doubtful[1:], *reasons, cautions=cautions)
    if simulated.shake != "week":
        return cannot_tell("the log has too few users", FEW_USERS, *reasons, cautions=cautions)
    waits = {"the simulation of what the site runs": simulated.baseline.wait_mean or 0.0}
    if simulated.likeness is not None:
        # Users who move in time collide, also on a machine where no job waits.
        whole = simulated.likeness.whole
        waits["the log"] = max(whole.recorded.mean, whole.simulated.mean)
    where, shortest = min(waits.items(), key=itemgetter(1))
    if shortest < MIN_MEAN_WAIT_S:
        return Recommendation(
            Verdict.OFF,
            f"Do not switch soft walltimes on: in {where}, jobs wait {duration(shortest)} on average, so there is "
            "nothing to shorten.",
            tuple(reasons),
            cautions,
        )
    if len(simulated.seeds) < MIN_SEEDS:
        why, advice = "one shaken workload gives no interval", "--seeds needs at least two."
        return cannot_tell(why, advice, *reasons, cautions=cautions)
    return None


def shortens(waits: SettingWaits) -> bool:
    """Return whether waits get significantly shorter, and no metric of all jobs gets significantly worse."""
    changes = waits.changes
    if waits.as_submitted.mean is not None and waits.as_submitted.mean >= 0:
        return False
    return changes["wait_mean"].below and not any(changes[name].above for name in ("wait_p95", "bsld10_mean"))


def switch_on(simulated: SimulationFigures, chosen: SettingWaits, what: str = "soft walltimes") -> str:
    """Describe the effect for a manager.

    :param what: what is switched on, if it is no preset.
    """
    before, after = simulated.baseline.wait_mean or 0.0, chosen.metrics.wait_mean or 0.0
    losers = changed_classes(simulated, chosen, longer=True)
    paid = f"longer waits for jobs {', '.join(losers)}" if losers else "no group of jobs waits longer"
    preset = chosen.setting.preset
    what = what if preset == "custom" else f"the preset {preset}"
    return (
        f"Switch on {what}: jobs would start about {duration(before - after)} earlier on average "
        f"({duration(before)} \N{RIGHTWARDS ARROW} {duration(after)}); {paid}; undo with one command, {UNDO}."
    )


def _choose(qualifying: list[SettingWaits]) -> SettingWaits:
    """Return half the walltime, or what is better beyond the 95% interval: a policy that keeps the order, then any."""
    keeping = [candidate for candidate in qualifying if candidate.setting.keeps_order]
    half = [candidate for candidate in keeping if candidate.setting.policy.waiting == HALF]
    first, *others = (min(group, key=_mean) for group in (half, keeping, qualifying) if group)
    chosen = first
    for best in others:
        if interval([mine - other for mine, other in zip(best.waits, chosen.waits, strict=True)]).below:
            chosen = best
    return chosen


def _mean(waits: SettingWaits) -> float:
    return waits.changes["wait_mean"].mean or 0.0


def change(relative: Interval) -> str:
    """A relative change with its interval.

    >>> change(Interval(-0.125, -0.15, -0.1))
    '\N{MINUS SIGN}12.5% (\N{MINUS SIGN}15.0 to \N{MINUS SIGN}10.0)'
    """
    if relative.mean is None:
        return "\N{EN DASH}"
    mean = f"{100 * relative.mean:+.1f}%"
    if relative.low is not None and relative.high is not None:
        mean += f" ({100 * relative.low:+.1f} to {100 * relative.high:+.1f})"
    return mean.replace("-", "\N{MINUS SIGN}")


def wait_change(waits: SettingWaits) -> str:
    """Return the relative change of the mean wait with its interval, and the change as submitted if it is known."""
    said = change(waits.changes["wait_mean"])
    return said if waits.as_submitted.mean is None else f"{said}, {change(waits.as_submitted)} as submitted"


def population(simulated: SimulationFigures) -> list[str]:
    which = f"the newest {simulated.jobs:,} of " if simulated.jobs < simulated.of else "all "
    size = plural(simulated.processors, "processor")
    said = (
        f"Simulated: {which}{plural(simulated.of, 'job')} on {size} with PBS's scheduling cycle, in "
        f"{plural(len(simulated.seeds), 'shaken workload')}. The site runs: {simulated.order}, walltimes; the mean "
        f"wait is {duration(simulated.baseline.wait_mean)}."
    )
    alike = likeness_line(simulated.likeness)
    return [said, alike] if alike else [said]


def effects(chosen: SettingWaits, target: float) -> list[str]:
    """Describe the effects of a candidate on waits and promised starts, one sentence each."""
    changes = chosen.changes
    waits = (
        f"With {chosen.setting.name} the mean wait is {duration(chosen.metrics.wait_mean)}, a change of "
        f"{wait_change(chosen)}; the 95th percentile wait changes by {change(changes['wait_p95'])}, the mean "
        f"bounded slowdown by {change(changes['bsld10_mean'])} (95% intervals)."
    )
    promises = (
        f"Of the starts promised to top jobs {percent(chosen.broken.mean)} come later, {change(chosen.added)} more "
        f"than the site breaks now; the limit is {exact_percent(target)}."
    )
    return [waits, promises]


def _fails(simulated: SimulationFigures, waits: SettingWaits, limits: WaitLimits) -> str:
    said = f"mean wait {wait_change(waits)}"
    if not shortens(waits):
        said = f"waits do not get shorter beyond the interval: {said}"
        for name, words in (("wait_p95", "95th percentile wait"), ("bsld10_mean", "mean bounded slowdown")):
            if waits.changes[name].above:
                said += f", {words} {change(waits.changes[name])}"
    over = exceeded(simulated, waits, limits)
    worst = sorted(over, key=lambda name: over[name][1] - (over[name][0].mean or 0.0))
    for name in worst[:_NAMED]:
        growth, limit = over[name]
        said += f"; {name} {change(growth)}, and the limit is {exact_percent(limit)}"
    more = len(worst) - _NAMED
    return f"{waits.setting.name}: {said}{f'; and {more} more limits are exceeded' if more > 0 else ''}."
