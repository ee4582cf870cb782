"""Read what a job requests: from a job script, or from options of qsub."""

import getopt
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from softwalltime.accounting.chunks import requested_select, totals
from softwalltime.accounting.conversions import duration, whole
from softwalltime.core.errors import SourceError, UsageError
from softwalltime.core.formatting import printable

EXAMPLE = "-l select=4:ncpus=32,walltime=4:00:00 -q long"
PREFIX = "#PBS"
MAX_SCRIPT_BYTES = 1 << 20
"""Bytes of a job script to read; directives precede its first command."""
_OPTIONS = "a:A:c:C:e:fG:hIj:J:k:l:m:M:N:o:p:P:q:r:R:S:u:v:VW:w:Xxz"
"""The options of qsub; a colon follows those with a value."""
_READ = ("select", "nodes", "ncpus", "walltime")
_CONSIDERED = ("", *_READ, "mpiprocs", "ompthreads", "soft_walltime")
"""Resources that are read here, or do not change where a job fits."""


@dataclass(frozen=True, slots=True)
class JobRequest:
    """What a job requests."""

    queue: str
    """Value of -q; empty: none."""
    ncpus: int
    """Number of processors."""
    walltime: int | None
    """Walltime, seconds; null: none requested."""
    ignored: tuple[str, ...]
    """Requested resources that forecasts do not consider."""


def request_of_qsub(text: str) -> JobRequest:
    """Return what a job requests.

    :param text: arguments of qsub if it begins with ``-``, perhaps with a script at the end, else the path of a job
        script.  Arguments replace the directives of the script.
    :raises SourceError: if the script cannot be read.
    :raises UsageError: names the line or option that qsub would not take, or that cannot be read.
    """
    own, rest = _parsed("", text) if text.lstrip().startswith("-") else ([], [text])
    directives: list[tuple[str, str]] = []
    for where, line in _directives(Path(rest[0])) if rest else ():
        of_line, more = _parsed(where, line)
        if more and not more[0].startswith("#"):
            raise UsageError(f"{where}{printable(more[0])} is no option of qsub: write them as in {EXAMPLE}")
        directives += of_line
    queue, resources = "", dict[str, str]()
    for option, value in (*directives, *own):
        queue = value if option == "-q" else queue
        if option == "-l":
            resources |= dict(part.strip().partition("=")[::2] for part in value.split(","))
    select = requested_select(resources)
    try:
        seconds = duration(resources["walltime"]) if "walltime" in resources else None
        # Of nodes without ppn, ncpus is the sum.
        processors = max(totals(select)[0], whole(resources.get("ncpus", "1")))
    except ValueError as error:
        given = ",".join(f"{name}={resources[name]}" for name in _READ if name in resources)
        raise UsageError(f"{printable(given)}: {error}: write it as in {EXAMPLE}") from error
    if processors < 1 or seconds == 0:
        raise UsageError(f"a job needs at least one processor and one second: write it as in {EXAMPLE}")
    chunk_resources = (part.partition("=")[0] for part in re.split("[+:]", select) if "=" in part)
    ignored = [name for name in dict.fromkeys((*resources, *chunk_resources)) if name not in _CONSIDERED]
    return JobRequest(queue, processors, seconds, tuple(map(printable, ignored)))


def _parsed(where: str, line: str) -> tuple[list[tuple[str, str]], list[str]]:
    """Return options with their values, and what follows them: nothing if that is a command, after ``--``."""
    try:
        words = shlex.split(line)
        options, rest = getopt.getopt(words, _OPTIONS)
    except (getopt.GetoptError, ValueError) as error:
        raise UsageError(f"{where}{printable(line)}: {error}: write options as for qsub, such as {EXAMPLE}") from error
    return options, [] if "--" in words[-len(rest) - 1 :][:1] else rest


def _directives(script: Path) -> Iterator[tuple[str, str]]:
    """Yield place and options of each directive before the first command, as qsub reads them."""
    try:
        with script.open("rb") as file:
            lines = file.read(MAX_SCRIPT_BYTES).decode(errors="replace").splitlines()
    except (OSError, ValueError) as error:
        what = getattr(error, "strerror", None) or error
        raise SourceError(
            f"{printable(str(script))}: {what}: give a job script, or options such as {EXAMPLE!r}"
        ) from error
    for number, line in enumerate(map(str.strip, lines), 1):
        if line.startswith(PREFIX):
            yield f"{printable(str(script))}:{number}: ", line.removeprefix(PREFIX)
        elif line and not line.startswith("#") and not (number == 1 and line.startswith(":")):
            return
