"""The workload generator: seconds for ten thousand jobs."""

import time

from softwalltime.measure.workloads.synthetic import generate

JOBS = 10_000
WANTED = 1.5
"""Seconds that they may take at most."""
RUNS = 5


def main() -> None:
    """Generate them some times; the best run counts."""
    seconds = []
    for seed in range(RUNS):
        begin = time.perf_counter()
        generate(JOBS, seed=seed)
        seconds.append(time.perf_counter() - begin)
    print(f"{JOBS:,} jobs: {min(seconds):.2f} s, wanted: {WANTED:g} s at most")
