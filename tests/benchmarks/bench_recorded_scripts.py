"""What recorded scripts add to predictions on a real PBS server: sleeping jobs of three users with four scripts each.

All scripts of a user have the same name and walltime; each sleeps for a time of its own, from 2 to 30 s, times a
factor from 0.7 to 1.4 that differs from job to job.  The users take their scripts in bursts of one to five jobs.  The
jobs run on the server that SOFTWALLTIME_TEST_PBS names (see tests/acceptance/lab.py), with the hook and the daemon,
which reads PBS's records about them.  Then the jobs are read from the daemon's store and replayed, as they were
recorded and without scripts.  Prices are corrected a day after a job's end, so here the median is measured.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from sqlalchemy import Engine, text

from softwalltime.core.jobs import CompletedJob
from softwalltime.store.completed_jobs import read_jobs
from tests.acceptance.conftest import DEFAULTS
from tests.acceptance.lab import RUNNER, Lab
from tests.benchmarks.bench_scripts import figures, without_scripts
from tests.benchmarks.markdown import table
from tests.benchmarks.workload import empty_store, scratch_folder
from tests.service.running import Daemon, until

JOBS = 240
USERS = ("alice", "bob", "carol")
SCRIPTS = 4
SHORTEST, LONGEST = 2.0, 30.0
GAP = 0.7
"""Seconds between two submissions, in the mean."""
FOLDER = "/tmp/softwalltime-scripts"
SLEEP = """#!/bin/sh
exec sleep $(awk -v seed=$$ 'BEGIN {{ srand(seed); print {seconds:.1f} * (0.7 + 0.7 * rand()) }}')
"""
HEADER = ("script", "jobs", "accuracy of median", "MAE of median, s")


def main() -> None:
    """Run the jobs and print a row without and one with the scripts."""
    lab = Lab.configured()
    if lab is None:
        print(f"{RUNNER} names no command that runs things on a PBS server for tests; not measured")
        return
    assert lab.events
    with scratch_folder() as folder, empty_store(folder) as (dsn, engine), serving(lab, folder, dsn) as daemon:
        ids = submit(lab)
        with waiting(lab):
            until(lambda: not lab.must("qselect", "-s", "EHQRTW"), 600)
        jobs = recorded(engine, daemon, lab, ids)
    rows = []
    for known in (False, True):
        accuracy, _, error = figures(jobs if known else without_scripts(jobs), "statistic=median")
        rows.append(["known" if known else "unknown", f"{len(jobs)}", f"{accuracy:.3f}", f"{error:.2f}"])
    print(f"{sum(bool(job.submission.script) for job in jobs)} of {len(jobs)} jobs have a recorded script")
    print(table(HEADER, rows))


@contextmanager
def waiting(lab: Lab) -> Iterator[None]:
    """Delete what is left at the end."""
    try:
        yield
    finally:
        lab.delete_jobs()
        lab.run("rm", "-r", FOLDER)


@contextmanager
def serving(lab: Lab, folder: Path, dsn: str) -> Iterator[Daemon]:
    """Run the daemon, and the hook with its configuration."""
    daemon = Daemon(folder, dsn, 'mode = "shadow"\nwaiting = "v1"\n')
    try:
        daemon.start()
        lab.install({**DEFAULTS, "socket": str(daemon.socket), "deadline_ms": 1000}, folder)
        yield daemon
    finally:
        lab.uninstall()
        daemon.end()


def submit(lab: Lab) -> list[str]:
    """Submit the jobs; return their ids."""
    random = np.random.default_rng(7)
    lab.must("sh", "-c", f"mkdir -p {FOLDER} && chmod 755 {FOLDER}")
    for user in USERS:
        for number, seconds in enumerate(np.geomspace(SHORTEST, LONGEST, SCRIPTS) * random.uniform(0.7, 1.3, SCRIPTS)):
            path = Path(FOLDER) / f"{user}{number}.sh"
            path.write_text(SLEEP.format(seconds=seconds))
            path.chmod(0o755)
    ids: list[str] = []
    while len(ids) < JOBS:
        user, script = USERS[random.integers(len(USERS))], random.integers(SCRIPTS)
        options = ("-N", "run", "-q", "short", "-l", "walltime=120", "-o", "/dev/null", "-e", "/dev/null")
        for _ in range(random.integers(1, 6)):
            ids.append(lab.must("qsub", *options, f"{FOLDER}/{user}{script}.sh", user=user))
            lab.jobs.append(ids[-1])
            time.sleep(random.exponential(GAP))
    return ids


def recorded(engine: Engine, daemon: Daemon, lab: Lab, ids: Sequence[str]) -> list[CompletedJob]:
    """Return the jobs from the store, after the daemon has read what PBS wrote about them."""
    wanted = set(ids)
    with daemon.log.open("a") as log:
        for day in sorted((lab.home / "server_priv" / "accounting").iterdir())[-2:]:
            lines = day.read_text(errors="replace").splitlines(keepends=True)
            log.writelines(line for line in lines if line.split(";", 3)[2:3] and line.split(";", 3)[2] in wanted)
    count = text("SELECT count(*) FROM softwalltime.completed_jobs")

    def complete() -> bool:
        with engine.connect() as connection:
            return bool(connection.execute(count).scalar_one() == len(wanted))

    until(complete)
    with engine.connect() as connection:
        return list(read_jobs(connection))
