"""The daemon's side of the agent: requests to PBS, one at a time and bounded in time."""

import json
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

from softwalltime.service.live.ifl import Attributes, IflError

TIMEOUT = 30.0
"""Seconds that PBS may take for one request."""
SOFT_WALLTIME = "soft_walltime"
_READ = 1 << 20


class PbsConnection:
    """A connection to PBS through an agent process, started at the first request.

    After an error or a timeout of the agent the next request starts another one.  Each method that asks PBS raises an
    :class:`IflError` if PBS refuses, cannot be reached, or does not answer in time.

    :param server: host name of the PBS server; empty: the one of ``/etc/pbs.conf``.
    :param agent: socket at which systemd starts an agent; ``None``: this process starts one.
    :param command: starts the agent in the second case.
    """

    def __init__(
        self, server: str = "", agent: Path | None = None, timeout: float = TIMEOUT, command: Sequence[str] = ()
    ) -> None:
        self._server = server
        self._agent = agent
        self._command = command or (sys.executable, "-m", "softwalltime.service.live.agent")
        self._timeout = timeout
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def close(self) -> None:
        """Close the connection, which ends the agent; kill an agent that this process started."""
        agent, process = self._socket, self._process
        self._socket = self._process = None
        if process is not None:
            process.kill()
            process.wait()
        if agent is not None:
            agent.close()

    def ids(self) -> list[str]:
        """Return the ids of all jobs that have not ended, in the server's order; of an array that of the whole."""
        return list(self._ask({"op": "ids"})["ids"])

    def jobs(self, names: Sequence[str], ids: Sequence[str] = (), *, subjobs: bool = False) -> dict[str, Attributes]:
        """Return attributes of jobs by job id; see :meth:`softwalltime.service.live.ifl.Ifl.jobs`."""
        request = {"op": "jobs", "names": list(names), "ids": list(ids), "subjobs": subjobs}
        return dict(self._ask(request)["jobs"])

    def objects(self, kind: str) -> dict[str, Attributes]:
        """Return all attributes of vnodes, queues, reservations, schedulers or the server, by name."""
        return dict(self._ask({"op": "objects", "kind": kind})["objects"])

    def manager(self) -> tuple[bool, str]:
        """Return whether the agent's account is a manager of PBS, and its name."""
        answer = self._ask({"op": "manager"})
        return bool(answer["manager"]), str(answer["user"])

    def alter(self, job_id: str, value: int | str, resource: str = SOFT_WALLTIME) -> None:
        """Set a resource of a job: by default its soft walltime, in seconds."""
        self._ask({"op": "alter", "id": job_id, resource: value})

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        try:
            answer = self._exchange(self._open(), json.dumps({**request, "server": self._server}).encode() + b"\n")
        except IflError:
            self.close()
            raise
        except (OSError, ValueError) as error:
            self.close()
            raise IflError(f"the process that talks to PBS has ended: {error}") from error
        if "error" in answer:
            raise IflError(answer["error"], answer["code"])
        return answer

    def _open(self) -> socket.socket:
        if self._socket is None:
            try:
                if self._agent is None:
                    self._socket, theirs = socket.socketpair()
                    with theirs:
                        end = theirs.fileno()
                        self._process = subprocess.Popen(self._command, stdin=end, stdout=end)  # noqa: S603 - our own module
                else:
                    self._socket = socket.socket(socket.AF_UNIX)
                    self._socket.connect(str(self._agent))
            except OSError as error:
                where = self._command[0] if self._agent is None else self._agent
                what = "run systemctl start softwalltime-live.socket" if self._agent else "it cannot be started"
                raise IflError(f"{where}: {error.strerror or error}; {what}") from error
        return self._socket

    def _exchange(self, agent: socket.socket, line: bytes) -> dict[str, Any]:
        deadline = monotonic() + self._timeout
        agent.settimeout(self._timeout)
        try:
            agent.sendall(line)
            received = bytearray()
            while not received.endswith(b"\n"):
                agent.settimeout(max(0.001, deadline - monotonic()))
                if not (part := agent.recv(_READ)):
                    raise IflError("the process that talks to PBS has ended")
                received += part
        except TimeoutError:
            raise IflError(f"PBS did not answer within {self._timeout:g} s") from None
        return dict(json.loads(received))
