"""Proof on the real scheduler: of three jobs alike, the one whose soft walltime fits before the top job is started.

The jobs run in a queue of their own on one free vnode with N processors:

1. The holder runs on N - 1 processors.
2. The top job needs all N.  The scheduler plans it for the end of the holder: it has an estimated start time.
3. Three small jobs need one processor and have the same walltime, which ends after that start.  The soft walltime of
   the second one ends before it.  They are tried in this order, so that the first one marks its class as not runnable
   unless the scheduler tells soft walltimes apart.
"""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from softwalltime.deployment.finding import Finding, ok, problem, skipped
from softwalltime.deployment.qmgr import PbsError, Qmgr, find, run
from softwalltime.deployment.read_settings import resources_of

CHECK = "proof"
QUEUE = "softwall_proof"
"""Name of the queue; PBS takes at most 15 characters."""
HOLDER, TOP, SMALL = 300, 120, 900
"""Walltimes in seconds; all jobs are deleted after seconds."""
TOO_LONG, SHORT = 600, 60
"""Soft walltimes of the small jobs in seconds."""
PATIENCE = 25.0
"""Seconds until a job must have started or have an estimated start time."""
_ALIVE = "BEQRSTUW"
_BLOCKED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_STRICT = "a PBS manager: strict_ordering: true ALL in sched_config and backfill_depth at least 1; see doctor's lines"
_CLASSES = "root: softwalltime install --preset safe --apply, which adds soft_walltime to resources: in sched_config"


@dataclass(frozen=True, slots=True)
class Proof:
    """One run of the proof.

    :param user: who submits the jobs; empty: this user.
    :param resource: custom resource of the prediction, if PBS has one.
    :param force: run although other jobs run or wait.
    """

    pbs: Qmgr
    user: str = ""
    resource: str = ""
    force: bool = False

    def findings(self) -> Iterator[Finding]:
        """Run the proof, clean up, and yield its result; it takes about a minute at most."""
        try:
            yield self._finding()
        except PbsError as error:
            yield problem(CHECK, f"{error}", "who runs this: a PBS manager must, with --submit-as of an ordinary user")

    def _finding(self) -> Finding:
        others = len(self._call("qselect", "-s", _ALIVE).split())
        if others and not self.force:
            text = f"the server has {others} running or waiting jobs; --force runs the proof even so"
            return skipped(CHECK, text)
        vnode = free_vnode(self._call("pbsnodes", "-a", "-F", "json"))
        if vnode is None:
            return skipped(CHECK, "no free vnode has two or more processors that jobs may share")
        with self._own_queue():
            return self._proven(*vnode)

    def _proven(self, vnode: str, processors: int) -> Finding:
        holder = self._submit(vnode, processors - 1, HOLDER, HOLDER)
        self._release(holder)
        if not self._wait(lambda: self._state(holder) == "R"):
            comment = str(self._jobs().get(holder, {}).get("comment", "")) or "without a comment of the scheduler"
            return skipped(CHECK, f"the job that should hold {vnode} was not started: {comment}")
        top = self._submit(vnode, processors, TOP, TOP)
        self._release(top)
        if not self._wait(lambda: bool(self._jobs().get(top, {}).get("estimated", {}).get("start_time"))):
            return problem(CHECK, "a blocked job gets no estimated start time: nothing is planned ahead", _STRICT)
        small = [self._submit(vnode, 1, SMALL, soft) for soft in (TOO_LONG, SHORT, TOO_LONG)]
        first, fitting, last = small
        self._release(*small)
        self._wait(lambda: self._state(fitting) == "R")
        jobs = self._jobs()
        states = {job: jobs.get(job, {}).get("job_state", "?") for job in (*small, top)}
        shown = ", ".join(f"{job} {state}" for job, state in states.items())
        alike = f"three jobs with {SMALL} s of walltime behind the top job {top}"
        if states[first] == "R" or states[last] == "R" or states[top] == "R":
            return problem(CHECK, f"{alike}: one that delays the top job was started ({shown})", _STRICT)
        if states[fitting] != "R":
            text = f"{alike}: the one with {SHORT} s of soft walltime was not started ({shown})"
            return problem(CHECK, text, _CLASSES)
        return ok(CHECK, f"{alike}: only {fitting}, whose {SHORT} s of soft walltime fit before it, was started")

    def _submit(self, vnode: str, processors: int, walltime: int, soft: int) -> str:
        """Submit a held job, and give it its soft walltime as a manager; return its id."""
        command = [
            "qsub", "-h", "-q", QUEUE, "-N", "proof", "-o", "/dev/null", "-e", "/dev/null",
            "-l", f"select=1:ncpus={processors}:vnode={vnode}", "-l", "place=free:shared",
            "-l", f"walltime={walltime}", "--", "/bin/sleep", str(walltime),
        ]  # fmt: skip
        job = self._call(*command, user=self.user).strip()
        values = {"soft_walltime": soft, **({self.resource: walltime} if self.resource else {})}
        self._call("qalter", *(word for key, value in values.items() for word in ("-l", f"{key}={value}")), job)
        return job

    def _release(self, *jobs: str) -> None:
        self._call("qrls", *jobs)
        self._cycle()

    def _cycle(self) -> None:
        self.pbs.execute("set server scheduling = True")

    def _wait(self, condition: Callable[[], bool]) -> bool:
        begin = time.monotonic()
        while time.monotonic() < begin + PATIENCE:
            if condition():
                return True
            time.sleep(1.0)
            self._cycle()
        return condition()

    def _state(self, job: str) -> str:
        return str(self._jobs().get(job, {}).get("job_state", "?"))

    def _jobs(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the jobs of the queue by id; those that have ended are missing."""
        try:
            found = json.loads(self._call("qstat", "-f", "-F", "json", QUEUE))
        except ValueError as error:
            raise PbsError(f"qstat: not JSON: {error}") from error
        jobs: Mapping[str, Mapping[str, Any]] = found.get("Jobs", {})
        return jobs

    def _call(self, name: str, *arguments: str, user: str = "") -> str:
        return run([str(self.pbs.qmgr.with_name(name)), *arguments], user=user)

    @contextmanager
    def _own_queue(self) -> Iterator[None]:
        """A queue for the proof; it and its jobs are deleted afterwards, whatever happens."""
        self._clean_up()
        try:
            for each in ("queue_type = Execution", "enabled = True", "started = True"):
                created = "create" if each.startswith("queue_type") else "set"
                self.pbs.execute(f"{created} queue {QUEUE} {each}")
            yield
        finally:
            # An interruption now would leave jobs behind; it is delivered afterwards.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)
            try:
                self._clean_up()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _clean_up(self) -> None:
        """Delete the queue and its jobs, also those of an earlier run that was killed."""
        if QUEUE not in self.pbs.execute("list queue @default").split():
            return
        jobs = self._call("qselect", "-x", "-q", QUEUE).split()
        if jobs:
            with suppress(PbsError):
                self._call("qdel", "-W", "force", "-x", *jobs)
        self.pbs.execute(f"delete queue {QUEUE}")


def prove(resource: str, user: str, *, force: bool) -> Iterator[Finding]:
    """Run the proof on the PBS of this host.

    :param resource: custom resource with the prediction, which PBS need not have.
    :param user: who submits the jobs; empty: who called sudo, else this user.
    """
    try:
        pbs = find()
        known = resource in resources_of(pbs.execute("list resource"))
    except PbsError as error:
        yield skipped(CHECK, str(error))
        return
    submitter = user or os.environ.get("SUDO_USER", "")
    yield from Proof(pbs, submitter, resource if known else "", force).findings()


def free_vnode(printed: str) -> tuple[str, int] | None:
    """Return a free vnode that jobs share and its processors, from the output of ``pbsnodes -a -F json``.

    The one with the fewest processors, at least two; ``None`` if there is none.

    :raises PbsError: if the text is not JSON.
    """
    try:
        nodes = json.loads(printed)["nodes"]
    except (ValueError, KeyError) as error:
        raise PbsError(f"pbsnodes: not as expected: {error}") from error
    found = []
    for name, node in nodes.items():
        processors = node.get("resources_available", {}).get("ncpus", 0)
        used = node.get("resources_assigned", {}).get("ncpus", 0)
        shared = node.get("sharing", "default_shared") in ("default_shared", "ignore_excl", "default_excl")
        own = not node.get("jobs") and not node.get("resv") and not node.get("queue")
        idle = node.get("state") == "free" and own and not used
        if idle and shared and isinstance(processors, int) and processors >= 2:
            found.append((processors, name))
    return None if not found else (min(found)[1], min(found)[0])
