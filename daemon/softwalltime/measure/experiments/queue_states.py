"""The queue at a submission, and the start that simulating the scheduler from it predicts (Li et al. 2004)."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from softwalltime.measure.simulation.engine import Engine, ScheduleOutcome
from softwalltime.measure.simulation.machine import Processors
from softwalltime.measure.simulation.policies import RUNTIME, WALLTIME, SchedulerPolicy
from softwalltime.measure.simulation.simulated_jobs import Integers, Jobs, starts_of
from softwalltime.predict.drive import PredictorDriver
from softwalltime.predict.policy.clamp import soft_walltime
from softwalltime.predict.predictors.base import Predictor
from softwalltime.predict.predictors.registry import make

Probe = tuple[int, int]
"""Processors and walltime in seconds of a probe job."""
Runtimes = list[tuple[list[int], list[int]]]
"""For each state, remaining runtimes of the running jobs and runtimes of the waiting jobs in seconds."""


@dataclass(frozen=True, slots=True)
class QueueState:
    """The queue when a job is submitted: positions of the running and the waiting jobs, the submitted one last.

    ``now`` is the submission in epoch seconds; ends at that instant have happened, starts have not.
    """

    now: int
    running: tuple[int, ...]
    waiting: tuple[int, ...]


def states(jobs: Jobs, outcome: ScheduleOutcome, sample: Sequence[int]) -> list[QueueState]:
    """Return the state of the queue at the submission of each job of the sample, whose positions ascend."""
    end = outcome.start + outcome.duration
    queue_states = []
    first = 0
    for job in sample:
        now = jobs.submitted[job]
        # Jobs before ``first`` have ended by now, and stay so.
        while first < job and end[first] <= now:
            first += 1
        known = np.arange(first, job + 1)
        started, ended = outcome.start[known] < now, end[known] <= now
        running = known[started & ~ended]
        running = running[np.argsort(outcome.start[running], kind="stable")]
        queue_states.append(QueueState(now, tuple(running.tolist()), tuple(known[~started].tolist())))
    return queue_states


def predicted_runtimes(
    jobs: Jobs, outcome: ScheduleOutcome, sample: Sequence[QueueState], predictor: Predictor | None
) -> Runtimes:
    """Return predicted remaining runtimes of the running jobs and runtimes of the waiting jobs of each state, seconds.

    A predictor has learnt the jobs that ended in the schedule by then; ``None``: the walltime.  A job that outlives its
    prediction gets the next whole multiple, as in PBS, up to the walltime.
    """
    completed = jobs.completed
    ends = (outcome.start + outcome.duration).tolist()
    by_end = sorted(range(len(jobs)), key=ends.__getitem__) if predictor is not None else []
    driver = PredictorDriver({} if predictor is None else {"": predictor})
    learnt = 0
    runtimes = []
    for state in sample:
        now = state.now
        while learnt < len(by_end) and ends[by_end[learnt]] <= now:
            job = by_end[learnt]
            learnt += 1
            start, end = int(outcome.start[job]), ends[job]
            taught = replace(completed[job], start=start, end=end, runtime=end - start) if jobs.teaches[job] else None
            driver.step(end, job=taught)
        driver.fit_due(now)

        def runtime(job: int, elapsed: int, now: int = now) -> int:
            limit = jobs.walltime[job]
            if predictor is None:
                return limit
            submission = completed[job].submission
            value = soft_walltime(driver.predict("", submission, now, elapsed), submission) or limit
            return min(limit, value * (elapsed // value + 1))

        remaining = []
        for job in state.running:
            elapsed = now - int(outcome.start[job])
            remaining.append(max(runtime(job, elapsed) - elapsed, 1))
        runtimes.append((remaining, [runtime(job, 0) for job in state.waiting]))
    return runtimes


def actual_runtimes(outcome: ScheduleOutcome, sample: Sequence[QueueState]) -> Runtimes:
    """Return the actual runtimes in the same form: a bound for every predictor."""
    end = outcome.start + outcome.duration
    return [
        ([int(end[job]) - state.now for job in state.running], [int(outcome.duration[job]) for job in state.waiting])
        for state in sample
    ]


def forward(
    jobs: Jobs, outcome: ScheduleOutcome, state: QueueState, remaining: Sequence[int], runtimes: Sequence[int],
    processors: int, policy: SchedulerPolicy, probe: Probe | None = None,
) -> int:  # fmt: skip
    """Return the predicted wait of a job that was just submitted, in seconds.

    The simulated scheduler plans with walltimes, jobs run for their predicted runtimes, and no further job is
    submitted.

    :param probe: processors and walltime of a probe in place of the submitted job.
    """
    starts = outcome.start[list(state.running)].tolist()
    total = (state.now - start + seconds for start, seconds in zip(starts, remaining, strict=True))
    queue = replace(jobs.chosen([*state.running, *state.waiting]), runtime=(*total, *runtimes))
    if probe is not None:
        sizes, limits = (*queue.processors[:-1], probe[0]), (*queue.walltime[:-1], probe[1])
        queue = replace(queue, processors=sizes, walltime=limits)
    engine = Engine(queue, Processors(processors, queue.processors), policy)
    engine.resume(starts, queue.walltime[: len(starts)], state.now)
    return int(engine.run(until=[len(queue) - 1]).start[-1]) - state.now


def work_ahead(jobs: Jobs, outcome: ScheduleOutcome, state: QueueState, processors: int) -> float:
    """Return the wait by a linear scale: processor-seconds requested ahead of the job, divided by the processors.

    This is the EDG middleware's method according to section 1: walltimes and the jobs in the queue.
    """
    work = sum(
        jobs.processors[job] * max(jobs.walltime[job] - (state.now - int(outcome.start[job])), 0)
        for job in state.running
    )
    work += sum(jobs.processors[job] * jobs.walltime[job] for job in state.waiting[:-1])
    return work / processors


def waits_of(outcome: ScheduleOutcome, sample: Sequence[QueueState]) -> Integers:
    return np.array([int(outcome.start[state.waiting[-1]]) - state.now for state in sample], np.int64)


def recorded_schedule(jobs: Jobs) -> ScheduleOutcome:
    """Return the starts and runtimes of the records as a schedule."""
    none = np.zeros(len(jobs), np.int64)
    start, duration = starts_of(jobs.completed), np.array(jobs.runtime, np.int64)
    return ScheduleOutcome(start, duration, none, none > 0, none, none, 0.0)


def probes_of(jobs: Jobs, submitted: Sequence[int]) -> list[Probe | None]:
    """Return the probe of each submission: the median processors and walltime of the user's last ten jobs before it.

    ``None`` where the user has none.
    """
    found: dict[int, Probe | None] = dict.fromkeys(submitted)
    last: dict[str, deque[int]] = {}
    for job, user in enumerate(record.submission.user for record in jobs.completed):
        before = last.setdefault(user, deque(maxlen=10))
        if before and job in found:
            sizes, limits = (sorted(column[index] for index in before) for column in (jobs.processors, jobs.walltime))
            found[job] = sizes[len(before) // 2], limits[len(before) // 2]
        before.append(job)
    return [found[job] for job in submitted]


def runtimes_from(name: str, jobs: Jobs, outcome: ScheduleOutcome, sample: Sequence[QueueState]) -> Runtimes:
    """Return the runtimes of the jobs of each state from a source: the walltime, a predictor, or what was recorded."""
    if name == RUNTIME:
        return actual_runtimes(outcome, sample)
    return predicted_runtimes(jobs, outcome, sample, None if name == WALLTIME else make(name))
