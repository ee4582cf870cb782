"""What an attribute that is no feature of calibrated would add to its distributions.

The place of each runtime among 20 equally likely ranges of its distribution is counted by the attribute's value over
the first half of the log.  The gain is the mean log likelihood of the places in the second half by these counts,
against counts of all jobs: 0 if the attribute tells nothing that the distribution does not hold already.  A random
attribute with the same values shows how far from 0 chance gets.

SOFTWALLTIME_TEST_LOGS names logs in place of the recorded traces, separated by colons; SOFTWALLTIME_TEST_WEIGHTS as
in :mod:`.held_out_weights`.  Before that it prints what scripts add on generated workloads (see :mod:`.bench_scripts`).
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from softwalltime.accounting.folders import find_logs
from softwalltime.accounting.reader import read_jobs
from softwalltime.accounting.tally import Tally
from softwalltime.core.events import Kind
from softwalltime.core.jobs import CompletedJob, Prediction
from softwalltime.measure.benchmark.entry import LEVELS
from softwalltime.measure.benchmark.protocol import LEFT_OUT_S
from softwalltime.measure.replay.workload import Workload, event_of
from softwalltime.predict.predictors.registry import make
from tests.benchmarks import bench_scripts
from tests.benchmarks.held_out_weights import held_out
from tests.benchmarks.markdown import table
from tests.traces import TRACES

HEADER = ("attribute", "values", "gain, nats per job", "random")
RANGES = len(LEVELS) + 1
PRIOR = 50.0
"""Jobs that the counts of all jobs count for in each value's."""

Last = CompletedJob | None
"""The user's job that ended last before a submission."""

ATTRIBUTES: dict[str, Callable[[CompletedJob, Last], object]] = {
    "exit status of the user's last job": lambda _, last: last and last.exit_status,
    "how the user's last job ended": lambda _, last: last and last.state,
    "the user's last job died within 60 s": lambda _, last: last and last.runtime < 60,
    "index in the job array": lambda job, _: len(job.submission.job_id.partition("[")[2]),
    "interactive": lambda job, _: job.submission.interactive,
    "account": lambda job, _: job.submission.account,
    "memory requested, by powers of 2": lambda job, _: (job.submission.mem or 0).bit_length(),
    "GPUs": lambda job, _: job.submission.ngpus,
    "placement": lambda job, _: job.submission.place,
}


def main() -> None:
    """Print a table for each log; attributes that have one value only are left out."""
    bench_scripts.main()
    folder = Path(os.environ.get("SOFTWALLTIME_TEST_WEIGHTS", "/nonexistent"))
    named = os.environ.get("SOFTWALLTIME_TEST_LOGS")
    for source in map(Path, named.split(":")) if named else sorted(TRACES.glob("*.swf.gz")):
        for weights in held_out(source.name, folder):
            print(f"{source.name}, {Path(weights).name}\n")
            print(_table(Workload(list(read_jobs(find_logs([source]).files, Tally()))), weights), flush=True)


def _table(workload: Workload, weights: str) -> str:
    places, lasts = _places(workload, weights)
    scored = workload.scored & (workload.submitted >= workload.submitted[0] + LEFT_OUT_S)
    chosen = np.flatnonzero(scored)
    random = np.random.default_rng(1)
    rows = []
    for name, attribute in ATTRIBUTES.items():
        found = [str(attribute(workload.jobs[job], lasts[job])) for job in chosen.tolist()]
        values, numbers = np.unique(found, return_inverse=True)
        if len(values) > 1:
            gains = (_gain(places[chosen], each) for each in (numbers, random.permutation(numbers)))
            rows.append([name, f"{len(values):,}", *(f"{gain:+.4f}" for gain in gains)])
    return table(HEADER, rows)


def _places(workload: Workload, weights: str) -> tuple[NDArray[np.int64], Sequence[Last]]:
    """Return the range of each job's runtime in its distribution, and the user's last job to end before."""
    model = make(f"calibrated:weights={weights}")
    random = np.random.default_rng(0)
    places = np.zeros(len(workload.jobs), np.int64)
    lasts: list[Last] = [None] * len(places)
    newest: dict[str, CompletedJob] = {}
    for stride in workload.stream(everything=True):
        for kind, number, job, now, _ in zip(*stride, strict=True):
            user = job.submission.user
            if kind == Kind.SUBMITTED:
                lasts[number] = newest.get(user)
                answer = model.predict(job.submission, job.submission.submitted)
                if isinstance(answer, Prediction):
                    ranges = np.array(answer.quantiles(LEVELS))
                    runtime = min(job.runtime, job.submission.walltime or job.runtime)
                    # Several quantiles may be equal, for example the walltime.
                    first, last = (int(np.searchsorted(ranges, runtime, side)) for side in ("left", "right"))
                    places[number] = random.integers(first, last + 1)
            model.observe(event_of(kind, now, job))
            if kind == Kind.ENDED:
                newest[user] = job
                if workload.teaches[number]:
                    model.learn(job)
    return places, lasts


def _gain(places: NDArray[np.int64], values: NDArray[np.int64]) -> float:
    half = len(places) // 2
    everybody = np.bincount(places[:half], minlength=RANGES) + 1.0
    everybody /= everybody.sum()
    counts = np.tile(PRIOR * everybody, (values.max() + 1, 1))
    np.add.at(counts, (values[:half], places[:half]), 1.0)
    shares = counts / counts.sum(axis=1, keepdims=True)
    return float(np.log(shares[values[half:], places[half:]] / everybody[places[half:]]).mean())
