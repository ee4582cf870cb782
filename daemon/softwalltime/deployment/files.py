"""The folder from which the hook is imported: its files, and who may change them."""

import os
import stat
from pathlib import Path

from softwalltime.deployment import configuration
from softwalltime.deployment.configuration import Values
from softwalltime.deployment.ownership import writable_by_others
from softwalltime.deployment.plan import CONFIGURATION, SCRIPT, STATEMENTS, Plan
from softwalltime.errors import SourceError, UsageError

_PUBLIC = 0o644
_PRIVATE = 0o600
"""The configuration may hold PostgreSQL's password."""


def read_own(folder: Path) -> Values | None:
    """The configuration in the folder, which is the administrator's to edit; ``None`` if there is none.

    :raises UsageError: if it cannot be read.
    """
    file = folder / CONFIGURATION
    try:
        return configuration.read(file.read_text(encoding="utf-8"), str(file))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"{file}: {error.strerror if isinstance(error, OSError) else error}{_hint(error)}") from error


def write(plan: Plan, folder: Path) -> list[Path]:
    """Write the files that are not there yet as they should be; returns those that were written.

    :param folder: absolute.
    :raises SourceError: if that is not possible, or if others could change what root is about to import.
    """
    if not str(folder).isprintable() or set(str(folder)) & set(" \t\"'"):
        raise UsageError(f"{folder}: qmgr cannot read files from a path with blanks or quotes; give another FOLDER")
    changed = []
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        _refuse_open_folder(folder)
        for name, content in plan.files.items():
            file = folder / name
            mode = _PRIVATE if name == CONFIGURATION else _PUBLIC
            if _closed(file, mode) and file.read_text(encoding="utf-8") == content:
                continue
            # In one step, so that nobody ever reads half of it, and not through a link that somebody laid.
            beside = _beside(file)
            beside.unlink(missing_ok=True)
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                stream.write(content)
            beside.rename(file)
            changed.append(file)
    except OSError as error:
        raise SourceError(f"{error.filename or folder}: cannot be written: {error.strerror}{_hint(error)}") from error
    except UnicodeDecodeError as error:
        raise SourceError(f"{folder}: a file there is not UTF-8: {error}; move it away") from error
    return changed


def _hint(error: Exception) -> str:
    return "; run this as root on the PBS server's host" if isinstance(error, PermissionError) else ""


def _closed(file: Path, mode: int) -> bool:
    """Whether it is a plain file of ours with no more permissions than these: who may write could still do so before
    PBS reads it.
    """
    try:
        status = file.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & ~mode


def _beside(file: Path) -> Path:
    """What a file is written to before it is in its place."""
    return file.with_name(f".{file.name}.new")


def _refuse_open_folder(folder: Path) -> None:
    """PBS runs as root what root imports from here."""
    if os.geteuid() != 0:
        return
    if (found := writable_by_others(folder)) is not None:
        raise SourceError(
            f"{found.path} {found.reason}, and PBS would run as root what is put there: run {found.remedy}, or give "
            "another FOLDER"
        )


def files_in(folder: Path) -> list[Path]:
    """Those of our files that are there, be it half written or a link to nothing."""
    files = [folder / name for name in (SCRIPT, CONFIGURATION, STATEMENTS)]
    return [each for file in files for each in (file, _beside(file)) if os.path.lexists(each)]


def remove_files(folder: Path) -> list[Path]:
    """Remove what :func:`write` wrote, and the folder if nothing else is in it; returns what was removed.

    :raises SourceError: if that is not possible.
    """
    removed = files_in(folder)
    try:
        for file in removed:
            file.unlink()
        if removed and not any(folder.iterdir()):
            folder.rmdir()
    except OSError as error:
        raise SourceError(f"{error.filename or folder}: cannot be removed: {error.strerror}{_hint(error)}") from error
    return removed
