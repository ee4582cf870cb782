"""Cautions against a recommendation, shown with the verdict."""

from collections.abc import Callable

from softwalltime.core.formatting import duration, percent
from softwalltime.measure.simulation.differences import Interval
from softwalltime.reports.simulation import USUAL, SettingWaits, SimulationFigures
from softwalltime.reports.waits_by_class import ClassWaits, JobClass

_USUAL_SHARE = 0.9
"""Share of the maximum processors in use above which the usual number is not mentioned."""
_MIN_GROWTH = 0.1
"""Minimum relative growth of a wait to be mentioned."""
_NAMED = 3
"""Maximum classes of jobs named in a sentence."""
_IN_SENTENCE = ("runtime", "size", "queue")
_KINDS = (*_IN_SENTENCE, "user")
_OF = {"runtime": "that run {}", "size": "of {}", "queue": "in queue {}", "user": "of user {}"}


def simulation_cautions(simulated: SimulationFigures, chosen: SettingWaits | None) -> tuple[str, ...]:
    """Return limitations of the simulation, and the classes that would wait longer under the chosen candidate."""
    said = [] if chosen is None else _longer(simulated, chosen)
    said += [f"Not simulated as it is: {remark}." for remark in simulated.remarks]
    if simulated.estimated:
        said.append(
            f"The machine's size is estimated from the log: {simulated.processors:,} processors, the most in use at "
            f"one time{_usually(simulated)}. The option --site or --processors gives the real size."
        )
    return tuple(said)


def longer_classes(
    simulated: SimulationFigures, chosen: SettingWaits, kinds: tuple[str, ...] = _IN_SENTENCE
) -> list[str]:
    """Name the classes whose mean wait grows, the largest first, with growth and share of the jobs; at most three."""
    return _classes(simulated, chosen, kinds, lambda waits: waits.longer)


def shorter_classes(
    simulated: SimulationFigures, chosen: SettingWaits, kinds: tuple[str, ...] = _IN_SENTENCE
) -> list[str]:
    """Name the classes whose mean wait falls, as :func:`longer_classes`."""
    return _classes(simulated, chosen, kinds, lambda waits: waits.shorter)


def _classes(
    simulated: SimulationFigures, chosen: SettingWaits, kinds: tuple[str, ...], which: Callable[[ClassWaits], bool]
) -> list[str]:
    pairs = [
        (today, waits, kind)
        for kind in kinds
        for today, waits in zip(simulated.classes.get(kind, ()), chosen.classes.get(kind, ()), strict=True)
        if which(waits) and not today.small
    ]
    pairs.sort(key=lambda pair: -pair[0].jobs)
    jobs = {kind: sum(today.jobs for today in simulated.classes.get(kind, ())) for kind in kinds}
    named = [_named(today, waits, kind, jobs[kind]) for today, waits, kind in pairs[:_NAMED]]
    return named + ([f"and {len(pairs) - _NAMED} more classes"] if len(pairs) > _NAMED else [])


def _named(today: JobClass, waits: ClassWaits, kind: str, jobs: int) -> str:
    growth = (
        f"{'+' if waits.longer else ''}{percent(waits.change.mean, 0)}, {percent(today.jobs / jobs, 0)} of the jobs"
    )
    return f"{_OF[kind].format(waits.name)} ({growth})"


def _usually(simulated: SimulationFigures) -> str:
    """Report the usual number of processors in use, if much less than the maximum."""
    if simulated.usual is None or simulated.usual > _USUAL_SHARE * simulated.processors:
        return ""
    return f" ({percent(USUAL, 0)} of the time at most {simulated.usual:,} were in use)"


def _longer(simulated: SimulationFigures, chosen: SettingWaits) -> list[str]:
    today, new = simulated.baseline, chosen.metrics
    said = [beyond_chance(simulated, chosen)] if chosen.worse.mean else []
    classes = longer_classes(simulated, chosen, _KINDS)
    # The sentence of the recommendation names the others.
    if classes and classes != longer_classes(simulated, chosen):
        said.append(f"The mean wait grows beyond the 95% interval for jobs {', '.join(classes)}.")
    wide = chosen.changes["wide_wait_p99"]
    if wide.mean is not None and wide.mean > _MIN_GROWTH:
        said.append(
            "The 99th percentile wait of jobs on at least half of the machine grows from "
            f"{duration(today.wide_wait_p99)} to {duration(new.wide_wait_p99)} ({_surely(wide)})."
        )
    longest = chosen.changes["wait_max"]
    if longest.mean is not None and longest.mean > _MIN_GROWTH:
        said.append(
            f"The longest wait grows from {duration(today.wait_max)} to {duration(new.wait_max)} ({_surely(longest)})."
        )
    return said


def beyond_chance(simulated: SimulationFigures, chosen: SettingWaits) -> str:
    """Report the shares of jobs that wait at least 1 h longer or less, beyond those of the placebo walltimes x 0.98."""
    longer, less = chosen.worse.mean or 0.0, chosen.better.mean or 0.0
    said = f"{percent(longer)} of the jobs wait at least 1 h longer than today, {percent(less)} at least 1 h less"
    if simulated.chance is None:
        return f"{said}."
    by_chance = (simulated.chance.worse.mean or 0.0, simulated.chance.better.mean or 0.0)
    beyond = [max(0.0, share - other) for share, other in zip((longer, less), by_chance, strict=True)]
    return (
        f"Beyond chance {percent(beyond[0])} of the jobs wait at least 1 h longer than today, {percent(beyond[1])} at "
        f"least 1 h less ({percent(longer)} and {percent(less)} in all; walltimes x 0.98 alone, which help nobody, "
        f"give {percent(by_chance[0])} and {percent(by_chance[1])})."
    )


def _surely(change: Interval) -> str:
    if change.low is None or change.low <= 0:
        return "not beyond the 95% interval"
    return "beyond the 95% interval"
