"""Change an option of sched_config, and reload the scheduler.  Only values change, so comments and layout stay."""

import os
import re
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path

from softwalltime.core.errors import SourceError
from softwalltime.core.sched_config import lines_of, switches
from softwalltime.core.written import replaced
from softwalltime.deployment.ownership import WritableByOthers, file_writable_by_others

LOCK = "sched.lock"
"""File beside sched_config with the process id of the scheduler."""
_ADDED = "# added by softwalltime install\n{option}: {value}\tALL\n"


def with_switch(text: str, option: str, *, on: bool) -> str:
    """Return the text with a switch on or off at all times: each line's value changed, or a line added."""
    word = str(on)
    after = with_values(text, option, [word] * len(lines_of(text, option)))
    if switches(after, option) == (on, on):
        return after
    return f"{after}{'' if after.endswith(chr(10)) or not after else chr(10)}{_ADDED.format(option=option, value=word)}"


def with_values(text: str, option: str, values: Sequence[str]) -> str:
    """Return the text with these values in the lines of an option, in their order.

    If there are fewer values than lines, the line added by :func:`with_switch` is removed.
    """
    lines = lines_of(text, option)
    if len(values) < len(lines):
        added = _ADDED.format(option=option, value=lines[-1].value)
        last = text.rfind("\n", 0, lines[-1].start) + 1
        text = text.replace(added, "") if added in text else text[:last] + text[last:].partition("\n")[2]
        lines = lines_of(text, option)
    for line, value in reversed(list(zip(lines, values, strict=True))):
        text = text[: line.start] + value + text[line.end :]
    return text


def with_member(text: str, option: str, member: str) -> str:
    """Return the text with one more member in the last line of a list, which must have a line."""
    line = lines_of(text, option)[-1]
    separator = "" if not line.value.strip() else ", " if line.quoted else ","
    return f"{text[: line.end]}{separator}{member}{text[line.end :]}"


def without_member(text: str, option: str, member: str) -> str:
    for line in reversed(lines_of(text, option)):
        name = re.escape(member)
        value = re.sub(rf"[ \t]*,[ \t]*{name}(?![\w.-])|(?<![\w.-]){name}[ \t]*,[ \t]*", "", line.value)
        text = text[: line.start] + ("" if value.strip() == member else value) + text[line.end :]
    return text


def read(file: Path) -> str:
    """Return the text of a sched_config, preserving line ends and bytes that are not UTF-8.

    :raises SourceError: if it cannot be read.
    """
    try:
        with file.open(encoding="utf-8", errors="surrogateescape", newline="") as stream:
            return stream.read()
    except OSError as error:
        raise SourceError(f"{file}: {error.strerror}; run this as root on the scheduler's host") from error


def rewrite(file: Path, before: str, after: str) -> None:
    """Replace the text of a file atomically; owner, permissions and extended attributes stay.

    :param before: the text from which ``after`` was made; the file must not have changed since.
    :raises SourceError: if it cannot be written, others can change it or its folder, or it was changed meanwhile.
    """
    refuse_open(file)
    try:
        with replaced(file) as stream:
            stream.write(after.encode("utf-8", "surrogateescape"))
            stream.flush()
            status = file.stat()
            os.fchown(stream.fileno(), status.st_uid, status.st_gid)
            shutil.copystat(file, stream.name)
            os.utime(stream.fileno())
            os.fsync(stream.fileno())
            if read(file) != before:
                raise SourceError(f"{file}: changed by somebody else meanwhile; run this again")
    except SourceError as error:
        if not isinstance(error.__cause__, OSError):
            raise
        raise SourceError(f"{error}; run this as root on its host") from error


def refuse_open(file: Path) -> None:
    """Refuse, as root, to write a file that others can change or replace.

    :raises SourceError: says which path it is, and what to do.
    """
    if (entries := open_to_others(file)) is not None:
        raise SourceError(
            f"{file}: root does not write it because {entries.path} {entries.reason}: edit it by hand, or run "
            f"{entries.remedy}"
        )


def open_to_others(file: Path) -> WritableByOthers | None:
    """Return, for root, a path by which other users could change or replace a file, or redirect a write.

    :raises SourceError: if the file cannot be examined.
    """
    if os.geteuid() != 0:
        return None
    try:
        return file_writable_by_others(file)
    except OSError as error:
        raise SourceError(f"{error.filename or file}: {error.strerror}") from error


def reload_scheduler(folder: Path) -> str:
    """Send SIGHUP to the scheduler with this sched_priv; return an error, empty if it was sent.

    Only a pbs_sched process gets the signal: a stale lock file may have the id of another process.
    """
    try:
        process = int((folder / LOCK).read_text().split()[0])
        name = Path("/proc", str(process), "comm").read_text().strip()
    except (OSError, ValueError, IndexError):
        return f"{folder / LOCK} names no running process"
    if not name.startswith("pbs_sched"):
        return f"process {process} of {folder / LOCK} is {name}, not pbs_sched"
    try:
        os.kill(process, signal.SIGHUP)
    except OSError as error:
        return f"process {process}: {error.strerror}"
    return ""
