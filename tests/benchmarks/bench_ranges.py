"""How many starts lie in the 90% ranges of what-if, on queues of recorded traces at random times.

The first 9,000 jobs of a trace are simulated, first come, first served with EASY.  At each of 60 times the runtimes are
learnt from the jobs that have ended, and the queue goes on with the recorded runtimes and no later job, as what-if
assumes.  Starts that are certain do not count.  The package's weights were trained on KTH-SP2, not on SDSC-SP2.

``python -m tests.benchmarks ranges``
"""

from dataclasses import replace
from itertools import islice

import numpy as np

from softwalltime.accounting.reader import read_values
from softwalltime.accounting.tally import Tally
from softwalltime.measure.forecast.comparison import FEWER_RUNS, RUNS, range_of
from softwalltime.measure.forecast.defaults import PREDICTOR
from softwalltime.measure.forecast.learning import learn_history, note_live
from softwalltime.measure.forecast.queue_model import model_of
from softwalltime.measure.forecast.recorded_queue import ended_by, recorded_queue
from softwalltime.measure.forecast.runtimes import RuntimeModel, samples
from softwalltime.measure.forecast.snapshot import SchedulerSettings, ServerSnapshot, VnodeState
from softwalltime.measure.forecast.start_times import distributions_of, outcomes
from softwalltime.measure.replay.job_columns import JobColumns
from softwalltime.measure.simulation.engine import simulate
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.simulated_jobs import Integers, jobs_of
from softwalltime.predict.predictors.registry import make
from tests.benchmarks.markdown import table
from tests.traces import TRACES

PROCESSORS = {"KTH": 100, "SDSC": 128}
"""Sizes of the machines, by the beginning of a trace's name."""
JOBS, QUEUES, MIN_WAITING = 9000, 60, 8


def main() -> None:
    """Print the share in the range for both numbers of draws, and its standard error over the queues."""
    rows = []
    for name, processors in PROCESSORS.items():
        for path in sorted(TRACES.glob(f"{name}*.swf.gz")):
            log = _simulated(JobColumns.of(islice(read_values([path], Tally()), JOBS)), processors)
            judged = [_judge(log, now, processors) for now in _times(log)]
            correlation = np.mean([found for found, _ in judged])
            held = np.array([shares for _, shares in judged])
            error = held.std(axis=0) / np.sqrt(len(held))
            cells = [f"{share:.1%} ± {one:.1%}" for share, one in zip(held.mean(axis=0), error, strict=True)]
            rows.append([name, f"{len(judged)}", f"{correlation:.2f}", *cells])
    print(table(["trace", "queues", "correlation", f"{RUNS} draws", f"{FEWER_RUNS} draws"], rows))


def _simulated(completed: JobColumns, processors: int) -> JobColumns:
    jobs, _ = jobs_of(completed).that_fit(processors)
    schedule = simulate(jobs, processors, SchedulerPolicy())
    columns = zip(jobs.completed, schedule.start.tolist(), schedule.duration.tolist(), strict=True)
    return JobColumns.of(
        replace(job, start=start, end=start + seconds, runtime=seconds, etime=None) for job, start, seconds in columns
    )


def _times(log: JobColumns) -> list[int]:
    """Return times after the first quarter of the log at which some jobs wait."""
    submitted, start = log.numbers("submitted"), log.numbers("start")
    tried = np.random.default_rng(1).integers(submitted[len(log) // 4], submitted[-1], 50 * QUEUES).tolist()
    return [now for now in tried if ((submitted <= now) & (start > now)).sum() >= MIN_WAITING][:QUEUES]


def _judge(log: JobColumns, now: int, processors: int) -> tuple[float, list[float]]:
    """Return the estimated correlation, and the share of the starts in their ranges for each number of draws."""
    settings = SchedulerSettings(strict_ordering=True)
    server = ServerSnapshot(now, "", "", (), (VnodeState("n", "n", "free", processors),), (), (), settings)
    snapshot = recorded_queue(log, now, server)
    queue = model_of(snapshot)
    runtimes = RuntimeModel(make(PREDICTOR))
    learn_history(runtimes, ended_by(log, now), now, correlate=True)
    note_live(runtimes, snapshot.jobs)
    predicted, correlation = distributions_of(queue, runtimes), runtimes.user_correlation
    recorded = dict(log.rows("job_id", "runtime"))
    drawn = samples(predicted, list(queue.model.jobs.completed.values("user")), RUNS, 0, correlation)
    happened = np.array([[recorded[job.submission.job_id] for job in queue.live]], np.float64)
    first = queue.model.running
    (start,), draws = (
        np.array([outcome.start[first:] for outcome in outcomes(queue.model, seconds)]) for seconds in (happened, drawn)
    )
    return correlation, [_held(start, draws[:runs]) for runs in (RUNS, FEWER_RUNS)]


def _held(start: Integers, draws: Integers) -> float:
    low, high = range_of(draws)
    return float(((low <= start) & (start <= high))[low < high].mean())
