"""The daemon with 1,000,000 jobs of 1,000 users in its store: its start, its memory, and how fast it answers, also
while others ask for its metrics as often as they can.

All of the jobs ended in the last 29 days, so that the percentile learns and keeps every one: the worst that can be.
"""

import json
import socket
import time
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from statistics import quantiles
from typing import Any
from urllib.request import urlopen

from sqlalchemy import Engine

from softwalltime.core.jobs import Submission
from softwalltime.measure.workloads.synthetic import generate
from tests.benchmarks.markdown import table
from tests.benchmarks.serving import serving
from tests.benchmarks.workload import empty_store, scratch_folder
from tests.store.stored import add_jobs

JOBS, USERS = 1_000_000, 1000
CLIENTS, REQUESTS = 8, 3000
SCRAPERS = 4
"""Processes that ask for the metrics again and again."""


def main() -> None:
    """Fill a store, start the daemon on it, ask."""
    with scratch_folder() as folder, empty_store(folder) as (dsn, engine):
        jobs = fill(engine)
        policy = 'mode = "on"\nwaiting = "percentile"\nrunning = "v3"\n'
        with serving(folder, dsn, policy, 'metrics = "127.0.0.1:0"\n') as daemon:
            rows = [
                ["start, until it has learnt the history", f"{daemon.start:.1f} s"],
                ["jobs learnt", f"{daemon.learnt:,}"],
                ["memory", f"{daemon.megabytes:.0f} MB"],
            ]
            rows += answers(daemon.socket, jobs)
            told = daemon.output.read_text().partition("metrics at ")[2].split()[0]
            rows += answers_while_scraped(daemon.socket, jobs, told)
    print(table([f"{JOBS:,} jobs of {USERS:,} users in the store", "figure"], rows))


def fill(engine: Engine, count: int = JOBS) -> list[Submission]:
    """Store the jobs; return some of them for requests."""
    jobs = generate(count, users=USERS, processors=4096)
    begin, end = min(job.end for job in jobs), max(job.end for job in jobs)
    now, shrunk = int(time.time()), 29 * 86400 / (end - begin)
    jobs = [replace(job, end=now - int((end - job.end) * shrunk)) for job in jobs]
    for first in range(0, count, 20_000):
        with engine.begin() as connection:
            add_jobs(connection, jobs[first : first + 20_000])
    engine.dispose()
    return [job.submission for job in jobs[-10_000:]]


def request(asked: Submission) -> bytes:
    """Return the hook's request about such a job."""
    job = {
        "job_id": "", "user": asked.user, "group": asked.group, "project": asked.project, "queue": "", "mem": "16gb",
        "job_name": asked.job_name, "walltime": asked.walltime, "ncpus": asked.ncpus, "nodect": asked.nodect,
        "select": asked.select, "place": asked.place,
    }  # fmt: skip
    return json.dumps({"v": 1, "op": "predict", "event": "queuejob", "now": int(time.time()), "job": job}).encode()


def exchange(path: str, line: bytes) -> bytes:
    """One question and its answer, as the hook does it."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        client.sendall(line + b"\n")
        return client.recv(65536)


def client(path: str, lines: list[bytes]) -> None:
    """One of several clients."""
    for line in lines:
        exchange(path, line)


def answers(path: Path, jobs: list[Submission]) -> list[list[str]]:
    """How long one client waits, and how many requests several get through."""
    lines = [request(job) for job in jobs]
    times, predicted = exchanges(path, lines)
    context = get_context("fork")
    clients = [context.Process(target=client, args=(str(path), lines[:REQUESTS])) for _ in range(CLIENTS)]
    begin = time.perf_counter()
    for each in clients:
        each.start()
    for each in clients:
        each.join()
    rate = CLIENTS * REQUESTS / (time.perf_counter() - begin)
    return [
        *in_words("answer", times),
        ["answers that set a soft walltime", f"{predicted / len(lines):.0%}"],
        [f"requests from {CLIENTS} clients", f"{rate:,.0f} a second"],
    ]


def answers_while_scraped(path: Path, jobs: list[Submission], metrics: str) -> list[list[str]]:
    """The same for one client, while others ask for the metrics as often as they can."""
    context = get_context("fork")
    pages = context.Value("i", 0)
    scrapers = [context.Process(target=scrape, args=(metrics, pages), daemon=True) for _ in range(SCRAPERS)]
    for each in scrapers:
        each.start()
    while pages.value < SCRAPERS:
        time.sleep(0.01)
    first, begin = pages.value, time.perf_counter()
    times, _ = exchanges(path, [request(job) for job in jobs])
    rate = (pages.value - first) / (time.perf_counter() - begin)
    for each in scrapers:
        each.kill()
    return [
        [f"pages of metrics served to {SCRAPERS} who ask without pause", f"{rate:.0f} a second"],
        *in_words("answer meanwhile", times),
    ]


def scrape(address: str, pages: Any) -> None:
    """Ask for the metrics for ever."""
    while True:
        with urlopen(address, timeout=60) as answer:
            answer.read()
        with pages.get_lock():
            pages.value += 1


def exchanges(path: Path, lines: list[bytes], pause: float = 0.0) -> tuple[list[float], int]:
    """Seconds that each answer took, and how many of them set a soft walltime.

    :param pause: seconds between an answer and the next question.
    """
    times = []
    predicted = 0
    for line in lines:
        begin = time.perf_counter()
        answer = exchange(str(path), line)
        times.append(time.perf_counter() - begin)
        predicted += b'"set"' in answer
        if pause:
            time.sleep(pause)
    return times, predicted


def in_words(what: str, times: list[float]) -> list[list[str]]:
    """Rows of the table for how long something took, seconds."""
    percentiles = quantiles(times, n=100)
    figures = {"p50": percentiles[49], "p99": percentiles[98], "slowest": max(times)}
    return [[f"{what}, {name}", f"{seconds * 1000:.3f} ms"] for name, seconds in figures.items()]
