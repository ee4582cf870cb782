"""What to do: a recommendation computed from figures by the rules below.  It may be to switch nothing on.

1. Fewer than ``LEAST_JOBS`` scored jobs, or fewer than ``LEAST_DAYS`` days: too early to say.
2. Without a simulation nobody knows what happens to waits, so nothing is switched on.  Where a predictor is selected by
   accuracy on the older half (:mod:`.accuracy`) and keeps its gain and the target on the newer half: shadow mode.
3. In the simulation, jobs wait less than ``LEAST_WAIT`` on average today: there is nothing to gain.
4. A setting qualifies if, over shaken workloads, its mean wait is below today's by more than the 95% interval, neither
   its mean bounded slowdown nor its 95th percentile wait is above today's by more than theirs, and the 95% interval of
   the share of broken promises ends at most at the target.
5. Of the qualifying settings that keep the order of the queue, half the walltime is chosen, unless a predictor's mean
   wait is below its by more than the 95% interval of the difference; settings with the guard are preferred.  Only if
   none qualifies, a setting that changes the order is chosen.
6. Where today's simulated mean wait differs from the recorded one by more than a factor of ``UNLIKE``, the simulation
   is not of this machine: shadow mode at most.  The same holds with fewer than ``shaking.LEAST_USERS`` users: the
   workloads then differ too little for the intervals to say anything about other weeks.
7. Users and queues are left out by the rule of :mod:`.leave_out`.
"""

import json
from dataclasses import dataclass
from enum import Enum

from softwalltime.formatting import duration, exact_percent, percent, plural
from softwalltime.reports.accuracy import LEAST_GAIN, Accuracy, explain_selection
from softwalltime.reports.analysis.halves import SubsetScores
from softwalltime.reports.cautions import accuracy_cautions, simulation_cautions, underestimation_cautions
from softwalltime.reports.leave_out import EvaluatedSetting, ExcludedGroup
from softwalltime.reports.simulation import HALF, WITH_GUARD, SettingWaits, SimulationFigures, SimulationSkipped
from softwalltime.simulation.differences import Interval, interval

LEAST_JOBS = 1000
LEAST_DAYS = 14
LEAST_WAIT = 60
UNLIKE = 5


class Verdict(Enum):
    """The recommended action."""

    ON = "Enable"
    SHADOW = "Shadow mode only"
    OFF = "Do not enable"
    WAIT = "No recommendation yet"


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The verdict, and what it rests on.

    ``predictor`` is the one for waiting jobs, ``None`` unless the verdict is ON or SHADOW; ``expected`` are its figures
    over the newer half, those left out counted with their walltimes; ``walltimes`` those of the walltimes over the same
    jobs.  Users and queues of whose jobs more than ``most_underestimated`` are underestimated are left out.
    ``waits`` is the recommended setting as simulated; ``would`` is one that qualifies and changes the
    order of the queue.
    """

    verdict: Verdict
    sentence: str
    reasons: tuple[str, ...]
    cautions: tuple[str, ...] = ()
    predictor: str | None = None
    leave_out: tuple[ExcludedGroup, ...] = ()
    most_underestimated: float | None = None
    expected: SubsetScores | None = None
    walltimes: SubsetScores | None = None
    waits: SettingWaits | None = None
    would: SettingWaits | None = None

    @property
    def policy(self) -> str:
        """The daemon's policy that does what is recommended, as TOML, in shadow mode first; empty if there is none."""
        if self.predictor is None:
            return ""
        lines = [
            "[policy]",
            'preset = "custom"',
            'mode = "shadow"',
            f'waiting = "{self.predictor}"',
            'running = "walltime"',
        ]
        if self.waits is not None:
            chosen = self.waits.setting.policy
            lines += [] if self.waits.setting.keeps_order else [f'ordering = "{chosen.ordering}"']
        for one in self.leave_out:
            # A JSON string is a TOML string too.
            lines += ["", "[[policy.rules]]", f"{one.kind} = {json.dumps(one.name)}", 'mode = "off"']
        if self.waits is not None and self.waits.setting.policy.guard is not None:
            lines += ["", "[live]", 'mode = "shadow"', f"guard = {self.waits.setting.policy.guard}"]
        return "\n".join(lines) + "\n"


def too_early(jobs: int, days: float) -> Recommendation | None:
    """Rule 1; ``None`` if there are enough jobs.

    :param jobs: number of scored jobs.
    :param days: from the first one's submission to the last one's.
    """
    if jobs >= LEAST_JOBS and days >= LEAST_DAYS:
        return None
    found = f"{plural(jobs, 'scored job')} in {plural(round(days), 'day') if days >= 1 else 'less than 1 day'}"
    return Recommendation(
        Verdict.WAIT,
        f"No recommendation yet: only {found}." if jobs else "No recommendation yet: no job can be scored.",
        reasons=(
            f"At least {LEAST_JOBS:,} jobs that ran and had a walltime, over at least {LEAST_DAYS} days, are needed.",
            "Repeat the report with more logs.",
        ),
    )


def recommend_unsimulated(
    accuracy: Accuracy, cautious: EvaluatedSetting | None, reason: SimulationSkipped, target: float
) -> Recommendation:
    """Rule 2."""
    why = f"The effect on waits is not known: {reason.reason}."
    reasons = (why, *explain_selection(accuracy, target))
    if cautious is None:
        return Recommendation(
            Verdict.OFF,
            "Do not enable soft walltimes yet: waits were not simulated, and no predictor is more accurate than the "
            f"walltimes with at most {exact_percent(target)} of the jobs underestimated.",
            reasons,
        )
    new, users = cautious.halves.newer, accuracy.walltimes.newer
    fails = ""
    if new.underestimated > target:
        fails = (
            f"underestimates {_more_than(target, new.underestimated)} of the newer half of the jobs (the limit is "
            f"{exact_percent(target)})"
        )
    elif new.accuracy < users.accuracy + LEAST_GAIN:
        fails = f"is not {LEAST_GAIN} more accurate than the walltimes on the newer half of the jobs"
    newer = (
        f"On the newer half of the jobs {cautious.spec} has a mean accuracy of {new.accuracy:.3f} (walltimes "
        f"{users.accuracy:.3f}) and underestimates {percent(new.underestimated)}."
    )
    if fails:
        return Recommendation(
            Verdict.OFF,
            f"Do not enable soft walltimes yet: waits were not simulated, and {cautious.spec} {fails}.",
            (*reasons, newer),
        )
    return Recommendation(
        Verdict.SHADOW,
        f"Try {cautious.spec} in shadow mode only: waits were not simulated. On the newer half of the jobs its mean "
        f"accuracy is {new.accuracy:.2f} (walltimes {users.accuracy:.2f}), and it underestimates "
        f"{percent(new.underestimated)}.",
        reasons, accuracy_cautions(new, users), cautious.spec, cautious.left_out,
        cautious.most_underestimated, new, users,
    )  # fmt: skip


def _more_than(limit: float, share: float) -> str:
    """Format a share above a limit with the digits that show the difference."""
    return next(text for digits in range(1, 20) if (text := percent(share, digits)) != percent(limit, digits))


def shortens(waits: SettingWaits) -> bool:
    """Whether waits get shorter beyond the interval, and nothing measured of all jobs gets worse beyond its own."""
    changes = waits.changes
    return _below(changes["wait_mean"]) and not any(_above(changes[name]) for name in ("wait_p95", "bsld10_mean"))


def keeps_promises(waits: SettingWaits, target: float) -> bool:
    """Whether at most the target share of the promises is broken, by the upper end of the interval."""
    return _upper(waits.broken) <= target


def recommend(simulated: SimulationFigures, accuracy: Accuracy, target: float, jobs: int) -> Recommendation:
    """Rules 3 to 6.

    :param target: greatest share of promises that may be broken.
    :param jobs: number of scored jobs in all.
    """
    today = simulated.baseline.wait_mean or 0.0
    if today < LEAST_WAIT:
        return Recommendation(
            Verdict.OFF,
            f"Do not enable soft walltimes: jobs wait {duration(today)} on average in the simulation, so there is "
            "nothing to shorten.",
            (_population(simulated),),
            simulation_cautions(simulated, None),
        )
    qualifying = [one for one in simulated.settings if shortens(one) and keeps_promises(one, target)]
    chosen = _choose([one for one in qualifying if one.setting.keeps_order]) or _choose(qualifying)
    would = _shortest([one for one in qualifying if not one.setting.keeps_order])
    reasons = [_population(simulated)]
    if chosen is None:
        return _against(simulated, reasons, target)
    reasons += _why(chosen, target)
    if would is not None and would is not chosen and _mean(would) < _mean(chosen):
        reasons.append(_would(would))
    reasons += explain_selection(accuracy, target)
    evaluated = chosen.setting.evaluated
    new, users = evaluated.halves.newer, accuracy.walltimes.newer
    cautions = [
        *simulation_cautions(simulated, chosen),
        *underestimation_cautions(new, target),
        *accuracy_cautions(new, users, evaluated.left_out, jobs),
    ]
    name, guard, rest = chosen.setting.name.partition(WITH_GUARD)
    what = f"{name} for waiting jobs" if chosen.setting.keeps_order else f"a {name}"
    what += guard + rest + _but(evaluated)
    verdict, begin = Verdict.ON, f"Enable {what}, first in shadow mode"
    if _unlike(simulated) or simulated.shake != "week":
        verdict, begin = Verdict.SHADOW, f"Try {what}, in shadow mode only"
    return Recommendation(
        verdict,
        f"{begin}: in simulation the mean wait changes by {_stated(chosen.changes['wait_mean'])}, and "
        f"{percent(chosen.broken.mean)} of the promised starts come later.",
        tuple(reasons), tuple(cautions), chosen.setting.policy.waiting, evaluated.left_out,
        evaluated.most_underestimated, new, users, chosen, would,
    )  # fmt: skip


def _against(simulated: SimulationFigures, reasons: list[str], target: float) -> Recommendation:
    limit = f"with at most {exact_percent(target)} of the promised starts broken"
    return Recommendation(
        Verdict.OFF,
        f"Do not enable soft walltimes: none of {plural(len(simulated.settings), 'setting')} shortens waits beyond the "
        f"95% interval {limit}.",
        (*reasons, *(_fails(one, target) for one in simulated.settings)),
        simulation_cautions(simulated, None),
    )


def _choose(qualifying: list[SettingWaits]) -> SettingWaits | None:
    """Rule 5, among settings that qualify."""
    guarded = [one for one in qualifying if one.setting.policy.guard is not None] or qualifying
    best = _shortest(guarded)
    half = next((one for one in guarded if one.setting.policy.waiting == HALF), None)
    if best is None or half is None:
        return best
    learnt = interval([mine - other for mine, other in zip(best.waits, half.waits, strict=True)])
    return best if _below(learnt) else half


def _shortest(settings: list[SettingWaits]) -> SettingWaits | None:
    return min(settings, key=_mean, default=None)


def _mean(waits: SettingWaits) -> float:
    change = waits.changes["wait_mean"].mean
    return 0.0 if change is None else change


def _below(change: Interval) -> bool:
    return change.high is not None and change.high < 0


def _above(change: Interval) -> bool:
    return change.low is not None and change.low > 0


def _upper(level: Interval) -> float:
    return level.mean or 0.0 if level.high is None else level.high


def _unlike(simulated: SimulationFigures) -> bool:
    recorded, today = simulated.recorded_wait, simulated.baseline.wait_mean
    if recorded is None or today is None:
        return False
    return max(recorded, 1.0) > UNLIKE * max(today, 1.0) or max(today, 1.0) > UNLIKE * max(recorded, 1.0)


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


def _stated(relative: Interval) -> str:
    """A relative change in a sentence, where the interval is named."""
    return change(relative).replace(" (", " (95% interval ")


def _population(simulated: SimulationFigures) -> str:
    which = f"the newest {simulated.jobs:,} of " if simulated.jobs < simulated.of else "all "
    size = plural(simulated.processors, "processor")
    return (
        f"Simulated: {which}{plural(simulated.of, 'job')} on {size}, order {simulated.order}, EASY backfilling, in "
        f"{plural(len(simulated.seeds), 'shaken workload')}. Today's setting plans with the walltimes; the mean wait "
        f"is {duration(simulated.baseline.wait_mean)}."
    )


def _why(chosen: SettingWaits, target: float) -> list[str]:
    changes = chosen.changes
    waits = (
        f"With {chosen.setting.name} the mean wait is {duration(chosen.metrics.wait_mean)}, a change of "
        f"{change(changes['wait_mean'])}; the 95th percentile wait changes by {change(changes['wait_p95'])}, the mean "
        f"bounded slowdown by {change(changes['bsld10_mean'])} (95% intervals)."
    )
    promises = (
        f"Of the starts promised to top jobs {percent(chosen.broken.mean)} come later, at most "
        f"{percent(_upper(chosen.broken))} by the interval; the limit is {exact_percent(target)}."
    )
    return [waits, promises]


def _fails(waits: SettingWaits, target: float) -> str:
    """Why a setting does not qualify."""
    if not shortens(waits):
        said = f"waits do not get shorter beyond the interval: mean wait {change(waits.changes['wait_mean'])}"
        for name, words in (("wait_p95", "95th percentile wait"), ("bsld10_mean", "mean bounded slowdown")):
            if _above(waits.changes[name]):
                said += f", {words} {change(waits.changes[name])}"
    else:
        said = f"mean wait {change(waits.changes['wait_mean'])}"
    if not keeps_promises(waits, target):
        said += (
            f"; {percent(waits.broken.mean)} of the promised starts are broken, up to {percent(_upper(waits.broken))} "
            f"by the interval, and the limit is {exact_percent(target)} (--max-broken)"
        )
    return f"{waits.setting.name}: {said}."


def _would(would: SettingWaits) -> str:
    return (
        f"With a {would.setting.name} the mean wait would change by {_stated(would.changes['wait_mean'])}, and "
        f"{percent(would.broken.mean)} of the promised starts would come later. Whether to change the order of the "
        "queue is for the site to decide."
    )


def _but(evaluated: EvaluatedSetting) -> str:
    counts = [
        plural(sum(one.kind == kind for one in evaluated.left_out), kind)
        for kind in ("queue", "user")
        if any(one.kind == kind for one in evaluated.left_out)
    ]
    return f", but not for {' and '.join(counts)}" if counts else ""
