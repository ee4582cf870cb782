"""Recommend for or against soft walltimes, by these rules:

1. Fewer than ``LEAST_JOBS`` scored jobs, or fewer than ``LEAST_DAYS`` days: no recommendation yet.
2. Mean accuracy of the users' walltimes of at least ``GOOD_ENOUGH``: do not enable.
3. A predictor qualifies if on the *older* half of the jobs it underestimates at most the target share and its mean
   accuracy is at least ``LEAST_GAIN`` above the walltimes'.  If none qualifies: do not enable.
4. Select the most accurate predictor that qualifies; among equals, the one that underestimates less.
5. Exclude a queue with at least ``LEAST_QUEUE_JOBS`` jobs in the older half if the predictor underestimates more than
   twice the target there, or is not more accurate than the walltimes.
6. Evaluate the predictor on the *newer*, held-out half.  If it underestimates more than ``SLACK`` times the target
   there, or improves the accuracy by less than ``LEAST_GAIN``: shadow mode only.

The expected figures are those of the newer half without the excluded queues.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from softwalltime.formatting import duration, exact_percent, percent, plural
from softwalltime.reports.analysis.groups import Group
from softwalltime.reports.analysis.halves import Halves, Part

LEAST_JOBS = 1000
LEAST_DAYS = 14
GOOD_ENOUGH = 0.8
LEAST_GAIN = 0.02
LEAST_QUEUE_JOBS = 100
SLACK = 1.5


class Verdict(Enum):
    """The recommended action."""

    ON = "Enable"
    SHADOW = "Shadow mode only"
    OFF = "Do not enable"
    WAIT = "No recommendation yet"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A queue to exclude, and the reason."""

    name: str
    jobs: int
    reason: str


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The verdict with its reasons.

    ``predictor`` is the selected one, ``None`` unless the verdict is ON or SHADOW.  ``expected`` are its figures over
    the newer half without the excluded queues, ``walltimes`` those of the users' walltimes over the same jobs.
    """

    verdict: Verdict
    sentence: str
    reasons: tuple[str, ...]
    cautions: tuple[str, ...] = ()
    predictor: str | None = None
    leave_out: tuple[LeftOut, ...] = ()
    expected: Part | None = None
    walltimes: Part | None = None

    @property
    def policy(self) -> str:
        """The recommended policy of the daemon as TOML, in shadow mode; empty without a predictor."""
        if self.predictor is None:
            return ""
        lines = ["[policy]", 'mode = "shadow"', f'waiting = "{self.predictor}"', 'running = "walltime"']
        for queue in self.leave_out:
            # Every JSON string is a TOML string.
            lines += ["", "[[policy.rules]]", f"queue = {json.dumps(queue.name)}", 'mode = "off"']
        return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class Choice:
    """The selected predictor out of ``tried``, and the figures of the users' walltimes."""

    predictor: Halves
    walltimes: Halves
    tried: int


def choose(
    walltimes: Halves | None, candidates: Sequence[Halves], target: float, jobs: int, days: float
) -> Recommendation | Choice:
    """Apply rules 1 to 4: return the selected predictor, or a recommendation against all.

    :param walltimes: figures of the users' walltimes; ``None`` if there are too few jobs.
    :param target: greatest share of underestimated jobs.
    :param jobs: number of scored jobs.
    :param days: days from the first submission to the last.
    """
    if walltimes is None or jobs < LEAST_JOBS or days < LEAST_DAYS:
        return _too_early(jobs, days)
    if walltimes.whole.accuracy >= GOOD_ENOUGH:
        return Recommendation(
            Verdict.OFF,
            "Do not enable soft walltimes: the users' walltimes are good, with a mean accuracy of "
            f"{walltimes.whole.accuracy:.2f}.",
            reasons=(f"From {GOOD_ENOUGH} on predictions improve little, and each underestimate has a cost.",),
        )
    gaining = [one for one in candidates if one.older.accuracy >= walltimes.older.accuracy + LEAST_GAIN]
    within = [one for one in gaining if one.older.underestimated <= target]
    if within:
        best = max(within, key=lambda one: (one.older.accuracy, -one.older.underestimated))
        return Choice(best, walltimes, len(candidates))
    none = (
        f"On the older half of the jobs none of the {len(candidates):,} predictors and settings is more accurate than "
        f"the walltimes by at least {LEAST_GAIN} and underestimates at most {exact_percent(target)} of the jobs."
    )
    reasons = [none]
    if gaining:
        nearest = min(gaining, key=lambda one: one.older.underestimated)
        reasons.append(
            f"The closest is {nearest.spec}: it underestimates {percent(nearest.older.underestimated)}, with a mean "
            f"accuracy of {nearest.older.accuracy:.3f} instead of {walltimes.older.accuracy:.3f}. A greater --target "
            "would allow it."
        )
    return Recommendation(
        Verdict.OFF,
        f"Do not enable soft walltimes: no predictor is better than the users' walltimes with at most "
        f"{exact_percent(target)} of the jobs underestimated.",
        tuple(reasons),
    )


def _too_early(jobs: int, days: float) -> Recommendation:
    found = f"{plural(jobs, 'scored job')} in {plural(round(days), 'day')}"
    needed = f"{LEAST_JOBS:,} jobs that ran and had a walltime, in at least {LEAST_DAYS} days"
    return Recommendation(
        Verdict.WAIT,
        f"No recommendation yet: only {found}." if jobs else "No recommendation yet: no job can be scored.",
        reasons=(f"The figures need at least {needed}. Add more logs.",),
    )


def queues_to_leave_out(queues: Sequence[Group], target: float) -> tuple[LeftOut, ...]:
    """Apply rule 5 to the predictor's figures by queue over the older half."""
    found = []
    for queue in queues:
        if queue.jobs < LEAST_QUEUE_JOBS:
            continue
        if queue.underestimated > 2 * target:
            reason = f"{percent(queue.underestimated)} of its jobs would be underestimated"
        elif queue.accuracy <= queue.walltime_accuracy:
            reason = f"no improvement: mean accuracy {queue.accuracy:.3f} instead of {queue.walltime_accuracy:.3f}"
        else:
            continue
        found.append(LeftOut(queue.name, queue.jobs, reason))
    return tuple(found)


def conclude(
    choice: Choice, chosen: Halves, target: float, leave_out: tuple[LeftOut, ...], jobs: int
) -> Recommendation:
    """Apply rule 6.

    :param chosen: the predictor's figures without the excluded queues.
    :param jobs: number of scored jobs.
    """
    walltimes = choice.walltimes
    new, users = chosen.newer, walltimes.newer
    held = new.underestimated <= SLACK * target and new.accuracy >= users.accuracy + LEAST_GAIN
    but = f", except in {plural(len(leave_out), 'queue')}" if leave_out else ""
    figures = (
        f"mean accuracy {new.accuracy:.2f} instead of {users.accuracy:.2f}, {percent(new.underestimated)} of the jobs "
        "underestimated"
    )
    first = (
        f"On the older half of the jobs it is the most accurate of {plural(choice.tried, 'predictor')} and settings, "
        f"with at most {exact_percent(target)} underestimated: {chosen.older.accuracy:.3f} instead of "
        f"{walltimes.older.accuracy:.3f}, {percent(chosen.older.underestimated)} underestimated"
        + (" (excluded queues count with their walltimes)." if leave_out else ".")
    )
    second = (
        f"On the newer, held-out half it reaches {new.accuracy:.3f} instead of {users.accuracy:.3f}, with "
        f"{percent(new.underestimated)} underestimated, "
        f"{percent(new.badly_underestimated)} by more than 30 minutes."
    )
    cautions = []
    if new.mean_absolute_error > users.mean_absolute_error:
        cautions.append(
            f"The mean absolute error increases from {duration(users.mean_absolute_error)} to "
            f"{duration(new.mean_absolute_error)}: many short jobs improve, some long jobs have large errors."
        )
    if new.accuracy_by_cpu_hours < users.accuracy_by_cpu_hours:
        cautions.append(
            f"Weighted by CPU hours the accuracy decreases from {users.accuracy_by_cpu_hours:.3f} to "
            f"{new.accuracy_by_cpu_hours:.3f}: the estimates of large and long jobs get worse."
        )
    if held and new.underestimated > target:
        cautions.append(
            f"On the newer half it underestimates {percent(new.underestimated)}, slightly more than the target of "
            f"{exact_percent(target)}: monitor it."
        )
    missing = sum(queue.jobs for queue in leave_out)
    if missing > jobs / 2:
        cautions.append(f"The excluded queues contain {percent(missing / jobs, 0)} of the jobs.")
    if not held:
        cautions.append(
            f"The held-out half does not confirm it: the limits are {percent(SLACK * target)} underestimated and an "
            f"improvement of {LEAST_GAIN} in accuracy."
        )
        return Recommendation(
            Verdict.SHADOW,
            f"Use {chosen.spec} in shadow mode only{but}: the newer jobs do not confirm the result of the older jobs "
            f"({figures}).",
            (first, second), tuple(cautions), chosen.spec, leave_out, new, users,
        )  # fmt: skip
    return Recommendation(
        Verdict.ON,
        f"Enable {chosen.spec} for waiting jobs{but}, first in shadow mode: expect {figures}.",
        (first, second), tuple(cautions), chosen.spec, leave_out, new, users,
    )  # fmt: skip
