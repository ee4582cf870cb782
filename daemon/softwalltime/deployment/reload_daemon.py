"""Make the running daemon read its settings again."""

import os
import signal
import time
from pathlib import Path

from softwalltime.deployment import probes
from softwalltime.deployment.probes import SubprocessError
from softwalltime.policy.site import SitePolicy
from softwalltime.service.status import OK

PATIENCE = 10.0
"""Seconds until the daemon must have the new policy."""
_BY_HAND = "to do: systemctl reload softwalltime"


def reload_daemon(socket: Path, policy: SitePolicy) -> str:
    """Send the daemon SIGHUP and wait until it has the policy; return one line: what was done, or is to be done."""
    wanted = policy.model_dump(mode="json")
    try:
        status = probes.probe_daemon(socket).status
        if b"softwalltime" not in Path("/proc", str(status.pid), "cmdline").read_bytes():
            return f"{_BY_HAND}  # process {status.pid} is no softwalltime here"
        os.kill(status.pid, signal.SIGHUP)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            status = probes.probe_daemon(socket).status
            # A daemon of another version may know other keys.
            same = all(status.policy[key] == value for key, value in wanted.items() if key in status.policy)
            if same and status.settings == OK:
                return f"done: the daemon has the preset {policy.preset}"
            time.sleep(0.2)
    except SubprocessError as error:
        return f"to do: systemctl start softwalltime  # {error}"
    except OSError as error:
        return f"{_BY_HAND}  # {error.strerror}"
    if status.settings == OK:
        return "done: SIGHUP to the daemon  # it learns for the new policy; softwalltime status shows when it has it"
    return f"{_BY_HAND}  # the daemon's settings: {status.settings}"
