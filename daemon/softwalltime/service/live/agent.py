"""The process that talks to PBS for the daemon: one JSON object per line in, one per line out, until the input ends.

    {"op": "ids"}                                                        ->  {"ids": ["7.pbs1", ...]}
    {"op": "jobs", "names": ["job_state", ...], "ids": ["7.pbs1", ...]}  ->  {"jobs": {"7.pbs1": {...}, ...}}
    {"op": "objects", "kind": "vnodes"}                                  ->  {"objects": {"node1": {...}, ...}}
    {"op": "alter", "id": "7.pbs1", "soft_walltime": 600}                ->  {}
    {"op": "alter", "id": "7.pbs1", "predicted": 600}                    ->  {}
    {"op": "alter", "id": "7.pbs1", "predicted_start": "2026-11-22T..."} ->  {}
    {"op": "manager"}                                                    ->  {"manager": true, "user": "..."}
    any                                                                  ->  {"error": "...", "code": 15007}

``server`` in a request names the PBS server; without it that of ``/etc/pbs.conf`` is asked.

It is a separate process for two reasons.  A call of PBS's library cannot be interrupted, and a fault in it ends the
process.  PBS authenticates users with a setuid program, which the daemon's sandbox forbids: systemd starts this process
outside that sandbox (softwalltime-live.socket).  It accepts only these requests: read the server's state, test for
manager privilege, set a soft walltime of a minute or more, set the ordering resource in seconds, and set the resource
that shows expected starts to text of the form ``START_FORM``.
"""

import json
import os
import pwd
import re
import signal
import sys
from typing import Any

from softwalltime.service.live.ifl import KINDS, NO_JOB, Ifl, IflError

MIN_SOFT_WALLTIME_S = 60
"""Minimum soft walltime in seconds: 0 on a running job kills OpenPBS's scheduler."""
ORDERING_RESOURCE = "predicted"
"""The custom resource, in seconds, by which ``job_sort_formula`` may order jobs."""
START_RESOURCE = "predicted_start"
"""The custom resource, a string, that shows a waiting job's expected start."""
_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d"
START_FORM = re.compile(rf"{_TIME}\({_TIME}\.\.{_TIME}\)|unknown", re.ASCII)
"""Valid values: an expected start with its 90% range in local time, or ``unknown``."""


class Agent:
    """Execute requests on one connection to PBS, opened at the first request."""

    def __init__(self) -> None:
        self._ifl: Ifl | None = None

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            if request["op"] == "alter":
                job_id, (resource, value) = request["id"], _resource(request)
                self._connected(request).alter(job_id, {resource: value})
                return {}
            if request["op"] == "objects":
                kind = request["kind"]
                if kind not in KINDS:
                    return {"error": f"there are no {kind!r} to read", "code": 0}
                return {"objects": dict(self._connected(request).objects(kind))}
            if request["op"] == "manager":
                user = pwd.getpwuid(os.geteuid()).pw_name
                return {"manager": self._connected(request).is_manager(), "user": user}
            if request["op"] == "ids":
                return {"ids": self._connected(request).ids()}
            names, ids, subjobs = request["names"], request.get("ids", ()), bool(request.get("subjobs"))
            return {"jobs": dict(self._connected(request).jobs(names, ids, subjobs=subjobs))}
        except IflError as error:
            # The connection may be lost; a new one takes 3 ms.
            if error.code not in NO_JOB and self._ifl is not None:
                self._ifl.close()
                self._ifl = None
            return {"error": str(error), "code": error.code}
        except (KeyError, TypeError, ValueError) as error:
            return {"error": f"the request is not understood: {error!r}", "code": 0}

    def _connected(self, request: dict[str, Any]) -> Ifl:
        self._ifl = self._ifl or Ifl(request.get("server", ""))
        return self._ifl


def _resource(request: dict[str, Any]) -> tuple[str, str]:
    """Return name and value of the resource that a request sets.

    :raises ValueError: if the value is not permitted.
    """
    if START_RESOURCE in request:
        text = request[START_RESOURCE]
        if not isinstance(text, str) or START_FORM.fullmatch(text) is None:
            raise ValueError(f"{str(text)[:80]!r} is no expected start")
        return START_RESOURCE, text
    if ORDERING_RESOURCE in request:
        return ORDERING_RESOURCE, str(max(0, int(request[ORDERING_RESOURCE])))
    seconds = int(request["soft_walltime"])
    if seconds < MIN_SOFT_WALLTIME_S:
        raise ValueError(f"a soft walltime of {seconds} s is below {MIN_SOFT_WALLTIME_S} s")
    return "soft_walltime", str(seconds)


def main() -> None:
    # The daemon ends this process by closing its input, after the request in hand.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    agent = Agent()
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(json.dumps(agent.answer(json.loads(line))).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
