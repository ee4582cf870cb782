"""Cautions against a recommendation, shown with the verdict."""

from collections.abc import Sequence

from softwalltime.formatting import duration, exact_percent, percent
from softwalltime.reports.analysis.halves import SubsetScores
from softwalltime.reports.leave_out import ExcludedGroup
from softwalltime.reports.simulation import USUAL, SettingWaits, SimulationFigures
from softwalltime.reports.waits_by_class import ClassWaits
from softwalltime.simulation.differences import Interval
from softwalltime.simulation.shaking import FEW_USERS

_ALIKE = 2
"""Factor between the recorded and the simulated mean wait up to which nothing is said."""
_NEARLY = 0.9
"""Share of the most processors in use above which the usual number is not worth a word."""
_LONGER = 0.1
"""Relative growth of a wait that is worth a word."""
_NAMED = 3
"""Classes of jobs of one kind that are named."""
_KINDS = ("runtime", "size", "queue", "user")


def simulation_cautions(simulated: SimulationFigures, chosen: SettingWaits | None) -> tuple[str, ...]:
    """What makes the simulation doubtful, and who would wait longer under the chosen setting."""
    found = []
    today, recorded = simulated.baseline, simulated.recorded_wait
    if chosen is not None:
        found += _longer(simulated, chosen)
    if simulated.estimated:
        found.append(
            f"The machine's size is estimated from the log: {simulated.processors:,} processors, the most in use at "
            f"one time{_usually(simulated)}. The option --processors sets the real size."
        )
    if simulated.shake != "week":
        found.append(FEW_USERS)
    if recorded is not None and today.wait_mean is not None and not _similar(recorded, today.wait_mean):
        found.append(
            f"The simulated jobs waited {duration(recorded)} on average as recorded, and wait "
            f"{duration(today.wait_mean)} in the simulation of today's setting. The size, the order or the limits of "
            "the real machine differ; --processors and --order may bring the simulation nearer."
        )
    return tuple(found)


def _usually(simulated: SimulationFigures) -> str:
    """How many processors were usually in use, where that is much less than the most."""
    if simulated.usual is None or simulated.usual > _NEARLY * simulated.processors:
        return ""
    return f" ({percent(USUAL, 0)} of the time at most {simulated.usual:,} were in use)"


def _longer(simulated: SimulationFigures, chosen: SettingWaits) -> list[str]:
    today, new = simulated.baseline, chosen.metrics
    found = []
    if chosen.worse.mean:
        found.append(
            f"{percent(chosen.worse.mean)} of the jobs wait at least 1 h longer than today, "
            f"{percent(chosen.better.mean)} at least 1 h less."
        )
    classes = [words for kind in _KINDS if (words := _longer_classes(simulated, chosen, kind))]
    if classes:
        found.append(f"The mean wait of some jobs grows beyond the 95% interval: {'; '.join(classes)}.")
    wide = chosen.changes["wide_wait_p99"]
    if wide.mean is not None and wide.mean > _LONGER:
        found.append(
            "The 99th percentile wait of jobs on at least half of the machine grows from "
            f"{duration(today.wide_wait_p99)} to {duration(new.wide_wait_p99)} ({_surely(wide)})."
        )
    longest = chosen.changes["wait_max"]
    if longest.mean is not None and longest.mean > _LONGER:
        found.append(
            f"The longest wait grows from {duration(today.wait_max)} to {duration(new.wait_max)} ({_surely(longest)})."
        )
    return found


def _longer_classes(simulated: SimulationFigures, chosen: SettingWaits, kind: str) -> str:
    """The classes of one kind whose mean wait grows, the most first; empty where there are none."""
    both = zip(simulated.classes.get(kind, ()), chosen.classes.get(kind, ()), strict=True)
    longer = sorted((waits for today, waits in both if waits.longer and not today.small), key=_growth, reverse=True)
    if not longer:
        return ""
    named = [f"{waits.name} (+{percent(_growth(waits), 0)})" for waits in longer[:_NAMED]]
    more = f" and {len(longer) - _NAMED} more" if len(longer) > _NAMED else ""
    return f"by {kind} {', '.join(named)}{more}"


def _growth(waits: ClassWaits) -> float:
    return waits.change.mean or 0.0


def underestimation_cautions(new: SubsetScores, target: float) -> tuple[str, ...]:
    """Where the recommended setting underestimates more jobs than the target: what the target limits instead."""
    if new.underestimated <= target:
        return ()
    caution = (
        f"On the newer half of the jobs {percent(new.underestimated)} are underestimated while they wait. The limit of "
        f"{exact_percent(target)} is for the promised starts that underestimates break, not for underestimates."
    )
    return (caution,)


def accuracy_cautions(
    new: SubsetScores, users: SubsetScores, left_out: Sequence[ExcludedGroup] = (), jobs: int = 0
) -> tuple[str, ...]:
    """What the newer half shows against the predictions.

    :param users: the figures of the walltimes over the same jobs.
    :param jobs: number of scored jobs in all.
    """
    found = []
    if new.mean_absolute_error > users.mean_absolute_error:
        found.append(
            "On the newer half of the jobs the mean absolute error grows from "
            f"{duration(users.mean_absolute_error)} to {duration(new.mean_absolute_error)}."
        )
    if new.accuracy < users.accuracy:
        found.append(
            f"On the newer half of the jobs the mean accuracy falls from {users.accuracy:.3f} to {new.accuracy:.3f}."
        )
    if new.accuracy_by_cpu_hours < users.accuracy_by_cpu_hours:
        found.append(
            "On the newer half of the jobs the accuracy weighted by CPU hours falls from "
            f"{users.accuracy_by_cpu_hours:.3f} to {new.accuracy_by_cpu_hours:.3f}: long and wide jobs are predicted "
            "worse than by their walltimes."
        )
    # Users' jobs may be in those queues too.
    missing = sum(one.jobs for one in left_out if one.kind == "queue")
    # The older half has half of the jobs.
    if jobs and missing > jobs / 4:
        found.append(f"The queues left out hold {percent(2 * missing / jobs, 0)} of the jobs of the older half.")
    return tuple(found)


def _similar(one: float, other: float) -> bool:
    low, high = sorted((max(one, 1.0), max(other, 1.0)))
    return high <= _ALIKE * low


def _surely(change: Interval) -> str:
    if change.low is None or change.low <= 0:
        return "not beyond the 95% interval"
    return "beyond the 95% interval"
