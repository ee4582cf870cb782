"""Recorded waits before and after a policy was switched on: an interrupted time series with controls.

Both periods have the same length, in whole weeks, and end and begin at the switch.  Of each, the jobs count that were
submitted and ended within it: of the newest period the log holds no others.  What a job waited is compared with

1. what it waits in a simulation of the old setting on the same jobs, where that reproduces the waits before the switch
   (:mod:`.likeness`): so a changed load is no effect of the policy;
2. and, where the policy holds for a share of the users only, with the same figure of the other users (difference in
   differences).

Without 1 and 2 the means of the two periods are compared, and a changed load makes a verdict impossible.

The 95% intervals are Student's t over blocks of time (batch means), because jobs that follow each other wait for the
same others: four blocks in each period.  Weeks of public logs depend on each other, so longer periods have longer
blocks.  Blocks, periods and groups are taken as independent.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from softwalltime.core.formatting import DAY, duration, printable
from softwalltime.measure.replay.job_columns import JobColumns
from softwalltime.measure.replay.workload import Flags, Integers, Workload
from softwalltime.measure.simulation.differences import Interval, student
from softwalltime.measure.simulation.engine import simulate
from softwalltime.measure.simulation.policies import policy_of
from softwalltime.measure.simulation.simulated_jobs import eligible_times, jobs_of
from softwalltime.predict.policy.plan_file import Promised
from softwalltime.predict.policy.site import user_rank
from softwalltime.reports.likeness import BothWaits
from softwalltime.reports.waits_by_class import UNNAMED, UNPRINTABLE

WEEK = 7 * DAY
LEAST_DAYS, LEAST_JOBS = 7, 100
"""Minimum days and jobs of each period for a verdict."""
BLOCKS = 4
"""Number of blocks in a period; without jobs in one of them there is no interval."""
MIN_SIMULATED = 0.9
"""Minimum share of jobs that can be simulated."""
WARM_UP_S = 30 * DAY
"""Warm-up simulated before the first period, in seconds."""


class BlockMean(NamedTuple):
    """A mean over jobs, and its standard error from ``blocks`` of time, ``None`` of fewer than ``BLOCKS``."""

    mean: float
    blocks: int
    error: float | None


class Span(NamedTuple):
    since: int
    until: int


@dataclass(frozen=True, slots=True)
class Columns:
    """All jobs of a workload in order of submission; times in epoch seconds, durations in seconds.

    ``wait`` begins when the job could have run (PBS's etime, else its submission) and ends at its start; -1 if unknown.
    ``ncpus`` is 0 if unknown.
    """

    submitted: Integers
    end: Integers
    wait: Integers
    runtime: Integers
    ncpus: Integers
    users: tuple[str, ...]
    queues: tuple[str, ...]


def make_columns(workload: Workload) -> Columns:
    jobs, start = workload.jobs, workload.jobs.numbers("start")
    return Columns(
        workload.submitted, jobs.numbers("end"),
        np.where(start >= 0, np.maximum(start - eligible_times(jobs), 0), -1),
        workload.runtime, jobs.numbers("ncpus", 0), _names(jobs, "user"), _names(jobs, "queue"),
    )  # fmt: skip


def _names(jobs: JobColumns, field: str) -> tuple[str, ...]:
    names = list(jobs.values(field))
    shown = {name: printable(name, UNPRINTABLE) or UNNAMED for name in set(names)}
    return tuple(shown[name] for name in names)


@dataclass(frozen=True, slots=True)
class BeforeAfter:
    """The periods before and after the switch, the jobs of users with the policy, and those of the other users.

    ``value`` is what is compared, in seconds: the wait, less the wait in the simulation of the old setting where
    ``simulated`` is true.  ``doubt`` says why there is no simulation, where one was tried.  ``control`` is ``None``
    where all users have the policy, or the others have too few jobs.
    """

    spans: tuple[Span, Span]
    columns: Columns
    value: Integers
    simulated: bool
    treated: Flags
    control: Flags | None
    doubt: str = ""

    @property
    def method(self) -> str:
        """Comparison of recorded waits: periods, simulation, users, or simulation and users."""
        parts = (("simulation", self.simulated), ("users", self.control is not None))
        return " and ".join(name for name, used in parts if used) or "periods"

    def among(self, span: Span) -> Flags:
        """Return the jobs that were submitted and ended in a span."""
        among: Flags = jobs_in(self.columns, span) & (self.columns.end <= span.until)
        return among

    def effect(self, among: Flags | Literal[True] = True) -> Interval:
        """Return the effect on the mean wait in seconds, of some jobs."""
        mine = self._change(self.treated & among, self.value)
        if self.control is None:
            return mine
        others = self._change(self.control & among, self.value)
        if mine.mean is None or others.mean is None:
            return Interval()
        mean = mine.mean - others.mean
        if mine.high is None or others.high is None:
            return Interval(mean)
        return Interval.around(mean, float(np.hypot(mine.high - mine.mean, others.high - others.mean)))

    def recorded_change(self) -> Interval:
        return self._change(True, self.columns.wait)  # all jobs

    def relative(self, effect: Interval) -> Interval:
        """Return an effect relative to the counterfactual mean wait without the policy."""
        after = self.among(self.spans[1]) & self.treated
        reference = 0.0
        if after.any() and effect.mean is not None:
            reference = float(self.columns.wait[after].mean()) - effect.mean
        ends = (effect.mean, effect.low, effect.high)
        return Interval(*(None if end is None or reference <= 0 else end / reference for end in ends))

    def _change(self, among: Flags | Literal[True], values: Integers) -> Interval:
        means = []
        for span in self.spans:
            which = self.among(span) & among
            if not which.any():
                return Interval()
            length = -(-(span.until - span.since) // BLOCKS)
            block = (self.columns.submitted[which] - span.since) // length
            means.append(mean_over_blocks(values[which], block))
        return change_of_mean(*means)


def before_after(jobs: JobColumns, promised: Promised, since: int, share: float) -> BeforeAfter:
    """Return the periods before and after a switch.

    :param promised: names the old setting and the machine to simulate.
    :param since: when the policy was switched on, epoch seconds.
    """
    # Periods of equal length around the switch, in whole weeks if possible.
    length = max(0, min(int(jobs.numbers("end").max()) + 1 - since, since - int(jobs.numbers("submitted").min())))
    length -= length % WEEK if length >= WEEK else 0
    spans = Span(since - length, since), Span(since, since + length)
    columns, value, doubt = _compared(jobs, promised, spans[0])
    simulated = value is not columns.wait  # the same array where there is no simulation
    chosen = {user: user_rank(user) < share for user in set(columns.users)}
    inside = np.array([chosen[user] for user in columns.users], np.bool_)
    both = BeforeAfter(spans, columns, value, simulated, inside, ~inside, doubt)
    few = min(int((both.among(span) & ~inside).sum()) for span in spans) < LEAST_JOBS
    return replace(both, control=None) if few else both


def jobs_in(columns: Columns, span: Span) -> Flags:
    """Return which jobs were submitted in a span and ran with a known start."""
    submitted = (columns.submitted >= span.since) & (columns.submitted < span.until)
    started: Flags = submitted & (columns.wait >= 0) & (columns.runtime > 0)
    return started


def change_of_mean(before: BlockMean, after: BlockMean) -> Interval:
    """Return the change of the mean in seconds with its 95% interval over blocks, where there are enough blocks."""
    change = after.mean - before.mean
    if before.error is None or after.error is None:
        return Interval(change)
    return Interval.around(
        change, student(min(before.blocks, after.blocks) - 1) * math.hypot(before.error, after.error)
    )


def mean_over_blocks(values: Integers, block: Integers) -> BlockMean:
    """Return the mean of the jobs' values, with its standard error by how much each block of time shifts the mean.

    Waits within a block are correlated, so the sample consists of blocks, not of jobs.

    :param block: the number of each job's block.
    """
    mean = float(values.mean())
    _, codes = np.unique(block, return_inverse=True)
    shift = np.bincount(codes, values - mean) / len(values)
    blocks = len(shift)
    if blocks < BLOCKS:
        return BlockMean(mean, blocks, None)
    return BlockMean(mean, blocks, math.sqrt(blocks / (blocks - 1) * float((shift**2).sum())))


def _compared(jobs: JobColumns, promised: Promised, before: Span) -> tuple[Columns, Integers, str]:
    """Return the jobs, their waits less those of a simulation of the old setting, and why the latter is not possible.

    Without a simulation the waits are the recorded ones.
    """
    jobs = jobs.select(np.flatnonzero(jobs.numbers("submitted") >= before.since - WARM_UP_S))
    plain = make_columns(Workload(jobs))
    without = plain, plain.wait, ""
    if not promised.scheduler:
        return without
    scheduler = policy_of(dict(promised.scheduler), "the plan's scheduler")
    fitting, _ = jobs_of(jobs, vnodes=scheduler.vnodes).that_fit(promised.processors)
    if len(fitting) < MIN_SIMULATED * int((plain.runtime > 0).sum()) or not len(fitting):
        return without
    outcome = simulate(fitting, promised.processors, scheduler)
    wait = outcome.start - np.array(fitting.submitted, np.int64)
    # A workload is in order of submission, the simulated jobs in the order in which they could run.
    wait = wait[np.argsort(fitting.completed.numbers("submitted"), kind="stable")]
    columns = make_columns(Workload(fitting.completed))
    chosen = jobs_in(columns, before) & (columns.end <= before.until)
    if not chosen.any():
        return without
    both = BothWaits.of(columns.wait[chosen], wait[chosen])
    if not both.alike:
        means = f"mean {duration(both.recorded.mean)}, simulated {duration(both.simulated.mean)}"
        doubt = (
            f"A simulation of the old setting ({promised.baseline}, {promised.processors:,} processors) does not "
            f"reproduce the waits before the switch ({means}), so it cannot correct for the load."
        )
        return plain, plain.wait, doubt
    return columns, columns.wait - wait, ""
