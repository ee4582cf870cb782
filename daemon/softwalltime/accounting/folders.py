"""Find the accounting logs in a command's paths, also in subfolders and under other names."""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from softwalltime.accounting.daily_files import log_day, without_compressed_copies
from softwalltime.accounting.log_file import opened
from softwalltime.accounting.recognition import require_log
from softwalltime.core.errors import SourceError, UnsuitableFileError, summary

MAX_DEPTH = 4
"""Maximum levels of subfolders to search."""
_DAY = re.compile(r"\d{8}")


@dataclass(slots=True)
class FoundLogs:
    """The log files, and other files in folders with the reason why they are not logs."""

    files: list[Path] = field(default_factory=list)
    left_out: list[SourceError] = field(default_factory=list)
    broken: list[SourceError] = field(default_factory=list)
    """Files and folders in given folders that cannot be read."""


def find_logs(paths: Iterable[Path]) -> FoundLogs:
    """Return all logs of the paths, each once, in the given order; those of a folder by day.

    A file is returned as it is.  In a folder and the folders below it, files named YYYYMMDD are logs, compressed or
    not, and other files if they begin with accounting records.

    :raises SourceError: if a path does not exist, or a folder has no log.
    """
    logs = FoundLogs()
    for path in paths:
        try:
            if not path.is_dir():
                path.stat()
                logs.files.append(path)
                continue
        except OSError as error:
            raise SourceError(f"{path}: {error.strerror or error}") from error
        files, others = _logs_of(path)
        if not files:
            lines = "".join(f"; {line}" for line in summary(others))
            raise SourceError(f"{path}: the folder holds no accounting log{lines}")
        logs.files += files
        for other in others:
            (logs.left_out if isinstance(other, UnsuitableFileError) else logs.broken).append(other)
    logs.files = list(dict.fromkeys(logs.files))
    return logs


def _logs_of(folder: Path) -> tuple[list[Path], list[SourceError]]:
    logs, others = [], []
    for item in _walk(folder, MAX_DEPTH, set()):
        if isinstance(item, SourceError):
            others.append(item)
        elif log_day(item.name):
            logs.append(item)
        else:
            try:
                with opened(item) as file:
                    require_log(file)
                logs.append(item)
            except SourceError as error:
                others.append(error)
    return sorted(without_compressed_copies(logs), key=_by_day), others


def _by_day(path: Path) -> tuple[str, str]:
    day = _DAY.search(path.name)
    return day.group() if day else "", str(path)


def _walk(folder: Path, depth: int, parents: set[tuple[int, int]]) -> Iterator[Path | SourceError]:
    """Yield the files of a folder and its subfolders, by name; an error for each folder that is not searched.

    :param parents: device and inode of the folders above it.
    """
    try:
        status = folder.stat()
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        yield SourceError(f"{folder}: {error.strerror or error}")
        return
    identity = status.st_dev, status.st_ino
    if identity in parents:
        yield UnsuitableFileError(folder, "a link to a folder above it")
        return
    for entry in entries:
        path = Path(entry.path)
        if entry.name.startswith("."):
            yield UnsuitableFileError(path, "hidden")
        elif log_day(entry.name) or not path.is_dir():
            # The reader says what is wrong with a folder or a special file of this name.
            yield path
        elif depth == 0:
            yield UnsuitableFileError(path, f"a folder more than {MAX_DEPTH} levels down: give it too")
        else:
            yield from _walk(path, depth - 1, parents | {identity})
