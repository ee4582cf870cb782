"""A real PBS server, with our hook in it and somebody to answer."""

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest
from sqlalchemy import Engine

from tests.acceptance.lab import PROCESSORS, RUNNER, STRICT, Lab
from tests.acceptance.publishing import Publishing
from tests.hooks.peer import Peer
from tests.samples import ROOT
from tests.samples import job as completed_job
from tests.service import running as service
from tests.store.stored import add_jobs

DEFAULTS = json.loads((ROOT / "hooks" / "softwalltime_hook.json").read_text())
USERS = ("alice", "bob")
WAITING = 300
"""Soft walltime in seconds that each daemon here predicts for a waiting job, whosever it is; at a start it says the
walltime."""


class Daemon(Protocol):
    """A daemon that predicts WAITING for waiting jobs, and the walltime at a start."""

    socket: Path

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...
    def suspend(self) -> None: ...
    def resume(self) -> None: ...


class PeerDaemon(Peer):
    """The test peer of tests/hooks."""

    def start(self) -> None:
        """Start, told what to say."""
        self.behave(set=WAITING, events={"runjob": {"share": 1, "set": None}})
        super().start()


class ServedDaemon:
    """``softwalltime serve``, with a store in which each user has run twice for WAITING seconds."""

    def __init__(self, folder: Path, dsn: str, waiting: str = "v1") -> None:
        policy = f'mode = "on"\nwaiting = "{waiting}"\nrunning = "walltime"\n'
        self._daemon = service.Daemon(folder, dsn, policy)
        self.socket = self._daemon.socket

    def start(self) -> None:
        self._daemon.start()

    def configure(self, policy: str) -> None:
        """Replace the policy in the settings file."""
        self._daemon.configure(policy)

    def reload(self, done: Callable[[dict[str, Any]], bool]) -> None:
        """Let it read its settings again, until its policy is as expected."""
        self._daemon.send(signal.SIGHUP)
        service.until(lambda: done(self._daemon.status()["policy"]) and self._daemon.status()["ready"])

    def stop(self) -> None:
        self._daemon.end(signal.SIGTERM)

    def kill(self) -> None:
        if self._daemon.process is not None and self._daemon.process.poll() is None:
            self._daemon.end(signal.SIGKILL)

    def suspend(self) -> None:
        self._daemon.send(signal.SIGSTOP)

    def resume(self) -> None:
        self._daemon.send(signal.SIGCONT)


D = TypeVar("D", bound=Daemon)


def served(folder: Path, request: pytest.FixtureRequest) -> Daemon:
    """Return the real daemon, with a history of all users."""
    engine = request.getfixturevalue("engine")
    jobs = [
        completed_job(user, job_id=f"{user}{number}.old", runtime=WAITING, walltime=600)
        for user in USERS
        for number in (1, 2)
    ]
    with engine.begin() as connection:
        add_jobs(connection, jobs)
    return ServedDaemon(folder, request.getfixturevalue("database"))


DAEMONS: dict[str, Callable[[Path, pytest.FixtureRequest], Daemon]] = {
    "peer": lambda folder, _: PeerDaemon(folder),
    "serve": served,
}
"""The daemons of the tests, by name."""


@pytest.fixture(autouse=True)
def no_pbs_of_this_machine() -> None:
    """These tests want one."""


@pytest.fixture(scope="session")
def pbs() -> Iterator[Lab]:
    """The server; without one the tests are skipped."""
    lab = Lab.configured()
    if lab is None:
        pytest.skip(f"{RUNNER} names no command that runs things on a PBS server for tests (see lab.py)")
    if reason := lab.ready():
        pytest.skip(reason)
    # The first read creates and deletes the hook: it must precede the first installation.
    assert lab.events
    with lab.virtual_processors(PROCESSORS):
        yield lab
        lab.uninstall()


@pytest.fixture
def lab(pbs: Lab) -> Iterator[Lab]:
    """The server; at the end jobs are deleted and scheduling is enabled."""
    yield pbs
    pbs.qmgr("set server scheduling = True")
    pbs.delete_jobs()


@contextmanager
def running(daemon: D) -> Iterator[D]:
    """Run a daemon inside the context."""
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.kill()


@pytest.fixture(params=DAEMONS)
def daemon(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """A running daemon."""
    with running(DAEMONS[request.param](tmp_path, request)) as daemon:
        yield daemon


@pytest.fixture
def install(lab: Lab, daemon: Daemon, tmp_path: Path) -> Callable[..., None]:
    """Install the hook with these keys of its configuration changed."""

    def install(**changes: Any) -> None:
        lab.install({**DEFAULTS, "socket": str(daemon.socket), "deadline_ms": 500, **changes}, tmp_path)

    return install


@pytest.fixture
def hook(install: Callable[..., None]) -> None:
    """The installed hook with its defaults and the maximum deadline, for busy machines."""
    install()


@pytest.fixture
def unscheduled(lab: Lab) -> None:
    """Disable scheduling: no job starts."""
    lab.qmgr("set server scheduling = False")


@pytest.fixture
def postqueuejob(lab: Lab) -> None:
    """Skip the test if the server lacks the event postqueuejob."""
    if "postqueuejob" not in lab.events:
        pytest.skip("this server has no event postqueuejob")


@pytest.fixture
def sched_config(lab: Lab) -> Iterator[Callable[[str, str], None]]:
    """Replace a pattern in sched_config and let pbs_sched read it; undo this at the end."""
    with lab.sched_config() as replace:
        yield replace


@pytest.fixture
def strict(sched_config: Callable[[str, str], None]) -> None:
    """Let the scheduler plan top jobs: without strict ordering PBS promises no start."""
    sched_config(STRICT, "strict_ordering: true ALL")


@pytest.fixture
def publishing(lab: Lab, tmp_path: Path, database: str, engine: Engine) -> Iterator[Publishing]:
    lab.uninstall()
    lab.create_resource("predicted_start", "string")
    made = Publishing(lab, tmp_path, database)
    made.start()
    yield made
    if made.socket.exists():
        made.kill()
    lab.delete_jobs()
