"""A daemon that sends invalid responses."""

import socket
import threading
from contextlib import suppress
from pathlib import Path
from random import Random

ANSWERS = (
    b"",
    b"\n",
    b"null\n",
    b"[]\n",
    b"\xff\xfe\x00garbage\n",
    b'{"v": 1, "action": "set", "soft_wallt',
    b'{"v": 1, "action": "set", "soft_walltime": 600}',
    b'{"v": 1, "action": "set"}\n',
    b'{"v": 1, "action": "set", "soft_walltime": "600"}\n',
    b'{"v": 1, "action": "set", "soft_walltime": 600.5}\n',
    b'{"v": 1, "action": "set", "soft_walltime": 0}\n',
    b'{"v": 1, "action": "set", "soft_walltime": -600}\n',
    b'{"v": 1, "action": "set", "soft_walltime": true}\n',
    b'{"v": 1, "action": "set", "soft_walltime": NaN}\n',
    b'{"v": 1, "action": "set", "soft_walltime": 1' + b"0" * 300 + b"}\n",
    b'{"v": 1, "action": "set", "soft_walltime": 999999999999, "basis": 7}\n',
    b'{"v": 1, "action": "kill", "soft_walltime": 600}\n',
    b'{"v": 1, "action": ["set"], "soft_walltime": {}}\n',
    b'{"v": 3, "action": "set", "soft_walltime": 600}\n',
    b'{"v": 2, "action": "set", "soft_walltime": 600, "ordering": 0}\n',
    b'{"v": 2, "action": "none", "ordering": "600"}\n',
    b'{"action": "set", "soft_walltime": 600}\n',
    b'{"v": 1, "error": "\\u0000\\ud800"}\n',
    b"[" * 60_000 + b"\n",
    b"x" * 200_000,
)
"""Invalid answers, which a hook must ignore."""


class BadAnswers:
    """A server on a real Unix socket that sends invalid answers or none."""

    def __init__(self, path: Path, random: Random) -> None:
        self._path = path
        self._random = random
        self._held: list[socket.socket] = []

    def start(self) -> None:
        """Start to listen."""
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._path))
        self._listener.listen(64)
        self._thread = threading.Thread(target=self._serve, name="bad answers", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop and remove the socket."""
        # A close does not wake the thread up.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for peer in (self._listener, *self._held):
            peer.close()
        self._held.clear()
        self._path.unlink(missing_ok=True)

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with suppress(OSError):
                if self._random.random() < 0.9:
                    client.recv(65536)
                answer = self._random.choice(ANSWERS)
                if not answer and self._random.random() < 0.5:
                    self._held.append(client)  # No answer: the hook waits until its deadline.
                    continue
                client.sendall(answer)
            client.close()
