"""Start times predicted by running the scheduler forward from a queue's state (Li et al. 2004, section 3)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from softwalltime.drive import PredictorDriver
from softwalltime.policy.clamp import soft_walltime
from softwalltime.predictors.base import Predictor
from softwalltime.simulation.engine import ScheduleOutcome, simulate
from softwalltime.simulation.jobs import Integers, Jobs
from softwalltime.simulation.policies import SchedulerPolicy


@dataclass(frozen=True, slots=True)
class QueueState:
    """The queue when a job is submitted: positions of the running and the waiting jobs, the submitted one last.

    ``now`` is the submission in epoch seconds; ends at that instant have happened, starts have not.
    """

    now: int
    running: tuple[int, ...]
    waiting: tuple[int, ...]


def states(jobs: Jobs, outcome: ScheduleOutcome, sample: Sequence[int]) -> list[QueueState]:
    """The state at the submission of each job of the sample, in a schedule of first come, first served.

    :param sample: positions of jobs, ascending.
    """
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
    jobs: Jobs, outcome: ScheduleOutcome, sample: Sequence[QueueState], predictor: Predictor | None, minimum: int
) -> list[tuple[list[int], list[int]]]:
    """Seconds that the running jobs of each state will still run, and that its waiting jobs will run.

    A predictor has learnt the jobs that ended in the schedule by then; ``None`` predicts the walltime.  A job that runs
    longer than predicted is given the next whole multiple, as PBS does; nothing is beyond the walltime.
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
            value = soft_walltime(driver.predict("", submission, now, elapsed), submission, minimum) or limit
            return min(limit, value * (elapsed // value + 1))

        remaining = []
        for job in state.running:
            elapsed = now - int(outcome.start[job])
            remaining.append(max(runtime(job, elapsed) - elapsed, 1))
        runtimes.append((remaining, [runtime(job, 0) for job in state.waiting]))
    return runtimes


def actual_runtimes(outcome: ScheduleOutcome, sample: Sequence[QueueState]) -> list[tuple[list[int], list[int]]]:
    """The same, as no predictor can know it: a bound."""
    end = outcome.start + outcome.duration
    return [
        (
            [int(end[job]) - state.now for job in state.running],
            [int(outcome.duration[job]) for job in state.waiting],
        )
        for state in sample
    ]


def forward(
    jobs: Jobs, outcome: ScheduleOutcome, state: QueueState, remaining: Sequence[int], runtimes: Sequence[int],
    processors: int, policy: SchedulerPolicy,
) -> int:  # fmt: skip
    """The predicted wait of the job that was just submitted, in seconds.

    The scheduler plans with walltimes, what happens are the predicted runtimes, and no further job comes.  ``policy``
    is first come, first served: running jobs are submitted first, all fit, and so start at once.
    """
    members = [*state.running, *state.waiting]
    limits = [jobs.walltime[job] - (state.now - int(outcome.start[job])) for job in state.running]
    limits += [jobs.walltime[job] for job in state.waiting]
    # A job that outlives its walltime here has seconds left, however few.
    limits = [max(limit, seconds) for limit, seconds in zip(limits, (*remaining, *runtimes), strict=True)]
    taken = jobs.chosen(members)
    queue = replace(
        taken,
        submitted=(state.now,) * len(members),
        walltime=tuple(limits),
        runtime=(*remaining, *runtimes),
        teaches=(False,) * len(members),
    )
    return int(simulate(queue, processors, policy).start[-1]) - state.now


def work_ahead(jobs: Jobs, outcome: ScheduleOutcome, state: QueueState, processors: int) -> float:
    """The wait by a linear scale: processor-seconds requested ahead of the job, over the processors.

    What the EDG middleware did according to section 1: walltimes and the jobs in the queue.
    """
    work = sum(
        jobs.processors[job] * max(jobs.walltime[job] - (state.now - int(outcome.start[job])), 0)
        for job in state.running
    )
    work += sum(jobs.processors[job] * jobs.walltime[job] for job in state.waiting[:-1])
    return work / processors


def waits_of(outcome: ScheduleOutcome, sample: Sequence[QueueState]) -> Integers:
    """The actual waits of the submitted jobs."""
    return np.array([int(outcome.start[state.waiting[-1]]) - state.now for state in sample], np.int64)
