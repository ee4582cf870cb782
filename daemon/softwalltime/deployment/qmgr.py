"""Run qmgr, and find PBS's installation."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from softwalltime.core.errors import SoftwalltimeError
from softwalltime.core.pbs_conf import USUAL, conf_file, pbs_home, read_conf

TIMEOUT = 20.0
"""Timeout of a PBS command in seconds; the server does not answer while its hooks run."""
_ELSEWHERE = "unauthorized to access hooks"
_PRINTED = re.compile(r"^set (server|queue|sched|hook|resource) (?:(\S+) )?([\w.]+) (\+?=) (.*)$")


class PbsError(SoftwalltimeError):
    """PBS cannot be reached, or refuses a request."""


class HooksHiddenError(PbsError):
    """PBS shows hooks only to root, and only on the host of the active pbs_server."""


@dataclass(frozen=True, slots=True)
class QmgrObject:
    """A server, queue, scheduler, hook or custom resource: attributes as qmgr prints them, each a list."""

    attributes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def get(self, name: str, default: str = "") -> str:
        """Return the value of an attribute; the parts of a list are joined by commas."""
        return ",".join(self.attributes.get(name, (default,)))

    def parts(self, name: str) -> tuple[str, ...]:
        return tuple(
            part.strip() for value in self.attributes.get(name, ()) for part in value.split(",") if part.strip()
        )


QmgrObjects = Mapping[tuple[str, str], QmgrObject]
"""Objects by kind and name: ("queue", "long"); the server has no name."""


@dataclass(frozen=True, slots=True)
class Qmgr:
    """qmgr of this host, for its PBS server; each method raises a PbsError that names who must do what."""

    qmgr: Path
    home: Path

    def execute(self, statement: str) -> str:
        """Execute a statement and return the output of qmgr."""
        return run([str(self.qmgr), "-c", statement])

    def version(self) -> str:
        """Return the version of the server, as ``23.06.06``."""
        match = re.search(r"pbs_version = (\S+)", self.execute("list server pbs_version"))
        return match[1] if match else ""

    def knows(self, attribute: str) -> bool:
        """Return whether the server has this attribute; qmgr fails at an unknown one, as at the name of a server."""
        try:
            self.execute(f"list server {attribute}")
        except PbsError:
            return False
        return True

    def objects(self, kind: str) -> QmgrObjects:
        """Return the objects that ``print server`` (with its queues), ``print sched``, ``hook`` or ``resource`` prints.

        :raises HooksHiddenError: PBS shows hooks only to root on the server's host.
        """
        # Without hooks, qmgr fails to print them.
        if kind == "hook" and not self.execute("list hook").strip():
            return {}
        return parse(self.execute(f"print {kind}"))


def find(conf: Path | None = None) -> Qmgr:
    """Find qmgr on the PATH, in the folder that /etc/pbs.conf names, or in the default folder.

    :raises PbsError: if it is in none of them.
    """
    file = conf or conf_file()
    # Search the default folder last: it may have an older PBS.
    folders = [f"{folder}/bin" for folder in (read_conf(file).get("PBS_EXEC"), USUAL) if folder]
    search = os.pathsep.join([os.environ.get("PATH", os.defpath), *folders])
    match = shutil.which("qmgr", path=search)
    if match is None:
        raise PbsError(
            f"no qmgr on the PATH, in the folder that {file} names or in {USUAL}/bin: run this on the host of the PBS "
            "server, or set PATH"
        )
    return Qmgr(Path(match), pbs_home(file))


def parse(printed: str) -> QmgrObjects:
    """Parse the statements that ``qmgr -c 'print ...'`` prints; contents of hooks are skipped."""
    found: dict[tuple[str, str], dict[str, tuple[str, ...]]] = {}
    for line in printed.splitlines():
        created = re.match(r"^create (queue|sched|hook|resource) (\S+)", line)
        if created:
            found.setdefault((created[1], created[2]), {})
        elif match := _PRINTED.match(line):
            kind, name, attribute, operator, value = match.groups()
            values = found.setdefault((kind, name or ""), {})
            plain = value.strip().strip("\"'")
            values[attribute] = (*(values.get(attribute, ()) if operator == "+=" else ()), plain)
    return {key: QmgrObject(values) for key, values in found.items()}


def run(command: Sequence[str], seconds: float = TIMEOUT) -> str:
    """Run a command of PBS and return its output.

    :raises HooksHiddenError: if PBS does not show its hooks here.
    :raises PbsError: says in one line what failed, and who must do what.
    """
    name = Path(command[0]).name
    try:
        done = subprocess.run(  # noqa: S603 - PBS's own command with words, without a shell
            command,
            capture_output=True,
            timeout=seconds,
            check=False,
            stdin=subprocess.DEVNULL,
            encoding="utf-8",
            errors="replace",
        )
    except subprocess.TimeoutExpired as error:
        raise PbsError(
            f"{name} has not answered in {seconds:g} s: check whether another command such as qstat -B hangs too"
        ) from error
    except OSError as error:
        raise PbsError(f"{command[0]}: {error.strerror or error}") from error
    # Where hooks are hidden, qmgr lists none and reports success.
    hidden = _ELSEWHERE in done.stderr
    if done.returncode == 0 and not hidden:
        return str(done.stdout)
    message = " ".join((done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}").split())
    raise (HooksHiddenError if hidden else PbsError)(f"{name}: {_advice(message)}")


def _advice(message: str) -> str:
    if _ELSEWHERE in message:
        return f"{message}: PBS shows hooks only to root on the host of the active server; run this there as root"
    if "pbsconf error" in message:
        return f"{message}: run this on the host of the PBS server, or correct /etc/pbs.conf"
    if "cannot connect" in message or "No default server" in message:
        return f"{message}: start the PBS server (systemctl start pbs), or run this on its host"
    if "to event. Should be" in message:
        return f"{message}: set the event that this PBS lacks to false in the hook's configuration"
    if "Unauthorized Request" in message:
        return f"{message}: run this as a manager of the PBS server"
    return message
