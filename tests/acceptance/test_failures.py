"""Daemon and database stop, crash and hang; no user notices."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import psycopg
import pytest
from packaging.specifiers import SpecifierSet

from softwalltime.store.connections import connect
from softwalltime.store.embedded.postgres_process import embedded_postgres
from softwalltime.store.migrations import upgrade
from tests.acceptance.conftest import DEFAULTS, WAITING, Daemon, ServedDaemon
from tests.acceptance.lab import Lab, seconds, until
from tests.hooks.conftest import transport
from tests.samples import job as completed_job
from tests.store.stored import add_jobs

__all__ = ["transport"]
Install = Callable[..., None]

SUBMIT = """
for i in $(seq {jobs}); do qsub -h -q short -l walltime=600 -- /bin/true || echo failed; done
"""


def submit(lab: Lab, jobs: int, user: str = "alice") -> list[str]:
    """Submit many jobs with one command; return their ids."""
    ids = lab.must("bash", "-c", SUBMIT.format(jobs=jobs), user=user).split()
    assert "failed" not in ids
    assert len(ids) == jobs
    lab.jobs += ids
    return ids


def softs(lab: Lab, ids: list[str]) -> list[int | None]:
    """Return the soft walltimes of many jobs."""
    # Query all jobs: for several ids, qstat prints several objects of the same name.
    jobs = json.loads(lab.must("qstat", "-f", "-F", "json"))["Jobs"]
    return [seconds(jobs[name].get("Resource_List", {}).get("soft_walltime")) for name in ids]


class Watch:
    """Runs another user's qstat repeatedly; measures the longest duration."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self.longest = 0.0

    def __enter__(self) -> "Watch":
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.is_set():
            begin = time.monotonic()
            self._lab.must("qstat", "-B", user="carol")
            self.longest = max(self.longest, time.monotonic() - begin)


@pytest.fixture
def restarts(lab: Lab) -> Iterator[None]:
    """Let PBS restart its interpreter every 20 hook runs, at most once a second."""
    lab.qmgr("set server python_restart_max_hooks = 20")
    lab.qmgr("set server python_restart_min_interval = 1")
    yield
    lab.qmgr("unset server python_restart_max_hooks")
    lab.qmgr("unset server python_restart_min_interval")


def open_files(lab: Lab) -> int:
    """Return the number of open files of pbs_server."""
    pid = lab.must("cat", str(lab.home / "server_priv" / "server.lock")).strip()
    return len(lab.must("ls", f"/proc/{pid}/fd").split())


def test_300_submissions_across_interpreter_restarts(lab: Lab, hook: None, restarts: None) -> None:
    submit(lab, 1)
    log, before = lab.server_log(), open_files(lab)
    ids = []
    for _ in range(3):
        ids += submit(lab, 100)
        # On a fast machine all of them take less than two seconds, and PBS restarts it once a second.
        time.sleep(1.5)
    assert softs(lab, ids) == [WAITING] * 300
    assert open_files(lab) <= before + 5, "an interpreter leaves no connection to the daemon behind"
    assert len(log.lines("Restarting Python interpreter")) >= 2
    assert len(log.lines(": set 300 of 600")) == 300


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_without_a_daemon_submissions_are_fast_and_starts_get_the_walltime(
    how: str, lab: Lab, hook: None, daemon: Daemon
) -> None:
    before = lab.qsub("-h", "-q", "short", "-l", "walltime=600")
    getattr(daemon, how)()
    log = lab.server_log()
    assert softs(lab, submit(lab, 10)) == [None] * 10
    lab.must("qrls", before)
    lab.wait(before, "R")
    assert lab.soft(before) == 600
    assert len(log.lines(f"no answer: {daemon.socket}: ")) == 11
    daemon.start()
    assert softs(lab, submit(lab, 10)) == [WAITING] * 10


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_daemon_that_was_replaced_between_two_submissions_answers_the_second(
    how: str, lab: Lab, install: Install, daemon: Daemon
) -> None:
    install(breaker_failures=1)
    log = lab.server_log()
    assert softs(lab, submit(lab, 2)) == [WAITING] * 2
    getattr(daemon, how)()
    daemon.start()
    assert softs(lab, submit(lab, 2)) == [WAITING] * 2
    assert log.lines("no answer") == []


def test_a_daemon_that_was_suspended_answers_again_at_once(lab: Lab, hook: None, daemon: Daemon) -> None:
    assert softs(lab, submit(lab, 1)) == [WAITING]
    log = lab.server_log()
    daemon.suspend()
    assert softs(lab, submit(lab, 1)) == [None]
    assert len(log.lines("no answer: timed out")) == 1
    daemon.resume()
    assert softs(lab, submit(lab, 5)) == [WAITING] * 5


@pytest.fixture
def restarting(daemon: Daemon) -> Iterator[list[str]]:
    """A daemon that is stopped or killed, and started again, all the time; the value is what was done so far."""
    over = threading.Event()
    done: list[str] = []

    def restart() -> None:
        while not over.wait(1):
            done.append(("stop", "kill")[len(done) % 2])
            getattr(daemon, done[-1])()
            over.wait(0.5)
            daemon.start()

    thread = threading.Thread(target=restart)
    thread.start()
    yield done
    over.set()
    thread.join()


@pytest.mark.parametrize("daemon", ["serve"], indirect=True)
def test_2000_submissions_while_the_daemon_restarts_again_and_again(
    lab: Lab, install: Install, restarting: list[str]
) -> None:
    install(deadline_ms=1000)
    log = lab.server_log()
    given = softs(lab, [job for _ in range(4) for job in submit(lab, 500)])
    assert len(restarting) >= 2
    assert set(given) == {WAITING, None}
    took = [float(line.rpartition("(")[2].partition(" ms)")[0]) for line in log.lines("softwalltime: queuejob")]
    assert len(took) == 2000
    assert max(took) < 1000 + 200, "the deadline, and what the hook does besides waiting"
    # A restart is no timeout, so the breaker stays closed.
    assert log.lines("no request for") == []


def test_a_suspended_daemon_costs_three_deadlines(lab: Lab, install: Install, daemon: Daemon, restarts: None) -> None:
    """The breaker's state must survive restarts of the interpreter."""
    install(deadline_ms=1000, breaker_seconds=10)
    log = lab.server_log()
    daemon.suspend()
    begin = time.monotonic()
    with Watch(lab) as watch:
        ids = submit(lab, 60)
    elapsed = time.monotonic() - begin
    assert 3 < elapsed < 9
    assert watch.longest < 4, "a request may have to wait for all three"
    assert softs(lab, ids) == [None] * 60
    assert len(log.lines("no answer: timed out")) == 3
    assert len(log.lines("no request for")) == 57
    assert len(log.lines("Restarting Python interpreter")) >= 1
    daemon.resume()
    until(lambda: softs(lab, submit(lab, 1)) == [WAITING], 15, "the daemon is asked again")


def test_jobs_do_not_inherit_the_breakers_state(lab: Lab, install: Install, daemon: Daemon) -> None:
    install(deadline_ms=100)
    daemon.suspend()
    submit(lab, 3)
    out = lab.must("mktemp", "--tmpdir=/home/alice", user="alice")
    job = lab.must("qsub", "-q", "short", "-j", "oe", "-o", out, "--", "/usr/bin/env", user="alice")
    lab.jobs.append(job)
    lab.wait(job, "F", timeout=60)
    environment = lab.must("cat", out)
    lab.must("rm", out)
    assert "PBS_JOBID" in environment
    assert "SOFTWALLTIME" not in environment


def test_the_scheduler_extends_a_soft_walltime_that_was_too_short(lab: Lab, install: Install) -> None:
    # At modifyjob the hook would raise it to the minimum.
    install(events={"queuejob": True, "postqueuejob": False, "modifyjob": False, "runjob": False})
    job = lab.qsub("-q", "short", "-l", "walltime=600", command=("/bin/sleep", "120"))
    lab.wait(job, "R")
    lab.must("qalter", "-l", "soft_walltime=10", job)
    assert lab.soft(job) == 10

    def extended() -> str | None:
        lab.qmgr("set server scheduling = True")
        time.sleep(1)
        found: str | None = lab.job(job).get("estimated", {}).get("soft_walltime")
        return found

    assert until(extended, 60, "the scheduler extends it") > "00:00:10"
    assert lab.soft(job) == 10


# ---- The daemon's PostgreSQL -----------------------------------------------------------------------------------------


def postgres_processes(postmaster: int) -> list[int]:
    """The postmaster and its backends."""
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    return [postmaster, *map(int, children)]


@pytest.mark.parametrize("how", ["stopped", "suspended"])
def test_without_its_database_the_daemon_answers_from_memory(
    how: str, lab: Lab, own_postgres: tuple[str, int], tmp_path: Path
) -> None:
    folder = tmp_path / "daemon"
    folder.mkdir()
    daemon = ServedDaemon(folder, own_postgres[0])
    suspended: list[int] = []
    try:
        daemon.start()
        lab.install({**DEFAULTS, "socket": str(daemon.socket), "deadline_ms": 500}, tmp_path)
        assert softs(lab, submit(lab, 1)) == [WAITING]
        if how == "stopped":
            os.kill(own_postgres[1], signal.SIGINT)
            until(lambda: not Path(f"/proc/{own_postgres[1]}/fd").exists(), 20, "PostgreSQL has ended")
        else:
            suspended = postgres_processes(own_postgres[1])
            for process in suspended:
                os.kill(process, signal.SIGSTOP)
        begin = time.monotonic()
        assert softs(lab, submit(lab, 50)) == [WAITING] * 50
        assert time.monotonic() - begin < 10
        job = lab.qsub("-q", "short", "-l", "walltime=600")
        lab.wait(job, "R")
        assert lab.soft(job) == 600
    finally:
        daemon.kill()
        for process in suspended:
            os.kill(process, signal.SIGCONT)


# ---- The transport for sites without the daemon ----------------------------------------------------------------------


@pytest.fixture
def own_postgres(tmp_path: Path) -> Iterator[tuple[str, int]]:
    """DSN and process id of a PostgreSQL with two jobs of alice of WAITING seconds."""
    with embedded_postgres(tmp_path / "pg", durable=False) as dsn:
        engine = connect(dsn)
        upgrade(engine)
        with engine.begin() as connection:
            add_jobs(
                connection, [completed_job("alice", job_id=f"{n}.old", runtime=WAITING, walltime=600) for n in (1, 2)]
            )
        engine.dispose()
        (file,) = (tmp_path / "pg").rglob("postmaster.pid")
        pid = int(file.read_text().split()[0])
        yield dsn, pid
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


@pytest.fixture
def psycopg_path(lab: Lab, tmp_path: Path) -> Path:
    """A folder with psycopg for the server's Python: SOFTWALLTIME_TEST_PSYCOPG, else this environment's."""
    if named := os.environ.get("SOFTWALLTIME_TEST_PSYCOPG"):
        return Path(named)
    needs = metadata("psycopg")["Requires-Python"]
    if lab.python not in SpecifierSet(needs):
        pytest.skip(
            f"this server has Python {lab.python}, our psycopg needs {needs}: SOFTWALLTIME_TEST_PSYCOPG names another"
        )
    folder = tmp_path / "psycopg_path"
    folder.mkdir()
    for name in ("psycopg", "typing_extensions.py"):
        (folder / name).symlink_to(Path(psycopg.__file__).parents[1] / name)
    return folder


@pytest.fixture
def asks_postgres(
    lab: Lab, own_postgres: tuple[str, int], psycopg_path: Path, transport: Path, tmp_path: Path
) -> Callable[..., None]:
    """Install the hook with the transport postgres."""

    def install(**changes: Any) -> None:
        settings = {
            "transport_path": str(transport),
            "dsn": own_postgres[0],
            "psycopg_path": str(psycopg_path),
            "waiting": "last2",
            "running": "walltime",
        }
        lab.install(
            {**DEFAULTS, "transport": "postgres", "deadline_ms": 1000, "postgres": settings, **changes}, tmp_path
        )

    return install


def test_postgresql_answers_across_interpreter_restarts(lab: Lab, asks_postgres: Install, restarts: None) -> None:
    asks_postgres()
    log = lab.server_log()
    assert softs(lab, submit(lab, 60)) == [WAITING] * 60
    assert softs(lab, submit(lab, 2, user="bob")) == [None] * 2
    assert len(log.lines("Restarting Python interpreter")) >= 1


def test_a_stopped_database_costs_no_time(lab: Lab, asks_postgres: Install, own_postgres: tuple[str, int]) -> None:
    asks_postgres()
    assert softs(lab, submit(lab, 1)) == [WAITING]
    os.kill(own_postgres[1], signal.SIGINT)
    until(lambda: not Path(f"/proc/{own_postgres[1]}/fd").exists(), 20, "PostgreSQL has ended")
    begin = time.monotonic()
    assert softs(lab, submit(lab, 10)) == [None] * 10
    assert time.monotonic() - begin < 5


def test_a_suspended_database_costs_three_deadlines(
    lab: Lab, asks_postgres: Install, own_postgres: tuple[str, int]
) -> None:
    asks_postgres(breaker_seconds=10)
    assert softs(lab, submit(lab, 1)) == [WAITING]
    os.kill(own_postgres[1], signal.SIGSTOP)
    log = lab.server_log()
    begin = time.monotonic()
    with Watch(lab) as watch:
        ids = submit(lab, 20)
    elapsed = time.monotonic() - begin
    assert softs(lab, ids) == [None] * 20
    assert 3 < elapsed < 9
    assert watch.longest < 4, "a request may have to wait for all three"
    assert len(log.lines("no answer: timed out")) == 3
    os.kill(own_postgres[1], signal.SIGCONT)
    until(lambda: softs(lab, submit(lab, 1)) == [WAITING], 15, "PostgreSQL is asked again")
