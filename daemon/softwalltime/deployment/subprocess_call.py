"""Something done in a process of its own: it may hang, crash or need to be another user, and we go on."""

import json
import os
import pwd
import select
import signal
import time
from collections.abc import Callable
from typing import Any

from softwalltime.errors import SoftwalltimeError


class SubprocessError(SoftwalltimeError):
    """It came to nothing; the message says why."""


def call_in_subprocess(work: Callable[[], Any], seconds: float, user: str = "") -> Any:
    """What ``work`` returns, in JSON's types, done as ``user`` (empty: as we are) within ``seconds``.

    :raises SubprocessError: if it failed or took longer; the message is that of the error, on one line.
    """
    account = pwd.getpwnam(user) if user else None
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reading)
        _child(work, writing, account)
    os.close(writing)
    try:
        answer = _read(reading, seconds)
    finally:
        os.close(reading)
        os.kill(process, signal.SIGKILL)
        _bury(process)
    if answer is None:
        raise SubprocessError(f"not done in {seconds:g} s")
    try:
        outcome = json.loads(answer)
    except ValueError:
        raise SubprocessError("it ended without an answer") from None
    if "error" in outcome:
        raise SubprocessError(str(outcome["error"]))
    return outcome["value"]


def _child(work: Callable[[], Any], writing: int, account: pwd.struct_passwd | None) -> None:
    """Never returns: what the parent has opened and would flush at its end is the parent's."""
    try:
        if account is not None:
            os.initgroups(account.pw_name, account.pw_gid)
            os.setgid(account.pw_gid)
            os.setuid(account.pw_uid)
            os.environ.update(HOME=account.pw_dir, USER=account.pw_name, LOGNAME=account.pw_name)
        outcome = {"value": work()}
        line = json.dumps(outcome)
    except SoftwalltimeError as error:
        line = json.dumps({"error": " ".join(str(error).split())})
    # Whatever it is: a check that cannot be done is no reason for a traceback.
    except BaseException as error:
        line = json.dumps({"error": f"{type(error).__name__}: {' '.join(str(error).split())}"})
    try:
        data = line.encode()
        while data:
            data = data[os.write(writing, data) :]
    finally:
        os._exit(0)


def _read(reading: int, seconds: float) -> bytes | None:
    """All that comes until the other end is closed, or ``None`` if that takes too long."""
    deadline = time.monotonic() + seconds
    parts: list[bytes] = []
    while True:
        ready, _, _ = select.select([reading], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return None
        part = os.read(reading, 65536)
        if not part:
            return b"".join(parts)
        parts.append(part)


def _bury(process: int) -> None:
    """Collect the killed child; one that a dead file system holds is left to init."""
    deadline = time.monotonic() + 1.0
    while os.waitpid(process, os.WNOHANG)[0] == 0 and time.monotonic() < deadline:
        time.sleep(0.005)
