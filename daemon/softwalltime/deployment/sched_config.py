"""sched_config, the file of the scheduler's options: read an option, change it in place, reload the scheduler.

A line is ``option: value when``, where ``when`` is ``prime``, ``non_prime`` or ``all`` and may be missing; a later line
overrides an earlier one.  Lines that begin with ``#`` are comments (OpenPBS, src/scheduler/parse.cpp).  An edit changes
values only, so that comments and layout stay.
"""

import os
import re
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from softwalltime.core.errors import SourceError
from softwalltime.core.written import replaced
from softwalltime.deployment.ownership import WritableByOthers, file_writable_by_others

LOCK = "sched.lock"
"""File beside sched_config with the process id of the scheduler."""
_ADDED = "# added by softwalltime install\n{option}: {value}\tALL\n"
_TIMES = ("prime", "non_prime")


class OptionLine(NamedTuple):
    """A line of an option: the value without quotes, the times it applies to, and the value's position in the text."""

    value: str
    times: tuple[str, ...]
    start: int
    end: int
    quoted: bool


def lines_of(text: str, option: str) -> list[OptionLine]:
    pattern = re.compile(
        rf"^[ \t]*{re.escape(option)}(?::[ \t]*|[ \t]+)"
        r"""(?:(?P<quote>["'])(?P<quoted>(?:\\\n|(?!(?P=quote))[^\n])*)(?P=quote)|(?P<plain>[^\s"'#]\S*))"""
        r"(?:[ \t]+(?P<when>\w+))?",
        re.MULTILINE,
    )
    entries = []
    for match in pattern.finditer(text):
        group = "plain" if match["quote"] is None else "quoted"
        when = (match["when"] or "all").lower()
        times = _TIMES if when == "all" else (when,) if when in _TIMES else ()
        entries.append(OptionLine(match[group], times, match.start(group), match.end(group), group == "quoted"))
    return entries


def values_of(text: str, option: str) -> tuple[str, ...]:
    return tuple(line.value for line in lines_of(text, option))


def switched(text: str, option: str, default: bool = False) -> frozenset[bool]:
    """Return whether a switch is on, at prime and at non-prime time: two values if they differ.

    :param default: value for times without a line.
    """
    state = dict.fromkeys(_TIMES, default)
    for line in lines_of(text, option):
        number = re.match(r"\d+", line.value)
        on = line.value.lower() == "true" or (number is not None and int(number[0]) > 0)
        state |= dict.fromkeys(line.times, on)
    return frozenset(state.values())


def with_switch(text: str, option: str, *, on: bool) -> str:
    """Return the text with a switch on or off at all times: each line's value changed, or a line added."""
    word = str(on)
    after = with_values(text, option, [word] * len(lines_of(text, option)))
    if switched(after, option) == {on}:
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


def members(text: str, option: str) -> list[str]:
    """Return the members of an option that is a list; the scheduler unites its lines."""
    return [part.strip(" \t\\\n") for value in values_of(text, option) for part in value.split(",") if part.strip()]


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
