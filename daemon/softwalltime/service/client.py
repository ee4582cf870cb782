"""Client of the daemon, for commands and tests."""

import json
import socket
from pathlib import Path
from typing import Any

from softwalltime.errors import SoftwalltimeError
from softwalltime.service.protocol import VERSION


class NoAnswerError(SoftwalltimeError):
    """The daemon does not answer."""


def ask(path: Path, fields: dict[str, Any], timeout: float = 5.0) -> dict[str, Any]:
    """Send one request and return the response.

    :param timeout: seconds for each step.
    :raises NoAnswerError: says what to check.
    """
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(timeout)
            client.connect(str(path))
            client.sendall(json.dumps({"v": VERSION, **fields}).encode() + b"\n")
            received = b"".join(iter(lambda: client.recv(65536), b""))
        answer = json.loads(received)
    except TimeoutError as error:
        raise NoAnswerError(f"{path}: the daemon has not answered in {timeout:g} s") from error
    except PermissionError as error:
        raise NoAnswerError(f"{path}: {error.strerror}: only root and the daemon's user may ask it") from error
    except OSError as error:
        raise NoAnswerError(
            f"{path}: no daemon answers there: {error.strerror or error}; root: see systemctl status softwalltime"
        ) from error
    except ValueError as error:
        # An empty response: the daemon closes the connection of a user that may not connect.
        raise NoAnswerError(f"{path}: the daemon talks to root and its own user only: run this as root") from error
    if "error" in answer:
        raise NoAnswerError(f"{path}: the daemon refuses: {answer['error']}")
    return dict(answer)
