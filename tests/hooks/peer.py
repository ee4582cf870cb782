"""A stand-in for the daemon: a real Unix-socket server in a process of its own, which answers as it is told.

Run as a program it is the server: ``python peer.py FOLDER``.  It reads FOLDER/behaviour.json for each connection and
appends each question to FOLDER/asked.jsonl.  :class:`Peer` starts, stops and suspends it from a test.
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
    """The server as a test sees it.  Behaviours, of which the first that is given counts:

    ``set=N``, ``share=0.5`` (of the walltime) or ``none=True``: a right answer;
    ``raw=TEXT``: that text, whatever it is; ``base64=TEXT``: those bytes;
    ``close=True``: closes at once; ``hang=True``: reads, never answers; ``flood=True``: bytes without end or line end;
    ``trickle=SECONDS``: a right answer of thousands of bytes, one byte at a time, so far apart.
    ``late=SECONDS`` waits before whatever else is said; ``events={"runjob": {...}}`` overrides all of it by event.
    """

    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        self.folder = folder
        self.socket = folder / "hook.sock"
        self._python = python
        self._process: subprocess.Popen[bytes] | None = None
        self._told = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start, and wait until it listens."""
        self.forget()
        if not (self.folder / "behaviour.json").exists():
            self.behave(none=True)
        self._process = subprocess.Popen([self._python, __file__, str(self.folder)])
        deadline = time.monotonic() + 120
        while not self._listens():
            assert time.monotonic() < deadline, "the test peer does not listen"
            time.sleep(0.01)

    def _listens(self) -> bool:
        # Not by connecting: the peer would count that as a connection, and it may be told to misbehave.
        return (self.folder / "listening").exists()

    @property
    def _asked(self) -> Path:
        return self.folder / "asked.jsonl"

    def kill(self) -> None:
        """Kill it, as a crash would: the socket file stays behind."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
            (self.folder / "listening").unlink(missing_ok=True)

    def stop(self) -> None:
        """End it in good order: the socket file is gone."""
        self.kill()
        self.socket.unlink(missing_ok=True)

    def suspend(self) -> None:
        """Stop it without ending it: it still accepts connections, by its kernel, and answers none."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)

    def behave(self, **behaviour: Any) -> None:
        """Say how it shall answer from now on."""
        new = self.folder / "behaviour.new"
        new.write_text(json.dumps(behaviour))
        # The peer reads it again when its time has changed, which need not be so for a file written at the next moment.
        self._told += 1
        os.utime(new, (self._told, self._told))
        new.replace(self.folder / "behaviour.json")

    def forget(self) -> None:
        """Forget the questions so far."""
        self._asked.touch()
        os.truncate(self._asked, 0)

    def asked(self) -> list[dict[str, Any]]:
        """All questions so far."""
        return [json.loads(line) for line in self._asked.read_text().splitlines()]


_SLOW = ("hang", "flood", "trickle", "late", "events")


class _Server:
    """Answers at once in the loop that accepts; only who dawdles gets a thread, which costs more than an answer."""

    def __init__(self, folder: Path) -> None:
        self._told = folder / "behaviour.json"
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
        status = self._told.stat()
        version = status.st_ino, status.st_mtime_ns
        if version != self._known[0]:
            self._known = version, json.loads(self._told.read_text())
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
            question = json.loads(line)
            behaviour = {**behaviour, **behaviour.get("events", {}).get(question["event"], {})}
            time.sleep(behaviour.get("late", 0))
            _say(client, behaviour, question)


def _say(client: socket.socket, behaviour: Mapping[str, Any], question: Mapping[str, Any]) -> None:
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
    elif "share" in behaviour and question["job"]["walltime"]:
        seconds = int(question["job"]["walltime"] * behaviour["share"])
        answer = {"v": 1, "action": "set", "soft_walltime": seconds, "basis": "a share of the walltime"}
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
