"""What to do: a recommendation worked out from figures by the rules below, which may be not to switch anything on.

1. Fewer than ``LEAST_JOBS`` scored jobs, or fewer than ``LEAST_DAYS`` days: too early to say.
2. Users' walltimes with a mean accuracy of ``GOOD_ENOUGH`` or more: there is nothing to gain.
3. A predictor qualifies if on the *older* half of the jobs it underestimates at most the target share of them, and its
   mean accuracy is at least ``LEAST_GAIN`` above the walltimes'.  If none does: do not switch this on.
4. Of those that qualify the most accurate one is chosen; of equals, the one that underestimates less.
5. A queue of ``LEAST_QUEUE_JOBS`` jobs or more in the older half is left out where the chosen predictor there
   underestimates more than twice the target, or is no more accurate than the walltimes.
6. The choice is tried on the *newer* half, which had no say in it: if it underestimates more than ``SLACK`` times the
   target there, or gains less than ``LEAST_GAIN``, it did not hold, and is worth no more than shadow mode.

What is expected is what the newer half shows, with the queues left out.
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
    """What an administrator is advised to do."""

    ON = "Switch it on"
    SHADOW = "Try it in shadow mode only"
    OFF = "Do not switch this on"
    WAIT = "Too early to say"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A queue that should get no soft walltimes, and why."""

    name: str
    jobs: int
    reason: str


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The verdict, and what it rests on.

    ``predictor`` is the one chosen, ``None`` unless the verdict is ON or SHADOW; ``expected`` are its figures over the
    newer half without the queues left out, ``walltimes`` those of the users' walltimes over the same jobs.
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
        """The daemon's policy that does what is recommended, as TOML, in shadow mode first; empty if there is none."""
        if self.predictor is None:
            return ""
        lines = ["[policy]", 'mode = "shadow"', f'waiting = "{self.predictor}"', 'running = "walltime"']
        for queue in self.leave_out:
            # A JSON string is a TOML string too.
            lines += ["", "[[policy.rules]]", f"queue = {json.dumps(queue.name)}", 'mode = "off"']
        return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class Choice:
    """The predictor chosen among so many that were ``tried``, beside the users' walltimes judged like a predictor."""

    predictor: Halves
    walltimes: Halves
    tried: int


def choose(
    walltimes: Halves | None, candidates: Sequence[Halves], target: float, jobs: int, days: float
) -> Recommendation | Choice:
    """Rules 1 to 4: the predictor chosen, or the advice against all of them.

    :param walltimes: the users' walltimes, judged like a predictor; ``None`` where there are too few jobs for that.
    :param target: greatest share of jobs that may be underestimated.
    :param jobs: how many jobs were scored.
    :param days: from the first one's submission to the last one's.
    """
    if walltimes is None or jobs < LEAST_JOBS or days < LEAST_DAYS:
        return _too_early(jobs, days)
    if walltimes.whole.accuracy >= GOOD_ENOUGH:
        return Recommendation(
            Verdict.OFF,
            "Do not switch this on: the users' walltimes are good, with a mean accuracy of "
            f"{walltimes.whole.accuracy:.2f}.",
            reasons=(f"From {GOOD_ENOUGH} on predictions can gain little, while each underestimation has its price.",),
        )
    gaining = [one for one in candidates if one.older.accuracy >= walltimes.older.accuracy + LEAST_GAIN]
    within = [one for one in gaining if one.older.underestimated <= target]
    if within:
        best = max(within, key=lambda one: (one.older.accuracy, -one.older.underestimated))
        return Choice(best, walltimes, len(candidates))
    none = (
        f"On the older half of the jobs none of the {len(candidates):,} predictors and settings tried is more accurate "
        f"than the walltimes (by at least {LEAST_GAIN}) and underestimates at most {exact_percent(target)} of the jobs."
    )
    reasons = [none]
    if gaining:
        nearest = min(gaining, key=lambda one: one.older.underestimated)
        reasons.append(
            f"The nearest is {nearest.spec}: it underestimates {percent(nearest.older.underestimated)}, at a mean "
            f"accuracy of {nearest.older.accuracy:.3f} against {walltimes.older.accuracy:.3f}. A greater --target "
            "would let it in."
        )
    return Recommendation(
        Verdict.OFF,
        f"Do not switch this on: no predictor beats the users' walltimes with at most {exact_percent(target)} of the "
        "jobs underestimated.",
        tuple(reasons),
    )


def _too_early(jobs: int, days: float) -> Recommendation:
    found = f"{plural(jobs, 'job')} that can be judged, over {plural(round(days), 'day')}"
    needed = f"{LEAST_JOBS:,} jobs that ran and had a walltime, over at least {LEAST_DAYS} days"
    return Recommendation(
        Verdict.WAIT,
        f"Too early to say: there are only {found}." if jobs else "Too early to say: no job here can be judged.",
        reasons=(f"At least {needed}, are needed for figures that mean something.", "Come back with more logs."),
    )


def queues_to_leave_out(queues: Sequence[Group], target: float) -> tuple[LeftOut, ...]:
    """Rule 5: from the chosen predictor's figures by queue, over the older half."""
    found = []
    for queue in queues:
        if queue.jobs < LEAST_QUEUE_JOBS:
            continue
        if queue.underestimated > 2 * target:
            reason = f"{percent(queue.underestimated)} of its jobs would be underestimated"
        elif queue.accuracy <= queue.walltime_accuracy:
            reason = (
                f"nothing is gained there: mean accuracy {queue.accuracy:.3f}, of the walltimes "
                f"{queue.walltime_accuracy:.3f}"
            )
        else:
            continue
        found.append(LeftOut(queue.name, queue.jobs, reason))
    return tuple(found)


def conclude(
    choice: Choice, chosen: Halves, target: float, leave_out: tuple[LeftOut, ...], jobs: int
) -> Recommendation:
    """Rule 6, in words.

    :param chosen: the chosen predictor's figures with the queues left out.
    :param jobs: how many jobs were scored in all.
    """
    walltimes = choice.walltimes
    new, users = chosen.newer, walltimes.newer
    held = new.underestimated <= SLACK * target and new.accuracy >= users.accuracy + LEAST_GAIN
    but = f", but not in {plural(len(leave_out), 'queue')}" if leave_out else ""
    figures = (
        f"mean accuracy {new.accuracy:.2f} instead of {users.accuracy:.2f}, {percent(new.underestimated)} of the jobs "
        "underestimated"
    )
    first = (
        f"On the older half of the jobs it was the most accurate of {plural(choice.tried, 'predictor')} and settings "
        f"that underestimate at most {exact_percent(target)}: {chosen.older.accuracy:.3f} against "
        f"{walltimes.older.accuracy:.3f}, {percent(chosen.older.underestimated)} underestimated"
        + (" (the queues left out count with their walltimes)." if leave_out else ".")
    )
    second = (
        f"On the newer half, which had no say in the choice, it reached {new.accuracy:.3f} against "
        f"{users.accuracy:.3f}, with {percent(new.underestimated)} underestimated, "
        f"{percent(new.badly_underestimated)} by more than 30 minutes."
    )
    cautions = []
    if new.mean_absolute_error > users.mean_absolute_error:
        cautions.append(
            f"The mean absolute error grows from {duration(users.mean_absolute_error)} to "
            f"{duration(new.mean_absolute_error)}: the gain is with many short jobs, and some long ones are missed "
            "by much."
        )
    if new.accuracy_by_cpu_hours < users.accuracy_by_cpu_hours:
        cautions.append(
            f"Weighted by CPU hours the accuracy falls from {users.accuracy_by_cpu_hours:.3f} to "
            f"{new.accuracy_by_cpu_hours:.3f}: what large and long jobs see of it is a loss."
        )
    if held and new.underestimated > target:
        cautions.append(
            f"On the newer half it underestimates {percent(new.underestimated)}, more than the target of "
            f"{exact_percent(target)}, if not by much: keep an eye on it."
        )
    missing = sum(queue.jobs for queue in leave_out)
    if missing > jobs / 2:
        cautions.append(f"The queues left out hold {percent(missing / jobs, 0)} of the jobs.")
    if not held:
        cautions.append(
            f"It did not hold: on the newer half it should have underestimated at most {percent(SLACK * target)} and "
            f"gained at least {LEAST_GAIN} in accuracy."
        )
        return Recommendation(
            Verdict.SHADOW,
            f"Try {chosen.spec} in shadow mode only{but}: what it promised on the older jobs did not hold on the "
            f"newer ones ({figures}).",
            (first, second), tuple(cautions), chosen.spec, leave_out, new, users,
        )  # fmt: skip
    return Recommendation(
        Verdict.ON,
        f"Switch on {chosen.spec} for waiting jobs{but}, first in shadow mode: expect {figures}.",
        (first, second), tuple(cautions), chosen.spec, leave_out, new, users,
    )  # fmt: skip
