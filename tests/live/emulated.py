"""A server of jobs in a file, reached through the emulated agent."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

from softwalltime.measure.forecast.snapshot import LiveJob
from softwalltime.service.live.connection import PbsConnection
from tests.live.emulated_agent import replace

AGENT = Path(__file__).with_name("emulated_agent.py")
SUBMITTED = 1_795_300_000


class EmulatedServer:
    """Jobs in a file; the agent process reads and alters them."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "jobs.json"
        self.path.write_text("{}")

    def add(self, job_id: str, **attributes: str) -> None:
        """Add a job, or change its attributes; two underscores in a name stand for a dot."""
        jobs = self.all()
        job = jobs.setdefault(
            job_id,
            {
                "job_state": "Q", "mtime": "1", "euser": "alice", "ctime": str(SUBMITTED + len(jobs)), "queue": "short",
                "Resource_List.walltime": "10:00:00",
            },
        )  # fmt: skip
        job |= {name.replace("__", "."): value for name, value in attributes.items()}
        job["mtime"] = str(int(job["mtime"]) + 1)
        replace(self.path, json.dumps(jobs))

    def set_attribute(self, name: str, value: str, kind: str = "server") -> None:
        """Set an attribute of the server, or of its scheduler."""
        replace(self.path.with_suffix(f".{kind}"), json.dumps({name: value}))

    def fill(self, jobs: Iterable[LiveJob]) -> None:
        """Replace all jobs."""
        attributes = {}
        for job in jobs:
            asked = job.submission
            attributes[asked.job_id] = {
                "job_state": job.state, "mtime": "1", "euser": asked.user, "ctime": str(asked.submitted),
                "queue": asked.queue, "Resource_List.ncpus": str(asked.ncpus),
                "Resource_List.walltime": str(asked.walltime), **({"stime": str(job.start)} if job.start else {}),
            }  # fmt: skip
        replace(self.path, json.dumps(attributes))

    def remove(self, job_id: str) -> None:
        """Let a job end."""
        replace(self.path, json.dumps({name: job for name, job in self.all().items() if name != job_id}))

    def all(self) -> dict[str, Any]:
        """Return the attributes of all jobs."""
        jobs: dict[str, Any] = json.loads(self.path.read_text())
        return jobs

    def soft(self, job_id: str) -> str | None:
        """Return a job's soft walltime, as it was set."""
        value: str | None = self.all()[job_id].get("Resource_List.soft_walltime")
        return value

    def requests(self) -> list[str]:
        """Return what the agent was asked."""
        log = self.path.with_suffix(".requests")
        return log.read_text().splitlines() if log.exists() else []

    def connect(self, server: str = "", agent: Path | None = None, timeout: float = 60.0) -> PbsConnection:
        """Open a connection to it."""
        return PbsConnection(server, agent, timeout, (sys.executable, str(AGENT), str(self.path)))


@contextmanager
def agent_at(path: Path, server: EmulatedServer, processors: int = 16) -> Iterator[Path]:
    """A socket at which an agent is started for each connection, as systemd does with Accept=yes."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    agents: list[subprocess.Popen[bytes]] = []
    command = (sys.executable, str(AGENT), str(server.path))

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            with client:
                stream = client.fileno()
                agents.append(subprocess.Popen([*command, str(processors)], stdin=stream, stdout=stream))

    thread = Thread(target=accept)
    thread.start()
    try:
        yield path
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
        for agent in agents:
            agent.wait(60)
