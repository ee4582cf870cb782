"""Validate a simulation: compare simulated with recorded waits.

Starts correlate whatever the scheduler does, because jobs are submitted over months: the rank correlation of the waits
says more.
"""

from dataclasses import dataclass

import numpy as np

from softwalltime.core.formatting import DAY, day, duration, percent
from softwalltime.measure.simulation.engine import simulate
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.simulated_jobs import Floats, Integers, Jobs

MAX_FACTOR = 1.5
"""Maximum factor between recorded and simulated waits, in mean and in median."""
FLOOR_S = 600
"""Shorter waits count as this: PBS's scheduler_iteration is 600 s."""
MIN_SCORED_SHARE = 0.5
"""Minimum share of the processor time of jobs with a walltime."""
MONTH_S, LONG_S = 30 * DAY, 90 * DAY
"""Length of the held-out end of a log, and minimum length of the log."""
MIN_MONTH_JOBS = 100
"""Minimum jobs in the last month for separate figures."""
MIN_PAUSE_S = 7 * DAY
"""Minimum seconds without starts while jobs waited for the machine to count as down."""
OPTIONS = (
    "--site FILE, written by softwalltime snapshot, gives what the scheduler runs, the machine's size and the "
    "walltimes of jobs that have none (or --baseline, --processors and --walltime-from, one by one); --since and "
    "--until select a time in which the machine was as it is today"
)


@dataclass(frozen=True, slots=True)
class Level:
    """Mean and median wait in seconds."""

    mean: float
    """Mean wait in seconds."""
    median: float
    """Median wait in seconds."""


@dataclass(frozen=True, slots=True)
class BothWaits:
    """The waits of the same jobs, as recorded and as simulated."""

    recorded: Level
    """As recorded."""
    simulated: Level
    """Simulated with the site's current policy."""

    @classmethod
    def of(cls, recorded: Integers, simulated: Integers) -> "BothWaits":
        """Return the levels of these waits in seconds."""
        return cls(*(Level(float(waits.mean()), float(np.median(waits))) for waits in (recorded, simulated)))

    @property
    def alike(self) -> bool:
        """Return whether they differ by at most :data:`MAX_FACTOR` in mean and median."""
        pairs = ((self.recorded.mean, self.simulated.mean), (self.recorded.median, self.simulated.median))
        return all(within(MAX_FACTOR, *pair) for pair in pairs)


def within(factor: float, one: float, other: float) -> bool:
    """Return whether two waits in seconds differ by at most this factor; shorter ones count as :data:`FLOOR_S`."""
    return max(one, other, FLOOR_S) <= factor * max(min(one, other), FLOOR_S)


@dataclass(frozen=True, slots=True)
class Likeness:
    """Agreement of a simulation of the site's current policy with the log."""

    whole: BothWaits
    """Waits of all simulated jobs with a walltime and a recorded start."""
    month: BothWaits | None
    """Waits of those submitted in the last 30 days; null: the log is too short."""
    starts_rank: float | None
    """Rank correlation of simulated and recorded starts; null: too few jobs."""
    waits_rank: float | None
    """Rank correlation of simulated and recorded waits; null: all are equal."""
    pause: tuple[int, int] | None
    """Period, in epoch seconds, in which jobs waited a week or more and none started; null: none."""


def measure_likeness(jobs: Jobs, processors: int, baseline: SchedulerPolicy) -> Likeness | None:
    """Simulate the recorded workload; ``None`` if most starts are not recorded, or no job waited a second.

    Traces without waits (-1, as in LLNL-Atlas) have the start as the submission of each job.
    """
    recorded = jobs.completed.numbers("start")
    submitted = np.array(jobs.submitted, np.int64)
    known = recorded != -1
    if 2 * int(known.sum()) < len(jobs) or not (known & jobs.scored & (recorded > submitted)).any():
        return None
    start = simulate(jobs, processors, baseline).start
    pause, simulated_pause = (_pause(submitted[known], starts[known]) for starts in (recorded, start))
    if pause is not None and simulated_pause is not None:
        longer = pause[1] - pause[0] > MAX_FACTOR * (simulated_pause[1] - simulated_pause[0])
        pause = pause if longer else None
    which = known & jobs.scored
    submitted, recorded, start = submitted[which], recorded[which], start[which]
    waits = np.maximum(recorded - submitted, 0), start - submitted
    last = submitted > submitted[-1] - MONTH_S
    long = submitted[-1] - submitted[0] >= LONG_S and int(last.sum()) >= MIN_MONTH_JOBS
    return Likeness(
        BothWaits.of(*waits),
        BothWaits.of(waits[0][last], waits[1][last]) if long else None,
        _rank_correlation(recorded, start),
        _rank_correlation(*waits),
        pause,
    )


def doubts(likeness: Likeness | None, scored_share: float) -> tuple[str, ...]:
    """Return why the simulation is not valid for this machine, as sentences; empty if it is.

    :param likeness: ``None`` if the log records no waits.
    :param scored_share: share of the processor time that jobs with a walltime used.
    """
    said = []
    if scored_share < MIN_SCORED_SHARE:
        said.append(
            f"The simulated jobs with a walltime are {percent(scored_share)} of the log's processor time, and at least "
            f"{percent(MIN_SCORED_SHARE, 0)} are needed. --walltime-from gives walltimes by queue; jobs larger than "
            "the machine need the size of --processors."
        )
    if likeness is None:
        said.append(
            "The log records no waits: most jobs have no start, or all started when submitted. Give other logs."
        )
        return tuple(said)
    for both, which in ((likeness.whole, "all simulated jobs"), (likeness.month, "the jobs of the last 30 days")):
        if both is not None and not both.alike:
            said.append(
                f"Of {which}, the log recorded a mean wait of {duration(both.recorded.mean)} (median "
                f"{duration(both.recorded.median)}); the simulation of what the site runs has "
                f"{duration(both.simulated.mean)} (median {duration(both.simulated.median)}). They may differ by a "
                f"factor of {MAX_FACTOR}. {OPTIONS}."
            )
    if likeness.pause is not None:
        first, last = likeness.pause
        said.append(
            f"No job started from {day(first)} to {day(last)} although jobs waited, so the machine was down. --since "
            "and --until select the time before or after."
        )
    return tuple(said)


def likeness_line(likeness: Likeness | None) -> str:
    """Describe the agreement of the simulation with the log; empty without recorded waits."""
    if likeness is None:
        return ""
    whole = likeness.whole
    ranks = [
        f"{name} {value:.2f}"
        for name, value in (("of the starts", likeness.starts_rank), ("of the waits", likeness.waits_rank))
        if value is not None
    ]
    said = (
        f"Recorded mean wait {duration(whole.recorded.mean)} (median {duration(whole.recorded.median)}), simulated "
        f"{duration(whole.simulated.mean)} ({duration(whole.simulated.median)})"
    )
    return f"{said}; rank correlation {', '.join(ranks)}." if ranks else f"{said}."


def _pause(submitted: Integers, start: Integers) -> tuple[int, int] | None:
    """Return the longest period without starts in which a job waited for at least :data:`MIN_PAUSE_S`."""
    times = np.unique(start)
    waiting = start - submitted >= MIN_PAUSE_S
    # A job ends a pause if it waited through the last week of it.
    gaps = np.diff(times)
    ends = np.isin(times[1:], start[waiting])
    lengths = np.where((gaps >= MIN_PAUSE_S) & ends, gaps, 0)
    if not lengths.any():
        return None
    longest = int(lengths.argmax())
    return int(times[longest]), int(times[longest + 1])


def _rank_correlation(one: Integers, other: Integers) -> float | None:
    """Return Spearman's rank correlation; equal values share their mean rank."""
    if len(one) < 2 or one.min() == one.max() or other.min() == other.max():
        return None
    return float(np.corrcoef(_ranks(one), _ranks(other))[0, 1])


def _ranks(values: Integers) -> Floats:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: Floats = (last - (counts - 1) / 2)[inverse]
    return ranks
