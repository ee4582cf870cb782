"""Shadow predictors: how long the hook waits for answers of a daemon with and without them, in turn.

``python -m tests.benchmarks shadows``
"""

import time
from contextlib import ExitStack
from statistics import quantiles

from softwalltime.service.client import ask
from softwalltime.text_table import table
from softwalltime.workloads.synthetic import generate
from tests.benchmarks.bench_daemon import exchange, request
from tests.benchmarks.serving import Serving, serving
from tests.benchmarks.workload import empty_store, scratch_folder
from tests.store.stored import add_jobs

JOBS, ROUNDS, REQUESTS = 20_000, 20, 100
POLICY = 'mode = "on"\nwaiting = "percentile"\nrunning = "walltime"\n'
SHADOWS = '["v3", "percentile:p=95", "calibrated"]'
PAUSES = {"without pause": 0.0, "50 a second": 0.02}
"""Seconds between two requests."""


def main() -> None:
    """Ask both daemons in turn."""
    jobs = generate(JOBS, users=200, processors=4096)
    lines = [request(job.submission) for job in jobs[-REQUESTS:]]
    with scratch_folder() as folder, empty_store(folder) as (dsn, engine), ExitStack() as stack:
        with engine.begin() as connection:
            add_jobs(connection, jobs)
        engine.dispose()
        daemons: dict[str, Serving] = {}
        for name, more in (("without", ""), ("with three", f"shadows = {SHADOWS}\n")):
            own = folder / name.replace(" ", "-")
            own.mkdir()
            daemons[name] = stack.enter_context(serving(own, dsn, POLICY + more))
        rows = []
        for pace, pause in PAUSES.items():
            times: dict[str, list[float]] = {name: [] for name in daemons}
            for _ in range(ROUNDS):
                for name, daemon in daemons.items():
                    times[name] += _times(daemon, lines, pause)
            rows += [[pace, name, *_figures(found)] for name, found in times.items()]
        skipped = ask(daemons["with three"].socket, {"op": "status"})["shadows_skipped"]
    print(table(["requests", "shadow predictors", "p50, ms", "p99, ms", "slowest, ms"], rows))
    print(f"\n{skipped:,} of {len(PAUSES) * ROUNDS * REQUESTS:,} decisions were stored without shadow predictors")


def _times(daemon: Serving, lines: list[bytes], pause: float) -> list[float]:
    found = []
    for line in lines:
        begin = time.perf_counter()
        exchange(str(daemon.socket), line)
        found.append(time.perf_counter() - begin)
        time.sleep(pause)
    return found


def _figures(times: list[float]) -> list[str]:
    percentiles = quantiles(times, n=100)
    return [f"{1000 * seconds:.3f}" for seconds in (percentiles[49], percentiles[98], max(times))]
