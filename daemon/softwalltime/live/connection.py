"""The daemon's side of the agent: requests to PBS, one at a time and bounded in time."""

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

from softwalltime.live.agent import ORDERING_RESOURCE, START_RESOURCE
from softwalltime.live.ifl import Attributes, IflError

TIMEOUT = 30.0
"""Seconds that PBS may take for one request."""
_READ = 1 << 20


class _Channel(ABC):
    """File descriptors to write requests to and to read answers from."""

    writable: int
    readable: int

    @abstractmethod
    def close(self) -> None:
        """End the agent."""


class _Process(_Channel):
    """An agent of our own."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)  # noqa: S603 - our own module
        if self._process.stdin is None or self._process.stdout is None:
            raise IflError("the process that talks to PBS has no pipes")
        self._pipes = self._process.stdin, self._process.stdout
        self.writable, self.readable = (pipe.fileno() for pipe in self._pipes)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in self._pipes:
            with contextlib.suppress(OSError):
                pipe.close()


class _Socket(_Channel):
    """An agent that systemd starts for each connection."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(str(path))
        except OSError:
            self._socket.close()
            raise
        self.writable = self.readable = self._socket.fileno()

    def close(self) -> None:
        # The agent ends with its input.
        self._socket.close()


class PbsConnection:
    """A connection to PBS, held by an agent process that is started when it is needed.

    After an error of the agent, or when it did not answer in time, the next request starts another one.

    :param server: host name of the PBS server; empty: the one of ``/etc/pbs.conf``.
    :param agent: socket at which systemd starts an agent; ``None``: this process starts one.
    :param command: starts the agent in the second case.
    """

    def __init__(
        self, server: str = "", agent: Path | None = None, timeout: float = TIMEOUT, command: Sequence[str] = ()
    ) -> None:
        self._server = server
        self._agent = agent
        self._command = command or (sys.executable, "-m", "softwalltime.live.agent")
        self._timeout = timeout
        self._channel: _Channel | None = None

    def close(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def ids(self) -> list[str]:
        """Return the ids of all jobs that have not ended, in the server's order; of an array that of the whole.

        :raises IflError: if PBS refuses, cannot be reached, or does not answer in time.
        """
        ids: list[str] = self._ask({"op": "ids"})["ids"]
        return ids

    def jobs(self, names: Sequence[str], ids: Sequence[str] = (), *, subjobs: bool = False) -> dict[str, Attributes]:
        """Return attributes of jobs by job id; see :meth:`softwalltime.live.ifl.Ifl.jobs`.

        :raises IflError: if PBS refuses, cannot be reached, or does not answer in time.
        """
        request = {"op": "jobs", "names": list(names), "ids": list(ids), "subjobs": subjobs}
        jobs: dict[str, Attributes] = self._ask(request)["jobs"]
        return jobs

    def objects(self, kind: str) -> dict[str, Attributes]:
        """Return all attributes of vnodes, queues, reservations or the server, by name.

        :raises IflError: if PBS refuses, cannot be reached, or does not answer in time.
        """
        objects: dict[str, Attributes] = self._ask({"op": "objects", "kind": kind})["objects"]
        return objects

    def manager(self) -> tuple[bool, str]:
        """Return whether the agent's account is a manager of PBS, and its name.

        :raises IflError: if PBS cannot be reached, or does not answer in time.
        """
        answer = self._ask({"op": "manager"})
        return bool(answer["manager"]), str(answer["user"])

    def alter(self, job_id: str, soft_walltime: int) -> None:
        """Set the soft walltime of a job, in seconds.

        :raises IflError: if PBS refuses, cannot be reached, or does not answer in time.
        """
        self._ask({"op": "alter", "id": job_id, "soft_walltime": soft_walltime})

    def order(self, job_id: str, seconds: int) -> None:
        """Set the resource that orders a waiting job, in seconds.

        :raises IflError: if PBS refuses, cannot be reached, or does not answer in time.
        """
        self._ask({"op": "alter", "id": job_id, ORDERING_RESOURCE: seconds})

    def show_start(self, job_id: str, text: str) -> None:
        """Set the resource that shows a waiting job's expected start.

        :param text: in the form :data:`softwalltime.live.agent.START_FORM`.
        :raises IflError: if PBS refuses, cannot be reached, or does not answer in time.
        """
        self._ask({"op": "alter", "id": job_id, START_RESOURCE: text})

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

    def _open(self) -> _Channel:
        if self._channel is None:
            try:
                self._channel = _Process(self._command) if self._agent is None else _Socket(self._agent)
            except OSError as error:
                where = self._command[0] if self._agent is None else self._agent
                what = "run systemctl start softwalltime-live.socket" if self._agent else "it cannot be started"
                raise IflError(f"{where}: {error.strerror or error}; {what}") from error
        return self._channel

    def _exchange(self, channel: _Channel, line: bytes) -> dict[str, Any]:
        deadline = monotonic() + self._timeout
        left = memoryview(line)
        while left:
            left = left[os.write(channel.writable, left) :]
        received = bytearray()
        while not received.endswith(b"\n"):
            ready, _, _ = select.select([channel.readable], [], [], max(0.0, deadline - monotonic()))
            if not ready:
                raise IflError(f"PBS did not answer within {self._timeout:g} s")
            part = os.read(channel.readable, _READ)
            if not part:
                raise IflError("the process that talks to PBS has ended")
            received += part
        answer: dict[str, Any] = json.loads(received)
        return answer
