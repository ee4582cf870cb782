"""Cautions against a recommendation, shown with the verdict."""

from softwalltime.core.formatting import duration, percent
from softwalltime.reports.likeness import within
from softwalltime.reports.simulation import SettingWaits, SimulationFigures

_MIN_GROWTH = 0.1
"""Minimum relative growth of a wait to be mentioned."""
_MAX_FACTOR = 2.0
"""Maximum factor between the mean waits of the shaken workloads and of the recorded one."""
_NAMED = 3
"""Maximum classes of jobs named in a sentence."""
_FEW_SEEDS = 5
"""Number of workloads below which the intervals are so wide that hardly any harm is outside of them."""
_OF = {"runtime": "that run {}", "size": "of {}", "queue": "in queue {}", "user": "of user {}"}
_IN_SENTENCE = ("runtime", "size", "queue")
_TAILS = {
    "wide_wait_p99": "99th percentile wait of jobs on at least half of the machine", "wait_max": "longest wait",
}  # fmt: skip


def simulation_cautions(simulated: SimulationFigures, chosen: SettingWaits | None) -> tuple[str, ...]:
    """Return limitations of the simulation, and the classes that would wait longer under the chosen candidate."""
    said = []
    if chosen is not None:
        if len(simulated.seeds) < _FEW_SEEDS:
            said.append(
                f"The intervals are of {len(simulated.seeds)} shaken workloads, so they are wide, and longer waits of "
                "some jobs may not be noticed: --seeds 31-40."
            )
        if chosen.worse.mean:
            said.append(beyond_chance(simulated, chosen))
        classes = changed_classes(simulated, chosen, longer=True, kinds=tuple(_OF))
        # The sentence of the recommendation names the others.
        if classes and classes != changed_classes(simulated, chosen, longer=True):
            said.append(f"The mean wait grows beyond the 95% interval for jobs {', '.join(classes)}.")
        for metric, what in _TAILS.items():
            change = chosen.changes[metric]
            if change.mean is not None and change.mean > _MIN_GROWTH:
                before, after = (duration(getattr(each, metric)) for each in (simulated.baseline, chosen.metrics))
                surely = "beyond" if change.above else "not beyond"
                said.append(f"The {what} grows from {before} to {after} ({surely} the 95% interval).")
    if simulated.likeness is not None:
        recorded, shaken = simulated.likeness.whole.simulated.mean, simulated.baseline.wait_mean or 0.0
        if not within(_MAX_FACTOR, recorded, shaken):
            said.append(
                f"Jobs wait {duration(shaken)} on average in the shaken workloads, and {duration(recorded)} as they "
                "were submitted: what holds in the former may not hold for this log."
            )
    if simulated.step is not None:
        said.append(str(simulated.step))
    said += [f"Not simulated as it is: {remark}." for remark in simulated.remarks]
    if simulated.estimated:
        said.append(
            f"The machine's size is estimated from the log: {simulated.processors:,} processors, the most in use at "
            "one time. The option --site or --processors gives the real size."
        )
    return tuple(said)


def changed_classes(
    simulated: SimulationFigures, chosen: SettingWaits, *, longer: bool, kinds: tuple[str, ...] = _IN_SENTENCE
) -> list[str]:
    """Name the classes whose mean wait grows, or falls, the largest first, with change and share of the jobs."""
    changed = []
    for kind in kinds:
        today = simulated.classes.get(kind, ())
        jobs = sum(job_class.jobs for job_class in today)
        for job_class, waits in zip(today, chosen.classes.get(kind, ()), strict=True):
            if (waits.longer if longer else waits.shorter) and not job_class.small:
                growth = f"{'+' if longer else ''}{percent(waits.changes['wait_mean'].mean, 0)}"
                share = percent(job_class.jobs / jobs, 0)
                changed.append((-job_class.jobs, f"{_OF[kind].format(waits.name)} ({growth}, {share} of the jobs)"))
    changed.sort(key=lambda entry: entry[0])
    more = len(changed) - _NAMED
    return [name for _, name in changed[:_NAMED]] + ([f"and {more} more classes"] if more > 0 else [])


def beyond_chance(simulated: SimulationFigures, chosen: SettingWaits) -> str:
    """Report the shares of jobs that wait at least 1 h longer or less, beyond those of the placebo walltimes x 0.98."""
    longer, less = chosen.worse.mean or 0.0, chosen.better.mean or 0.0
    by_chance = (simulated.chance.worse.mean or 0.0, simulated.chance.better.mean or 0.0)
    beyond = [max(0.0, share - other) for share, other in zip((longer, less), by_chance, strict=True)]
    return (
        f"Beyond chance {percent(beyond[0])} of the jobs wait at least 1 h longer than today, {percent(beyond[1])} at "
        f"least 1 h less ({percent(longer)} and {percent(less)} in all; walltimes x 0.98 alone, which help nobody, "
        f"give {percent(by_chance[0])} and {percent(by_chance[1])})."
    )
