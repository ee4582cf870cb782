"""A substitute for the daemon: a real Unix-socket server in a separate process with configurable answers.

Run as a program it is the server: ``python peer.py FOLDER``.  It reads FOLDER/behaviour.json for each connection and
appends each request to FOLDER/asked.jsonl.  :class:`Peer` starts, stops and suspends it from a test.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

LINE = 65536


class Peer:
    """Controls the server from a test.  Behaviours; the first that is set applies:

    ``set=N``, ``share=0.5`` (of the walltime) or ``none=True``: a valid answer, with ``ordering=N`` of version 2;
    ``raw=TEXT``: that text; ``base64=TEXT``: those bytes;
    ``close=True``: closes at once; ``hang=True``: reads, never answers; ``flood=True``: endless bytes on one line;
    ``trickle=SECONDS``: a valid answer of thousands of bytes, one byte in this interval.
    ``late=SECONDS`` waits before the answer; ``events={"runjob": {...}}`` overrides all of it by event.
    """

    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        self.folder = folder
        self.socket = folder / "hook.sock"
        self._python = python
        self._process: subprocess.Popen[bytes] | None = None
        self._changed = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start, and wait until it listens."""
        self.clear()
        if not (self.folder / "behaviour.json").exists():
            self.behave(none=True)
        self._process = subprocess.Popen([self._python, __file__, str(self.folder)])
        deadline = time.monotonic() + 120
        while not self._listens():
            assert time.monotonic() < deadline, "the test peer does not listen"
            time.sleep(0.01)

    def _listens(self) -> bool:
        # A connection would be counted, and may be affected by the behaviour.
        return (self.folder / "listening").exists()

    @property
    def _asked(self) -> Path:
        return self.folder / "asked.jsonl"

    def kill(self) -> None:
        """Kill the server; the socket file remains, as after a crash."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
            (self.folder / "listening").unlink(missing_ok=True)

    def stop(self) -> None:
        """Stop the server, which removes the socket file."""
        self.kill()
        self.socket.unlink(missing_ok=True)

    def suspend(self) -> None:
        """Suspend the server: the kernel still accepts connections, but no answer comes."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Resume the server."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)

    def behave(self, **behaviour: Any) -> None:
        """Set the behaviour from now on."""
        new = self.folder / "behaviour.new"
        new.write_text(json.dumps(behaviour))
        # The peer reads a file with a new time stamp only, and two writes within a moment may get the same one.
        self._changed += 1
        os.utime(new, (self._changed, self._changed))
        new.replace(self.folder / "behaviour.json")

    def clear(self) -> None:
        """Delete the requests so far."""
        self._asked.touch()
        os.truncate(self._asked, 0)

    def asked(self) -> list[dict[str, Any]]:
        """Return all requests so far."""
        return [json.loads(line) for line in self._asked.read_text().splitlines()]


_SLOW = ("hang", "flood", "trickle", "late", "events")


class _Server:
    """Answers in the accept loop; only slow behaviours get a thread, which costs more than an answer."""

    def __init__(self, folder: Path) -> None:
        self._changed = folder / "behaviour.json"
        self._known: tuple[tuple[int, int], dict[str, Any]] = ((0, 0), {})
        self._asked = (folder / "asked.jsonl").open("ab", buffering=0)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / "hook.sock"))
        (folder / "hook.sock").chmod(0o600)
        self._listener.listen(16)

    def serve(self) -> None:
        while True:
            client, _ = self._listener.accept()
            behaviour = self._behaviour()
            if any(slow in behaviour for slow in _SLOW):
                threading.Thread(target=self._answer, args=(client, behaviour), daemon=True).start()
            else:
                self._answer(client, behaviour)

    def _behaviour(self) -> dict[str, Any]:
        status = self._changed.stat()
        version = status.st_ino, status.st_mtime_ns
        if version != self._known[0]:
            self._known = version, json.loads(self._changed.read_text())
        return self._known[1]

    def _answer(self, client: socket.socket, behaviour: Mapping[str, Any]) -> None:
        with client, suppress(OSError):
            line = b""
            while not behaviour.get("close") and not line.endswith(b"\n"):
                part = client.recv(LINE)
                if not part or len(line) > LINE:
                    return
                line += part
            if not line:
                return
            self._asked.write(line)
            request = json.loads(line)
            behaviour = {**behaviour, **behaviour.get("events", {}).get(request["event"], {})}
            time.sleep(behaviour.get("late", 0))
            _respond(client, behaviour, request)


def _respond(client: socket.socket, behaviour: Mapping[str, Any], request: Mapping[str, Any]) -> None:
    answer: dict[str, Any] = {"v": 1, "action": "none", "basis": "the test peer knows nothing"}
    if "base64" in behaviour:
        import base64

        return client.sendall(base64.b64decode(behaviour["base64"]))
    if "raw" in behaviour:
        return client.sendall(behaviour["raw"].encode())
    if behaviour.get("hang"):
        return time.sleep(3600)
    while behaviour.get("flood"):
        client.sendall(b"x" * LINE)
    if behaviour.get("set") is not None:
        answer = {"v": 1, "action": "set", "soft_walltime": behaviour["set"], "basis": "the test peer says so"}
    elif "share" in behaviour and request["job"]["walltime"]:
        seconds = int(request["job"]["walltime"] * behaviour["share"])
        answer = {"v": 1, "action": "set", "soft_walltime": seconds, "basis": "a share of the walltime"}
    if behaviour.get("ordering") is not None:
        answer |= {"ordering": behaviour["ordering"]}
    if "trickle" in behaviour:
        answer["basis"] = "a long story " * 600
    line = json.dumps(answer).encode() + b"\n"
    if "trickle" not in behaviour:
        return client.sendall(line)
    for index in range(len(line)):
        client.sendall(line[index : index + 1])
        time.sleep(behaviour["trickle"])
    return None


def main() -> None:
    """Serve until killed."""
    folder = Path(sys.argv[1])
    (folder / "hook.sock").unlink(missing_ok=True)
    server = _Server(folder)
    (folder / "listening").touch()
    server.serve()


if __name__ == "__main__":
    main()
