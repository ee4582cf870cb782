"""Start times of jobs, first come, first served with EASY backfilling."""

from collections.abc import Sequence
from dataclasses import replace

from softwalltime.measure.simulation.engine import simulate
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.simulated_jobs import jobs_of

_POLICY = SchedulerPolicy(kill_at_walltime=False, correction="none")


def start_times(
    submitted: Sequence[int], sizes: Sequence[int], runtimes: Sequence[int], requests: Sequence[int], processors: int
) -> list[int]:
    """Return start times (epoch seconds) of rigid jobs in order of submission; none may exceed the machine.

    A job past its walltime counts as about to end.
    """
    jobs = replace(jobs_of(()), submitted=submitted, processors=sizes, walltime=requests, runtime=runtimes)
    result: list[int] = simulate(jobs, processors, _POLICY).start.tolist()
    return result
