"""Start times: processor seconds for the point and for the ranges, by the number of waiting and running jobs.

Then the seconds on all cores of what-if, which simulates two states, with 5,000 waiting jobs.

``python -m tests.benchmarks starts``
"""

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
from softwalltime.measure.simulation.policies import SOFT_WALLTIME
from tests.benchmarks.markdown import table

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
SCHEDULERS = {
    "arrival, depth 1": SchedulerSettings(strict_ordering=True),
    "arrival, depth 5": SchedulerSettings(strict_ordering=True, backfill_depth=5),
    "formula, depth 1": SchedulerSettings(
        strict_ordering=True, eligible_time=True, formula="(eligible_time + 3600) / walltime"
    ),
    "limits for users": SchedulerSettings(strict_ordering=True, limits=(("max_run_res.ncpus", LIMITS),)),
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
