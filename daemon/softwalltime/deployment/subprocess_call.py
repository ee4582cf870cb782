"""Function call in a subprocess, which may hang, crash or run as another user."""

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
    """The call failed; the message says why."""


def call_in_subprocess(work: Callable[[], Any], seconds: float, user: str = "") -> Any:
    """Call ``work`` as ``user`` (empty: this user) and return its result, of JSON types, within ``seconds``.

    :raises SubprocessError: if it failed or took longer; the message is that of the error, in one line.
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
        _reap(process)
    if answer is None:
        raise SubprocessError(f"timed out after {seconds:g} s")
    try:
        outcome = json.loads(answer)
    except ValueError:
        raise SubprocessError("the subprocess ended without a result") from None
    if "error" in outcome:
        raise SubprocessError(str(outcome["error"]))
    return outcome["value"]


def _child(work: Callable[[], Any], writing: int, account: pwd.struct_passwd | None) -> None:
    """Run the call and exit without flushing: the parent flushes its buffers itself."""
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
    # A check that fails, for whatever reason, must not end in a traceback.
    except BaseException as error:
        line = json.dumps({"error": f"{type(error).__name__}: {' '.join(str(error).split())}"})
    try:
        data = line.encode()
        while data:
            data = data[os.write(writing, data) :]
    finally:
        os._exit(0)


def _read(reading: int, seconds: float) -> bytes | None:
    """Read until the other end is closed; return ``None`` after a timeout."""
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


def _reap(process: int) -> None:
    """Reap the killed child; a child that hangs in a dead file system is left to init."""
    deadline = time.monotonic() + 1.0
    while os.waitpid(process, os.WNOHANG)[0] == 0 and time.monotonic() < deadline:
        time.sleep(0.005)
