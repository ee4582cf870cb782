"""The simulator: seconds in the engine on recorded traces, beside AccaSim where it is; the cost of vnodes and queues.

``python -m tests.benchmarks simulate``

AccaSim 1.1.3 (Galleguillos, Kiziltan, Netti & Soto 2019) needs an environment of its own::

    python3 -m venv /tmp/accasim && /tmp/accasim/bin/pip install accasim==1.1.3
    ACCASIM_PYTHON=/tmp/accasim/bin/python python -m tests.benchmarks simulate
"""

import json
import os
import re
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median

from softwalltime.accounting.reader import read_jobs
from softwalltime.accounting.tally import Tally
from softwalltime.core.jobs import CompletedJob, Submission
from softwalltime.measure.simulation.engine import simulate
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.resources import Vnodes
from softwalltime.measure.simulation.simulated_jobs import Jobs, jobs_of
from softwalltime.measure.workloads.synthetic import generate
from softwalltime.reports.candidates import preset_policies
from tests.benchmarks.markdown import table
from tests.traces import TRACES

RUNS = 3
MACHINES = {"KTH-SP2-1996-unfiltered": 100, "SDSC-SP2-1998-4.2-cln": 128, "CEA-Curie-2011-2.1-cln": 93_312}
POLICIES = (
    SchedulerPolicy(),
    SchedulerPolicy(waiting="v3"),
    SchedulerPolicy(backfill="sjbf", waiting="v3"),
    SchedulerPolicy(order="wfp"),
    SchedulerPolicy(order="xf", ordering="v3", waiting="v3"),
)
PLACED_BY = ("today", "balanced")
"""Policies that place jobs on vnodes, as ``policy compare`` simulates them."""
VNODES = (16, 128)
"""Numbers of processors that a vnode has."""
PLACED = 20_000
"""Number of the last jobs of the trace that are placed on vnodes."""
LENGTHS = (500, 1000, 2000, 4000)

# AccaSim 1.1.3 was written for an older Python: it takes abstract classes from where they no longer are.
ACCASIM = """
import collections, collections.abc, sys, time
for name in ("Mapping", "MutableMapping", "Iterable", "Sequence", "Callable", "Hashable"):
    setattr(collections, name, getattr(collections.abc, name))
from accasim.base.allocator_class import FirstFit
from accasim.base.scheduler_class import EASYBackfilling
from accasim.base.simulator_class import Simulator
simulator = Simulator(sys.argv[1], sys.argv[2], EASYBackfilling(FirstFit()))
begin = time.perf_counter()
simulator.start_simulation()
print("SECONDS", time.perf_counter() - begin)
"""
SYSTEM = {
    "groups": {"g0": {"core": 1, "mem": 1_000_000}},
    "equivalence": {"processor": {"core": 1}},
    "start_time": 0,
}


def main() -> None:
    """Traces and policies; AccaSim; queues of growing length."""
    rows = []
    for name, processors in workloads():
        jobs, _ = load(name).that_fit(processors)
        # Interleaved, so that a busy moment of the machine hits all alike.
        runs = [[simulate(jobs, processors, policy).seconds for policy in POLICIES] for _ in range(RUNS)]
        for policy, seconds in zip(POLICIES, zip(*runs, strict=True), strict=True):
            best = min(seconds)
            ratio = median(one / run[0] for one, run in zip(seconds, runs, strict=True))
            rows.append(
                [name, policy.name, f"{len(jobs):,}", f"{best:.2f} s", f"{len(jobs) / best:,.0f}", f"{ratio:.2f}"]
            )
    print(table(["trace", "policy", "jobs", "in the engine", "jobs/s", "of fcfs+easy"], rows))
    accasim()
    vnodes()
    queues()


def workloads() -> list[tuple[str, int]]:
    """The traces that are there, or a synthetic workload."""
    return [pair for pair in MACHINES.items() if (TRACES / f"{pair[0]}.swf.gz").exists()] or [("synthetic", 128)]


def load(name: str) -> Jobs:
    """The jobs of a trace."""
    path = TRACES / f"{name}.swf.gz"
    return jobs_of(list(read_jobs([path], Tally())) if path.exists() else generate(30_000, seed=1))


def accasim() -> None:
    """KTH-SP2 with EASY in AccaSim and here, one after the other."""
    python = os.environ.get("ACCASIM_PYTHON")
    if python is None or not (TRACES / "KTH-SP2-1996-unfiltered.swf.gz").exists():
        print("\nAccaSim: not measured, because ACCASIM_PYTHON is not set or the trace is missing")
        return
    jobs = load("KTH-SP2-1996-unfiltered")
    with tempfile.TemporaryDirectory() as scratch:
        trace, system, script = (Path(scratch) / name for name in ("kth.swf", "system.json", "run.py"))
        trace.write_text("".join(map(swf, jobs.completed)))
        system.write_text(json.dumps({**SYSTEM, "resources": {"g0": 100}}))
        script.write_text(ACCASIM)
        done = subprocess.run([python, script, trace, system], cwd=scratch, capture_output=True, text=True, check=False)
    found = re.search(r"SECONDS ([\d.]+)", done.stdout)
    if found is None:
        print(f"\nAccaSim: failed: {done.stderr.strip().splitlines()[-1:]}")
        return
    here = simulate(jobs, 100, SchedulerPolicy()).seconds
    theirs = float(found[1])
    print(f"\nKTH-SP2 with EASY: AccaSim {theirs:.1f} s, here {here:.2f} s: {theirs / here:.0f} times as fast")


def swf(job: CompletedJob) -> str:
    """A job as a line of SWF; AccaSim wants some memory for each."""
    asked = job.submission
    fields = [
        asked.job_id, asked.submitted, -1, job.runtime, asked.ncpus, -1, 1, asked.ncpus, asked.walltime, 1, 1,
        1, 1, 1, 1, 1, -1, -1,
    ]  # fmt: skip
    return " ".join(map(str, fields)) + "\n"


def vnodes() -> None:
    """The last trace, whose jobs ask for chunks, on one pool of processors and on vnodes."""
    name, processors = workloads()[-1]
    last = list(load(name).completed)[-PLACED:]
    machines: dict[str, tuple[Jobs, tuple[Vnodes, ...]]] = {"one pool": (jobs_of(last), ())}
    for size in VNODES:
        kinds = (Vnodes(processors // size, size),)
        chunked = [replace(job, submission=in_chunks(job.submission, size)) for job in last]
        machines[f"{processors // size:,} vnodes of {size}"] = jobs_of(chunked, vnodes=kinds), kinds
    rows, policies = [], preset_policies()
    for policy in PLACED_BY:
        costs = {
            machine: simulate(jobs, processors, replace(policies[policy], vnodes=kinds)).seconds
            for machine, (jobs, kinds) in machines.items()
        }
        rows += [
            [policy, machine, f"{len(last) / seconds:,.0f}", f"{seconds / costs['one pool']:.1f}"]
            for machine, seconds in costs.items()
        ]
    print(f"\n{table([f'{name}, {len(last):,} jobs', 'machine', 'jobs/s', 'time, of one pool'], rows)}")


def in_chunks(asked: Submission, size: int) -> Submission:
    """Return the job with a chunk for each whole vnode, and one for the rest of its processors."""
    whole, rest = divmod(asked.ncpus or 1, size)
    chunks = [f"{whole}:ncpus={size}"] * bool(whole) + [f"1:ncpus={rest}"] * bool(rest)
    return replace(asked, select="+".join(chunks), nodect=whole + bool(rest))


def queues() -> None:
    """Microseconds a pass against the length of the queue; a pass quadratic in it would grow by the square."""
    rows = []
    for policy in (
        SchedulerPolicy(),
        SchedulerPolicy(backfill="sjbf"),
        SchedulerPolicy(order="wfp"),
        SchedulerPolicy(backfill="pbs"),
    ):
        costs = [cost(length, policy) for length in LENGTHS]
        rows.append([policy.name, *(f"{seconds * 1e6:,.0f} us" for seconds in costs), f"{costs[-1] / costs[0]:.1f}"])
    times = LENGTHS[-1] // LENGTHS[0]
    print(f"\n{table(['a pass', *(f'{length:,} waiting' for length in LENGTHS), f'growth, {times}x'], rows)}")


def cost(length: int, policy: SchedulerPolicy) -> float:
    """Seconds a pass while a queue of that length is worked off one job at a time, so half as many wait on average.

    Each job needs more than half of the machine, so every pass looks at all that wait and starts none.
    """
    records = [record(index, 10, 1000 + index % 97, 100_000 + 60 * (index % 97), 600) for index in range(length)]
    return simulate(jobs_of(records), 1000, policy).seconds / (length + 1)


def record(number: int, submitted: int, runtime: int, walltime: int, size: int) -> CompletedJob:
    """A job."""
    submission = Submission(str(number), f"user{number % 50}", submitted, walltime, ncpus=size)
    return CompletedJob(submission, "", submitted, submitted + runtime, runtime, exit_status=0)


if __name__ == "__main__":
    main()
