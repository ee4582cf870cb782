"""A real PBS server to test against: whatever the command in SOFTWALLTIME_TEST_PBS runs things on.

``$SOFTWALLTIME_TEST_PBS [-u USER] COMMAND...`` must run a command where PBS's commands are on the path, as root or as a
user; the server must be there for tests only, have the users alice, bob and carol, the queues of :data:`QUEUES` with
``default_queue = route_q``, and keep job history.  What it has of hooks called ``softwalltime`` is replaced.  While the
tests run, its first vnode has :data:`PROCESSORS` processors, whatever the machine has, and other vnodes have none;
tests that need promised starts set strict ordering in its ``sched_config``.
"""

import json
import os
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from tests.samples import ROOT

RUNNER = "SOFTWALLTIME_TEST_PBS"
PROCESSORS = 16
"""Processors of the server while the tests run; jobs sleep, so that the machine needs no more than one."""
WHOLE = f"select=1:ncpus={PROCESSORS}"
"""What a job requests that runs alone."""
HOOK = ROOT / "hooks" / "softwalltime_hook.py"
EVENTS = ("queuejob", "postqueuejob", "modifyjob", "runjob", "resvsub", "modifyresv")
"""The events of the hook; servers before OpenPBS 23 do not know all of them."""
STRICT = r"^strict_ordering:.*$"
"""Pattern of the setting in sched_config without which PBS promises no start."""
QUEUES = {
    "short": {
        "queue_type": "Execution",
        "resources_default.walltime": "00:10:00",
        "resources_max.walltime": "02:00:00",
    },
    "long": {"queue_type": "Execution", "resources_default.walltime": "24:00:00", "resources_min.walltime": "02:00:01"},
    "nodefault": {"queue_type": "Execution"},
    "workq": {"queue_type": "Execution"},
    "route_q": {"queue_type": "Route", "route_destinations": "short"},
}
"""Queues that the tests count on, with what matters of each; route_q leads to short and to long."""


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a command."""

    status: int
    output: str
    error: str

    @property
    def ok(self) -> bool:
        return self.status == 0


@dataclass
class Lab:
    """The server, controlled by PBS's commands."""

    runner: list[str]
    jobs: list[str] = field(default_factory=list)

    @classmethod
    def configured(cls) -> "Lab | None":
        """Return the server that the environment names; ``None`` if it names none."""
        command = os.environ.get(RUNNER)
        return cls(shlex.split(command)) if command else None

    def run(self, *command: str, user: str | None = None, timeout: float = 60) -> Done:
        """Run a command on the server's host."""
        done = subprocess.run(
            [*self.runner, *(["-u", user] if user else []), *command],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        return Done(done.returncode, done.stdout.strip(), done.stderr.strip())

    def must(self, *command: str, user: str | None = None) -> str:
        """Run a command that must succeed; return its output."""
        done = self.run(*command, user=user)
        assert done.ok, f"{command}: {done.error or done.output}"
        return done.output

    def json(self, *command: str) -> dict[str, Any]:
        """Run a command that prints JSON; the document."""
        document: dict[str, Any] = json.loads(self.must(*command))
        return document

    def qmgr(self, statement: str) -> str:
        """Run a statement of qmgr."""
        return self.must("qmgr", "-c", statement)

    def create_resource(self, name: str, kind: str = "long", flag: str = "r") -> None:
        """Create a custom resource, unless the server has it.

        It stays: PBS keeps the resources of the last job that a hook has seen, and pbs_server may crash at a later
        event when one of them was deleted.
        """
        if f"Resource {name}\n" not in self.qmgr("list resource") + "\n":
            self.qmgr(f"create resource {name} type={kind},flag={flag}")

    def qsub(self, *options: str, user: str = "alice", command: Iterable[str] = ("/bin/sleep", "60")) -> str:
        """Submit a job; return its id."""
        job = self.must("qsub", "-o", "/dev/null", "-e", "/dev/null", *options, "--", *command, user=user)
        self.jobs.append(job)
        return job

    def qalter(self, job: str, *options: str, user: str = "alice") -> Done:
        """Alter a job, by default as its owner."""
        return self.run("qalter", *options, job, user=None if user == "root" else user)

    def job(self, job: str) -> dict[str, Any]:
        """Return the attributes of a job, also after its end."""
        jobs: dict[str, dict[str, Any]] = json.loads(self.must("qstat", "-x", "-f", "-F", "json", job))["Jobs"]
        return next(iter(jobs.values()))

    def soft(self, job: str) -> int | None:
        """Return a job's soft walltime in seconds."""
        return seconds(self.job(job).get("Resource_List", {}).get("soft_walltime"))

    def walltime(self, job: str) -> int | None:
        """Return a job's walltime in seconds."""
        return seconds(self.job(job).get("Resource_List", {}).get("walltime"))

    def wait(self, job: str, state: str, timeout: float = 30) -> dict[str, Any]:
        """Wait until the job is in that state (one of several letters)."""
        return until(lambda: (found := self.job(job))["job_state"] in state and found, timeout, f"{job} in {state}")

    @contextmanager
    def virtual_processors(self, count: int) -> Iterator[None]:
        """Give the server's first vnode this number of processors, and other vnodes none, inside the context."""
        before = {
            name: vnode["resources_available"]["ncpus"]
            for name, vnode in self.json("pbsnodes", "-a", "-F", "json")["nodes"].items()
        }
        for name in before:
            self.qmgr(f"set node {name} resources_available.ncpus = {count}")
            count = 0
        try:
            yield
        finally:
            for name, ncpus in before.items():
                self.qmgr(f"set node {name} resources_available.ncpus = {ncpus}")

    @contextmanager
    def vnodes(self, ncpus: int, queues: Sequence[str], sharing: str) -> Iterator[None]:
        """Give the server a vnode of so many processors for each of these queues, and no others, inside the context.

        :param queues: empty: for the jobs of all queues without vnodes of their own.
        """
        names = [f"vn{number}" for number in range(len(queues))]
        file = self.home / "spool" / "vnodes"
        settings = (f"resources_available.ncpus = {ncpus}", f"sharing = {sharing}")
        lines = [f"{name}: {setting}" for name in names for setting in settings]
        # Each as on a host of its own: PBS breaks a chunk across the vnodes of one host.
        lines += [f"{name}: resources_available.host = {name}" for name in names]
        file.write_text("\n".join(["$configversion 2", *lines, ""]))

        def reload() -> None:
            self.must("kill", "-HUP", (self.home / "mom_priv" / "mom.lock").read_text().strip())

        with self.virtual_processors(0):
            self.must("pbs_mom", "-s", "insert", "softwalltime", str(file))
            try:
                reload()

                def has(name: str) -> bool:
                    node = self.json("pbsnodes", "-av", "-F", "json")["nodes"].get(name, {})
                    return bool(node.get("sharing") == sharing)

                until(lambda: all(map(has, names)), 30, "vnodes")
                for name, queue in zip(names, queues, strict=True):
                    if queue:
                        self.qmgr(f"set node {name} queue = {queue}")
                yield
            finally:
                file.unlink()
                self.must("pbs_mom", "-s", "remove", "softwalltime")
                reload()
                time.sleep(3)
                for name in names:
                    self.qmgr(f"delete node {name}")
                # PBS leaves it at 1, and then holds the walltime of exclusive jobs against reservations.
                for name in self.json("pbsnodes", "-a", "-F", "json")["nodes"]:
                    self.qmgr(f"set node {name} in_multivnode_host = 0")

    def reload_scheduler(self) -> None:
        """Let pbs_sched read its files again."""
        self.must("kill", "-HUP", (self.home / "sched_priv" / "sched.lock").read_text().strip())
        time.sleep(1)

    @contextmanager
    def sched_config(self) -> Iterator[Callable[[str, str], None]]:
        """Replace a pattern in sched_config and let pbs_sched read it; undo this at the end."""
        path = self.home / "sched_priv" / "sched_config"
        before = path.read_text()

        def write(text: str) -> None:
            path.write_text(text)
            self.reload_scheduler()

        def replace(pattern: str, by: str) -> None:
            after = re.sub(pattern, by, path.read_text(), flags=re.MULTILINE)
            assert by in after, f"sched_config has no {pattern}"
            write(after)

        try:
            yield replace
        finally:
            write(before)

    @contextmanager
    def dedicated_time(self, start: int, end: int) -> Iterator[None]:
        """Let the machine be dedicated from ``start`` to ``end`` (epoch seconds, whole minutes) inside the context."""
        path = self.home / "sched_priv" / "dedicated_time"
        before = path.read_text()
        period = (time.strftime("%m/%d/%Y %H:%M", time.localtime(each)) for each in (start, end))
        path.write_text(f"{before}\n{' '.join(period)}\n")
        self.reload_scheduler()
        try:
            yield
        finally:
            path.write_text(before)
            self.reload_scheduler()

    @contextmanager
    def fair_share(self, groups: Mapping[str, str], used: Mapping[str, int]) -> Iterator[None]:
        """Let fair share order the jobs, by ncpus*walltime, inside the context.

        :param groups: number, parent and shares of each group in resource_group.
        :param used: what users in that file have used.
        """
        path = self.home / "sched_priv" / "resource_group"
        before = path.read_text()
        lines = (f"{name} {rest}" for name, rest in groups.items())
        path.write_text("\n".join([before, *lines, ""]))
        try:
            with self.sched_config() as replace:
                replace(r"^fairshare_usage_res:.*$", "fairshare_usage_res: ncpus*walltime")
                replace(r"^#?unknown_shares:.*$", "unknown_shares: 10")
                replace(r"^fair_share:.*$", "fair_share: true ALL")
                for user, usage in used.items():
                    self.must("pbsfs", "-s", user, str(usage))
                yield
        finally:
            path.write_text(before)

    def delete_jobs(self) -> None:
        """Delete all jobs with their history."""
        if self.jobs:
            self.run("qdel", "-W", "force", "-x", *self.jobs)
            self.jobs.clear()

    def install(
        self, configuration: Mapping[str, Any], folder: Path, script: Path = HOOK, events: Iterable[str] = EVENTS
    ) -> None:
        """Replace the hook by this one, for the events that the server supports and the configuration enables."""
        chosen = configuration.get("events", {})
        had = [event for event in events if event in self.events and chosen.get(event, True)]
        self.uninstall()
        self.qmgr("create hook softwalltime")
        self.qmgr(f'set hook softwalltime event = "{",".join(had)}"')
        self.qmgr(f"import hook softwalltime application/x-python default {script}")
        file = folder / "softwalltime_hook.json"
        file.write_text(json.dumps(configuration))
        self.qmgr(f"import hook softwalltime application/x-config default {file}")
        self.qmgr("set hook softwalltime enabled = true")

    @cached_property
    def events(self) -> tuple[str, ...]:
        """The supported events of EVENTS: given an unknown event, qmgr lists all known ones."""
        self.uninstall()
        self.qmgr("create hook softwalltime")
        said = self.run("qmgr", "-c", 'set hook softwalltime event = "no_such_event"').error
        self.uninstall()
        events = tuple(event for event in EVENTS if re.search(rf"\b{event}\b", said))
        assert "queuejob" in events, said
        return events

    @cached_property
    def python(self) -> str:
        """The version of the server's embedded Python, such as 3.6.15."""
        with NamedTemporaryFile("w", suffix=".py") as script:
            script.write("import platform\nprint(platform.python_version())\n")
            script.flush()
            return self.must("pbs_python", script.name)

    def uninstall(self) -> None:
        """Delete the hook, if it exists."""
        self.run("qmgr", "-c", "delete hook softwalltime")

    @property
    def home(self) -> Path:
        """PBS_HOME by the server's pbs.conf, which may differ from this host's."""
        conf = self.must("sh", "-c", 'cat "${PBS_CONF_FILE:-/etc/pbs.conf}"')
        found = re.search(r"^PBS_HOME=(.*)$", conf, re.MULTILINE)
        assert found is not None
        return Path(found[1])

    def server_log(self) -> "Log":
        """Return the server log from now on."""
        return Log(self.home / "server_logs")

    def ready(self) -> str:
        """Return why the tests cannot run on this server; "" if they can."""
        done = self.run("qmgr", "-c", "print server")
        if not done.ok:
            return f"{shlex.join(self.runner)} reaches no PBS server: {done.error}"
        if "set server default_queue = route_q" not in done.output:
            return "the server's default_queue is not route_q: qmgr -c 'set server default_queue = route_q'"
        for queue, attributes in QUEUES.items():
            for name, value in attributes.items():
                if f"set queue {queue} {name} = {value}" not in done.output:
                    return f"queue {queue} has not {name} = {value}"
        return ""


class Log:
    """The lines of the server log since the construction; a new log file begins at midnight."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sizes = {path: path.stat().st_size for path in folder.iterdir()}

    def lines(self, about: str = "softwalltime: ") -> list[str]:
        """Return the messages that contain a text."""
        found = []
        for path in sorted(self._folder.iterdir()):
            with path.open(errors="replace") as file:
                file.seek(self._sizes.get(path, 0))
                found += [line.rstrip().split(";", 5)[-1] for line in file if about in line]
        return found


def seconds(duration: str | int | None) -> int | None:
    """Return a duration printed by PBS in seconds."""
    if duration is None:
        return None
    result = 0
    for part in str(duration).split(":"):
        result = 60 * result + int(part)
    return result


def until(probe: Callable[[], Any], timeout: float, what: str) -> Any:
    """Wait until the probe returns a true value; return that value."""
    deadline = time.monotonic() + timeout
    while not (found := probe()):
        assert time.monotonic() < deadline, f"not within {timeout} s: {what}"
        time.sleep(0.1)
    return found
