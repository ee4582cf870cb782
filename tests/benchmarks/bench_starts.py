"""Start times: processor seconds for the point and for the ranges, by the number of waiting and running jobs.

Then the seconds on all cores of what-if, which simulates two states, with 5,000 waiting jobs, and the error of
forecasts with known runtimes on vnodes, one by one and as one pool.

``python -m tests.benchmarks starts``
"""

from dataclasses import replace
from time import perf_counter, process_time

import numpy as np

from softwalltime.core.jobs import Submission
from softwalltime.measure.forecast.comparison import FEWER_RUNS, compare
from softwalltime.measure.forecast.comparison import RUNS as MORE
from softwalltime.measure.forecast.queue_model import QueueModel, limit, model_of
from softwalltime.measure.forecast.runtimes import RuntimeDistribution, RuntimeModel
from softwalltime.measure.forecast.snapshot import (
    AdvanceReservation,
    LiveJob,
    SchedulerSettings,
    ServerSnapshot,
    VnodeState,
)
from softwalltime.measure.forecast.start_times import forecast
from softwalltime.measure.forecast.what_if import with_holds
from softwalltime.measure.simulation.policies import SOFT_WALLTIME, SchedulerPolicy
from softwalltime.measure.simulation.resources import Vnodes
from softwalltime.measure.simulation.simulated_jobs import jobs_of
from softwalltime.measure.workloads.synthetic import generate
from tests.benchmarks.markdown import table
from tests.forecast.states import placed_schedule, snapshot_at

SIZES = ((100, 100), (1000, 1000), (10_000, 1000), (100_000, 1000))
"""Waiting and running jobs."""
LIMITS = "[u:PBS_GENERIC=400],[u:user7=64],[o:PBS_ALL=100000]"
RANGES_UP_TO = 1000
"""Waiting jobs up to which ranges are measured."""
NOW = 1_800_000_000


def main() -> None:
    """Print a table."""
    rows = []
    for name, settings in SCHEDULERS.items():
        for waiting, running in SIZES[: None if name in LONG else -1]:
            snapshot = server(waiting, running, settings, name == RESERVED)
            snapshot = on_vnodes(snapshot) if name == VNODES else snapshot
            begin = process_time()
            model = model_of(snapshot).model
            built = process_time() - begin
            distributions = spread(model)
            point = seconds(model, distributions, 0)
            runs = model.affordable_runs()
            ranges = "-"
            if waiting <= RANGES_UP_TO:
                ranges = f"{seconds(model, distributions, runs):.1f} s"
            some = [
                f"{waiting:,}",
                f"{running:,}",
                f"{built:.2f} s",
                f"{point:.2f} s",
                f"{runs}",
                ranges,
            ]
            rows.append([name, *some])
    print(table(["scheduler", "waiting", "running", "model", "point", "runs", "ranges"], rows))
    compared = [
        [name, compared_seconds(settings, FEWER_RUNS), compared_seconds(settings, MORE) if name in LONG else "-"]
        for name, settings in SCHEDULERS.items()
    ]
    print(table(["what-if, 5,000 waiting, 500 running", f"{FEWER_RUNS} draws", f"{MORE} draws"], compared))
    print(table([f"{NODES} vnodes of {CORES}", "error / mean wait", "bias / mean wait"], errors()))


class EvenRuntimes(RuntimeModel):
    """Runtimes between what a job has run and its walltime."""

    def distribution(self, submission: Submission, limit: int, now: int, elapsed: int = 0) -> RuntimeDistribution:
        return RuntimeDistribution(np.linspace(elapsed + 1, limit, 50), "even")


def compared_seconds(settings: SchedulerSettings, runs: int) -> str:
    """Seconds of a comparison, in processes on all cores, whose states have the same size."""
    snapshot = server(5000, 500, settings)
    begin = perf_counter()
    states = [model_of(state, running=SOFT_WALLTIME) for state in (snapshot, with_holds(snapshot, {"700.srv"}))]
    compare(states[0], states[1], EvenRuntimes(None), "", runs, {})
    return f"{perf_counter() - begin:.0f} s"


LONG = ("arrival, depth 1", "arrival, depth 5")
"""Schedulers that are measured with the most jobs too."""
RESERVED = "limits and a reservation"
VNODES = "arrival, vnodes of 32"
NODES, CORES = 16, 8
"""Vnodes, and processors of each, of the machine on which forecasts are compared."""
SCHEDULERS = {
    "arrival, depth 1": SchedulerSettings(strict_ordering=True),
    "arrival, depth 5": SchedulerSettings(strict_ordering=True, backfill_depth=5),
    "formula, depth 1": SchedulerSettings(
        strict_ordering=True, eligible_time=True, formula="(eligible_time + 3600) / walltime"
    ),
    "limits for users": SchedulerSettings(strict_ordering=True, limits=(("max_run_res.ncpus", LIMITS),)),
    VNODES: SchedulerSettings(strict_ordering=True),
    RESERVED: SchedulerSettings(strict_ordering=True, limits=(("max_run", LIMITS),), backfill_depth=5),
}


def server(waiting: int, running: int, settings: SchedulerSettings, reserved: bool = False) -> ServerSnapshot:
    """A full machine: running jobs hold all but a few of its processors; a third of them is reserved 6 h from now."""
    random = np.random.default_rng(5)
    sizes = random.choice([1, 2, 4, 8, 16, 64], waiting + running, p=[0.3, 0.2, 0.2, 0.15, 0.1, 0.05])
    limits = random.choice([900, 3600, 7200, 14_400, 43_200, 86_400], waiting + running)
    used = random.uniform(0, 0.5, running)
    jobs = []
    for number, (size, walltime) in enumerate(zip(sizes.tolist(), limits.tolist(), strict=True)):
        submission = Submission(f"{number}.srv", f"user{number % 50}", NOW - 100_000, walltime, queue="q", ncpus=size)
        start = NOW - int(used[number] * walltime) if number < running else None
        jobs.append(LiveJob(submission, "Q" if start is None else "R", number, start=start))
    processors = int(sizes[:running].sum()) + 5
    window = AdvanceReservation("R1.srv", NOW + 6 * 3600, NOW + 9 * 3600, processors // 3, "RESV_CONFIRMED")
    vnodes = (VnodeState("n", "n", "free", processors),)
    return ServerSnapshot(
        NOW, "srv", "23", tuple(jobs), vnodes, (), (window,) if reserved else (), settings
    )  # fmt: skip


def on_vnodes(snapshot: ServerSnapshot, ncpus: int = 32) -> ServerSnapshot:
    """The server with its jobs on vnodes of this size; running jobs fill the first vnodes first."""
    free: list[int] = []
    jobs = []
    for job in snapshot.jobs:
        count, size = max((job.submission.ncpus or 1) // ncpus, 1), min(job.submission.ncpus or 1, ncpus)
        held = []
        for _ in range(count if job.occupies else 0):
            vnode = next((vnode for vnode, left in enumerate(free) if left >= size), len(free))
            free += [ncpus] * (vnode == len(free))
            free[vnode] -= size
            held.append(f"(n{vnode}:ncpus={size})")
        submission = replace(job.submission, select=f"{count}:ncpus={size}", nodect=count)
        jobs.append(replace(job, submission=submission, exec_vnode="+".join(held)))
    vnodes = [VnodeState(f"n{number}", f"n{number}", "free", ncpus) for number in range(len(free))]
    return replace(snapshot, jobs=tuple(jobs), vnodes=tuple(vnodes))


def errors() -> list[list[str]]:
    """The errors of forecasts for the jobs that wait at 60 moments of a schedule on vnodes, by known runtimes."""
    kinds = (Vnodes(NODES, CORES),)
    jobs, _ = jobs_of(generate(6000, seed=3, processors=NODES * CORES), vnodes=kinds).that_fit(NODES * CORES)
    start, placed = placed_schedule(jobs, NODES * CORES, SchedulerPolicy(backfill="pbs", vnodes=kinds))
    waits, differences = [], dict[str, list[int]]()
    for now in np.quantile(jobs.submitted, np.linspace(0.1, 0.9, 60)).astype(np.int64).tolist():
        snapshot, numbers = snapshot_at(now, jobs, start, placed, [CORES] * NODES)
        queue = model_of(snapshot)
        order = [numbers[job_id] for job_id in queue.ids]
        waits += (start[order] - now)[queue.model.running :].tolist()
        for name, model in (("one by one", queue.model), ("one pool", replace(queue.model, vnodes=()))):
            expected = model.run([jobs.runtime[number] for number in order]).start
            differences.setdefault(name, []).extend((expected - start[order])[queue.model.running :].tolist())
    mean = np.mean(waits)
    return [
        [name, f"{np.abs(some).mean() / mean:.1%}", f"{np.mean(some) / mean:+.1%}"]
        for name, some in differences.items()
    ]


def spread(model: QueueModel) -> list[RuntimeDistribution]:
    """Runtimes between what a job has run and its walltime."""
    return [
        RuntimeDistribution(np.linspace(model.elapsed(index) + 1, limit(job.submission), 50), "even")
        for index, job in enumerate(model.jobs.completed)
    ]


def seconds(model: QueueModel, distributions: list[RuntimeDistribution], runs: int) -> float:
    """Seconds of one forecast."""
    begin = process_time()
    forecast(model, distributions, runs)
    return process_time() - begin


if __name__ == "__main__":
    main()
