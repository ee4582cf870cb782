"""The client: asks for the jobs of the user who runs it, by connecting."""

import socket
from pathlib import Path

from softwalltime.errors import SoftwalltimeError
from softwalltime.users.own_jobs import OwnJobs

SOCKET = Path("/run/softwalltime-me.sock")
"""The socket of softwalltime-me.socket; only root can put another one there."""
TIMEOUT = 5.0
"""Seconds for each step."""
LONGEST = 64 << 20
"""Bytes of an answer: far more than the jobs of one user take."""
_ROOT = "ask your administrators (root: systemctl status softwalltime-me.socket softwalltime-me)"


class NoOwnJobsError(SoftwalltimeError):
    """Nobody tells a user about his jobs; the message says who must act."""


def ask_own_jobs(path: Path = SOCKET) -> OwnJobs:
    """Return the jobs of this process's user.

    :raises NoOwnJobsError: says what to do, and who.
    """
    received = bytearray()
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(TIMEOUT)
            client.connect(str(path))
            while len(received) < LONGEST and (part := client.recv(1 << 20)):
                received += part
    except FileNotFoundError as error:
        raise NoOwnJobsError(f"{path}: not there: this host does not offer it, or it is stopped; {_ROOT}") from error
    except TimeoutError as error:
        raise NoOwnJobsError(f"{path}: no answer within {TIMEOUT:g} s: ask again; then {_ROOT}") from error
    except OSError as error:
        raise NoOwnJobsError(f"{path}: nobody answers: {error.strerror or error}; {_ROOT}") from error
    if not received.endswith(b"\n"):
        raise NoOwnJobsError(f"{path}: the answer was cut off: ask again in some seconds; then {_ROOT}")
    try:
        found = OwnJobs.from_json(received)
    except ValueError as error:
        raise NoOwnJobsError(
            f"{path}: the answer is of another version than this command: {_ROOT.replace('status', 'restart')}"
        ) from error
    if not found.read_at:
        raise NoOwnJobsError(found.problem)
    return found
