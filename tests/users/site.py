"""A store with jobs of some accounts of this host, the process that answers, and clients with other uids."""

import json
import os
import pwd
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from psycopg.conninfo import make_conninfo
from sqlalchemy import Connection, Engine, text

from softwalltime.core.jobs import CurrentJob
from softwalltime.store.current import set_current
from softwalltime.store.forecast_rows import (
    ExpectedRuntime,
    StoredProbe,
    StoredStart,
    publish_probes,
    publish_runtimes,
    publish_starts,
)
from tests.samples import job
from tests.service.running import PATIENT, until

ME = pwd.getpwuid(os.getuid()).pw_name
OTHER = "nobody"
"""An account that every host has."""
HOUR = 3600
# It becomes another user when Python, whose files that one may not be able to read, has started.
ASK = """
import os, socket, sys
uid = int(sys.argv[3])
if uid != os.getuid():
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
with socket.socket(socket.AF_UNIX) as client:
    client.settimeout(60)
    client.connect(sys.argv[1])
    received = b""
    try:
        client.sendall(sys.argv[2].encode())
    except BrokenPipeError:
        pass
    try:
        while part := client.recv(1 << 20):
            received += part
    except ConnectionResetError:
        pass
sys.stdout.buffer.write(received)
"""


def waits(job_id: str, now: int, user: str = ME, **more: Any) -> CurrentJob:
    """A job that waits, as the accounting log has it."""
    values = {"walltime": 7200, "queue": "long", "ncpus": 4, "job_name": "name", **more}
    of = job(user, job_id=job_id, submitted=now - 600, **values).submission
    return CurrentJob(of, "srv", None, now - 600, now - 600, None)


def runs(job_id: str, now: int, user: str = ME, **more: Any) -> CurrentJob:
    """A job that has run for ten minutes."""
    return replace(waits(job_id, now, user, **more), start=now - 600)


def forecast(job_id: str, now: int, wait: int | None, user: str = ME, **more: Any) -> StoredStart:
    """A forecast with a 50% range of 10 minutes and a 90% range of an hour on either side."""
    expected = None if wait is None else now + wait
    low90, low50, high50, high90 = (None if expected is None else expected + each for each in (-HOUR, -600, 600, HOUR))
    start = StoredStart(
        job_id, now - 600, expected, low90, low50, high50, high90, pbs_estimate=None, walltime=7200, ncpus=4,
        user_name=user, group_name="staff", project="p", queue="long", waits_for="first in the queue",
    )  # fmt: skip
    return replace(start, **more)


def publish(connection: Connection, now: int, starts: Sequence[StoredStart], runtimes: Sequence[str] = ()) -> None:
    """Publish forecasts, and runtimes of half an hour to an hour and a half of these jobs."""
    publish_starts(connection, "srv", starts, now, fresh=600)
    publish_runtimes(connection, "srv", [ExpectedRuntime(name, 1800, 3600, 5400) for name in runtimes], now)


def fill(engine: Engine, now: int) -> None:
    """A waiting and a running job of me, and of another user; when a job of an hour would start."""
    with engine.begin() as connection:
        set_current(connection, [
            waits("1.srv", now), runs("2.srv", now), waits("3.srv", now, OTHER), runs("4.srv", now, OTHER),
        ])  # fmt: skip
        publish(connection, now, [forecast("1.srv", now, HOUR), forecast("3.srv", now, 2 * HOUR, OTHER)], ["1.srv"])
        publish_probes(connection, "srv", [StoredProbe("long", 4, HOUR, ("",), now, now + HOUR, now, now + 2 * HOUR)])


def dsn_of(engine: Engine, postgres: str) -> str:
    """DSN of the engine's database."""
    with engine.connect() as connection:
        return make_conninfo(postgres, dbname=connection.execute(text("SELECT current_database()")).scalar_one())


def listening(path: Path) -> socket.socket:
    """Return a socket to which everybody may connect, as softwalltime-me.socket has it."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    path.chmod(0o666)
    listener.listen(1024)
    return listener


def start_process(listener: socket.socket, dsn: str, **more: Any) -> subprocess.Popen[bytes]:
    """Start the process with a socket, as systemd does."""
    script = 'export LISTEN_PID=$$ LISTEN_FDS=1; exec "$0" -m softwalltime.service.users.process 3<&"$1"'
    return subprocess.Popen(
        ["/bin/bash", "-c", script, sys.executable, str(listener.fileno())], pass_fds=[listener.fileno()],
        env={**os.environ, "SOFTWALLTIME_DSN": dsn}, **more,
    )  # fmt: skip


class OwnJobsProcess:
    """The process of softwalltime-me.service, at a socket in a folder that everybody may enter."""

    def __init__(self, folder: Path, dsn: str) -> None:
        folder.chmod(0o755)
        self.socket = folder / "me.sock"
        self.log = folder / "log"
        with self.log.open("wb") as log, listening(self.socket) as listener:
            self.process = start_process(listener, dsn, stderr=log)
        until(self._ready)

    def _ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        return self.socket.exists() and bool(self.ask().get("read_at"))

    def ask(self, user: str = "", send: str = "") -> dict[str, Any]:
        """Return the answer to a user, another one than this if named, who sends something first."""
        uid = str(pwd.getpwnam(user or ME).pw_uid)
        command = [sys.executable, "-I", "-S", "-c", ASK, str(self.socket), send, uid]
        done = subprocess.run(command, stdout=subprocess.PIPE, timeout=PATIENT, check=True)
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def end(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait(PATIENT)


def now() -> int:
    """Epoch seconds."""
    return int(time.time())
