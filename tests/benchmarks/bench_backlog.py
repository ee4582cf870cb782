"""The cost of a backlog under each order and kind of backfilling, as ratios to first come, first served.

``python -m tests.benchmarks backlog``; ``BACKLOG=5000`` changes the number of jobs that wait at one time.
"""

import os
import random
import time

from softwalltime.core.jobs import CompletedJob, Submission
from softwalltime.measure.simulation.engine import simulate
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.simulated_jobs import Jobs, jobs_of

PROCESSORS = 256
WALLTIMES = (600, 1800, 3600, 7200, 14_400, 43_200, 86_400)
FORMULA = "(eligible_time + 3600) / predicted"
FIXED = "queue_priority * 1000 + ncpus"
POLICIES = (
    SchedulerPolicy(),
    SchedulerPolicy(backfill="sjbf"),
    *(SchedulerPolicy(order=order) for order in ("sjf", "xf", "wfp", "fairshare")),
    SchedulerPolicy(order="formula", formula=FIXED),
    SchedulerPolicy(order="formula", formula=FORMULA),
    SchedulerPolicy(backfill="pbs"),
    SchedulerPolicy(backfill="pbs", depth=4),
    SchedulerPolicy(backfill="pbs", strict_ordering=False),
    SchedulerPolicy(backfill="pbs", classes_by_value=True, waiting="v3"),
    SchedulerPolicy(backfill="pbs", order="sjf"),
    SchedulerPolicy(backfill="pbs", order="xf"),
    SchedulerPolicy(backfill="pbs", order="fairshare"),
    SchedulerPolicy(backfill="pbs", order="formula", formula=FORMULA),
    SchedulerPolicy(backfill="conservative"),
    # Jobs outlive their values, and reservations are made anew.
    SchedulerPolicy(backfill="conservative", waiting="v1"),
    SchedulerPolicy(backfill="conservative", order="xf"),
    SchedulerPolicy(backfill="slack", depth=300),
    SchedulerPolicy(backfill="slack", depth=300, order="xf"),
)


def main() -> None:
    """Schedule one backlog under each policy."""
    count = int(os.environ.get("BACKLOG", "20000"))
    jobs = backlog(count)
    print(f"{count:,} jobs on {PROCESSORS} processors\n")
    print(f"{'policy':60}  {'processor time':>14}  {'of fcfs+easy':>12}", flush=True)
    first = 0.0
    for policy in POLICIES:
        seconds = processor_seconds(jobs, policy)
        first = first or seconds
        print(f"{policy.name:60}  {seconds:12.2f} s  {seconds / first:12.1f}", flush=True)


def processor_seconds(jobs: Jobs, policy: SchedulerPolicy) -> float:
    """Simulate the jobs, and return the processor time: what else runs on the machine changes it little."""
    begin = time.process_time()
    simulate(jobs, PROCESSORS, policy)
    return time.process_time() - begin


def backlog(count: int) -> Jobs:
    """Jobs submitted one a second, of powers of two and mostly usual walltimes: nearly all wait at one time."""
    draw = random.Random(1)
    records = []
    for number in range(count):
        walltime = draw.choice(WALLTIMES) if draw.random() < 0.8 else draw.randrange(300, 86_400)
        runtime = max(1, int(walltime * draw.random() ** 2))
        size = min(PROCESSORS, 2 ** int(draw.triangular(0, 9, 1)))
        submission = Submission(str(number), f"user{draw.randrange(50)}", number, walltime, ncpus=size)
        records.append(CompletedJob(submission, "", number, number + runtime, runtime, exit_status=0))
    return jobs_of(records)


if __name__ == "__main__":
    main()
