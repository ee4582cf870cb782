"""The daemon with 1,000,000 jobs of 1,000 users in its store: its start, its memory, and how fast it answers, also
while others ask for its metrics as often as they can, and while its process forecasts starts without pause.

For the latter the process is stopped and continued again and again, so that load of other programs meets both.

All of the jobs ended in the last 29 days, so that the percentile learns and keeps every one: the worst that can be.
"""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from statistics import quantiles
from typing import Any
from urllib.request import urlopen

from sqlalchemy import Engine

from softwalltime.forecast.snapshot import SchedulerSettings
from softwalltime.jobs import Submission
from softwalltime.service.client import ask
from softwalltime.text_table import table
from softwalltime.workloads.synthetic import generate
from tests.benchmarks.bench_starts import server as full_server
from tests.benchmarks.serving import Serving, serving
from tests.benchmarks.workload import empty_store, scratch_folder
from tests.live.emulated import EmulatedServer, agent_at
from tests.store.stored import add_jobs

JOBS, USERS = 1_000_000, 1000
CLIENTS, REQUESTS = 8, 3000
WAITING, RUNNING = 1000, 1000
"""Jobs of the server for which starts are forecast."""
ROUNDS = 8
"""Times that answers are measured without and with forecasts."""
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
        with forecasting(folder, dsn, policy) as daemon:
            rows += answers_while_forecasting(daemon, jobs)
    print(table([f"{JOBS:,} jobs of {USERS:,} users in the store", "figure"], rows))


def fill(engine: Engine) -> list[Submission]:
    """Store the jobs; return some of them for requests."""
    jobs = generate(JOBS, users=USERS, processors=4096)
    begin, end = min(job.end for job in jobs), max(job.end for job in jobs)
    now, shrunk = int(time.time()), 29 * 86400 / (end - begin)
    jobs = [replace(job, end=now - int((end - job.end) * shrunk)) for job in jobs]
    for first in range(0, JOBS, 20_000):
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


@contextmanager
def forecasting(folder: Path, dsn: str, policy: str) -> Iterator[Serving]:
    """The daemon with forecasts of 1,000 waiting jobs beside 1,000 running ones, made one after the other."""
    server = EmulatedServer(folder)
    snapshot = full_server(WAITING, RUNNING, SchedulerSettings(strict_ordering=True))
    server.fill(snapshot.jobs)
    # So many runs take longer than the interval.
    starts = '[starts]\nmode = "on"\nevery = 10\nruns = 10000\npredictor = "v1"\n'
    with (
        agent_at(folder / "agent.sock", server, processors=snapshot.vnodes[0].ncpus) as agent,
        serving(folder, dsn, f'{policy}{starts}agent = "{agent}"\n') as daemon,
    ):
        yield daemon


def answers_while_forecasting(daemon: Serving, jobs: list[Submission]) -> list[list[str]]:
    """How long one client waits while the process that forecasts is stopped, and while it works."""
    process = forecaster(daemon)
    lines = [request(job) for job in jobs]
    times: dict[bool, list[float]] = {False: [], True: []}
    for round_ in range(2 * ROUNDS):
        working = round_ % 2 == 1
        os.kill(process, signal.SIGCONT if working else signal.SIGSTOP)
        times[working] += exchanges(daemon.socket, lines[: len(lines) // 2])[0]
    os.kill(process, signal.SIGCONT)
    state = ask(daemon.socket, {"op": "status"})["starts"]
    with_, without = (quantiles(times[each], n=100)[98] for each in (True, False))
    return [
        *in_words("answer, forecasts stopped", times[False]),
        *in_words("answer, forecasts made", times[True]),
        ["p99 while forecasts are made, over p99 without", f"{with_ / without:.2f}"],
        ["problem of the forecasts", state["problem"] or "none"],
    ]


def forecaster(daemon: Serving) -> int:
    """The process that forecasts, once it has been at work for a while."""
    pid = ask(daemon.socket, {"op": "status"})["pid"]
    while True:
        listed = subprocess.run(["ps", "--ppid", str(pid), "-o", "pid=,time=,args="], capture_output=True, text=True)
        for line in listed.stdout.splitlines():
            if "start_process" in line and "learnt" in daemon.output.read_text().rpartition("starts:")[2]:
                return int(line.split()[0])
        time.sleep(0.2)


def scrape(address: str, pages: Any) -> None:
    """Ask for the metrics for ever."""
    while True:
        with urlopen(address, timeout=60) as answer:
            answer.read()
        with pages.get_lock():
            pages.value += 1


def exchanges(path: Path, lines: list[bytes]) -> tuple[list[float], int]:
    """Seconds that each answer took, and how many of them set a soft walltime."""
    times = []
    predicted = 0
    for line in lines:
        begin = time.perf_counter()
        answer = exchange(str(path), line)
        times.append(time.perf_counter() - begin)
        predicted += b'"set"' in answer
    return times, predicted


def in_words(what: str, times: list[float]) -> list[list[str]]:
    """Rows of the table for how long something took, seconds."""
    percentiles = quantiles(times, n=100)
    figures = {"p50": percentiles[49], "p99": percentiles[98], "slowest": max(times)}
    return [[f"{what}, {name}", f"{seconds * 1000:.3f} ms"] for name, seconds in figures.items()]
