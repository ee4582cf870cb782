"""PBS as its administrator sees it: through qmgr, and the few files that say where it is."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from softwalltime.errors import SoftwalltimeError

CONF = Path("/etc/pbs.conf")
USUAL = Path("/opt/pbs")
"""Where PBS is installed if nobody says otherwise."""
PATIENCE = 20.0
"""Seconds that one command of PBS may take: while its hooks run, the server answers nobody."""
_ELSEWHERE = "unauthorized to access hooks"
_PRINTED = re.compile(r"^set (server|queue|sched|hook) (?:(\S+) )?([\w.]+) (\+?=) (.*)$")


class PbsError(SoftwalltimeError):
    """PBS cannot be reached, or refuses."""


class HooksHiddenError(PbsError):
    """PBS shows hooks to root alone, and only on the host whose pbs_server serves now."""


@dataclass(frozen=True, slots=True)
class Thing:
    """A server, queue, scheduler or hook, by its attributes as qmgr prints them; of a list the parts."""

    attributes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def get(self, name: str, default: str = "") -> str:
        """An attribute's value; of a list its parts, joined by commas."""
        return ",".join(self.attributes.get(name, (default,)))

    def parts(self, name: str) -> tuple[str, ...]:
        """The parts of an attribute that is a list."""
        return tuple(
            part.strip() for value in self.attributes.get(name, ()) for part in value.split(",") if part.strip()
        )


Things = Mapping[tuple[str, str], Thing]
"""By kind and name: ("queue", "long"); the server has no name."""


@dataclass(frozen=True, slots=True)
class Pbs:
    """The PBS server that this host's commands speak to."""

    qmgr: Path
    home: Path = Path("/var/spool/pbs")

    def tell(self, statement: str) -> str:
        """What qmgr answers to a statement.

        :raises PbsError: says who must do what.
        """
        return run([str(self.qmgr), "-c", statement])

    def version(self) -> str:
        """Of the server, as ``23.06.06``.

        :raises PbsError: if it cannot be reached.
        """
        found = re.search(r"pbs_version = (\S+)", self.tell("list server pbs_version"))
        return found[1] if found else ""

    def things(self, kind: str) -> Things:
        """What ``print server`` (with its queues), ``print sched`` or ``print hook`` tells of.

        :raises HooksHiddenError: hooks are shown to root on the server's host only.
        :raises PbsError: if it cannot be reached.
        """
        # Where there are no hooks, qmgr ends as if printing none were an error.
        if kind == "hook" and not self.tell("list hook").strip():
            return {}
        return parse(self.tell(f"print {kind}"))


def find(conf: Path | None = None) -> Pbs:
    """PBS on this host: qmgr from the PATH, from where /etc/pbs.conf says, or from where PBS usually is.

    :raises PbsError: if it is in none of them.
    """
    file = conf or Path(os.environ.get("PBS_CONF_FILE") or CONF)
    said = read_conf(file)
    # An older PBS may have been left where it usually is.
    folders = [*([Path(said["PBS_EXEC"])] if said.get("PBS_EXEC") else []), USUAL]
    search = os.pathsep.join([os.environ.get("PATH", os.defpath), *(str(folder / "bin") for folder in folders)])
    found = shutil.which("qmgr", path=search)
    if found is None:
        raise PbsError(
            f"there is no qmgr on the PATH, where {file} says or in {USUAL}/bin: run this on the host of the PBS "
            "server, or set PATH"
        )
    return Pbs(Path(found), Path(said.get("PBS_HOME") or "/var/spool/pbs"))


def year_of(version: str) -> int | None:
    """The year of a version of PBS, which is its first number (2022.1.4, 23.06.06, 19.1.3); ``None``: it has none."""
    number = re.match(r"\d+", version)
    return None if number is None else int(number[0]) % 2000 + 2000


def read_conf(file: Path) -> dict[str, str]:
    """What /etc/pbs.conf says; nothing if it cannot be read."""
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (line.split("=", 1) for line in lines if "=" in line and not line.lstrip().startswith("#"))
    return {key.strip(): value.strip().strip("\"'") for key, value in pairs}


def parse(printed: str) -> Things:
    """Attributes out of the statements that ``qmgr -c 'print ...'`` prints; contents of hooks are passed over."""
    found: dict[tuple[str, str], dict[str, tuple[str, ...]]] = {}
    for line in printed.splitlines():
        created = re.match(r"^create (queue|sched|hook) (\S+)", line)
        if created:
            found.setdefault((created[1], created[2]), {})
        elif match := _PRINTED.match(line):
            kind, name, attribute, operator, value = match.groups()
            values = found.setdefault((kind, name or ""), {})
            plain = value.strip().strip("\"'")
            values[attribute] = (*(values.get(attribute, ()) if operator == "+=" else ()), plain)
    return {key: Thing(values) for key, values in found.items()}


def run(command: Iterable[str], seconds: float = PATIENCE) -> str:
    """The output of one of PBS's commands.

    :raises HooksHiddenError: if hooks cannot be seen from here.
    :raises PbsError: says in one line what went wrong, and who must do what.
    """
    words = list(command)
    name = Path(words[0]).name
    try:
        done = subprocess.run(  # noqa: S603 - PBS's own command with words, without a shell
            words,
            capture_output=True,
            timeout=seconds,
            check=False,
            stdin=subprocess.DEVNULL,
            encoding="utf-8",
            errors="replace",
        )
    except subprocess.TimeoutExpired as error:
        raise PbsError(
            f"{name} has not answered in {seconds:g} s: see whether another command such as qstat -B hangs too"
        ) from error
    except OSError as error:
        raise PbsError(f"{words[0]}: {error.strerror or error}") from error
    # To list all hooks where they are hidden is no error to qmgr, which prints none: as if there were none.
    hidden = _ELSEWHERE in done.stderr
    if done.returncode == 0 and not hidden:
        return done.stdout
    said = " ".join((done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}").split())
    raise (HooksHiddenError if hidden else PbsError)(f"{name}: {_advice(said)}")


def _advice(said: str) -> str:
    if _ELSEWHERE in said:
        return f"{said}: hooks belong to root on the host of the PBS server that serves now; run this there as root"
    if "cannot connect" in said or "No default server" in said:
        return f"{said}: start the PBS server (systemctl start pbs), or run this on its host"
    if "Unauthorized Request" in said:
        return f"{said}: run this as a manager of the PBS server"
    return said
