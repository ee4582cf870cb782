"""The folder from which the hook is imported: its files, and who may change them."""

import os
import stat
from pathlib import Path

from softwalltime.deployment import configuration
from softwalltime.deployment.configuration import Values
from softwalltime.deployment.plan import CONFIGURATION, SCRIPT, STATEMENTS, Plan
from softwalltime.errors import SourceError, UsageError


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
        raise SourceError(f"{file}: {error.strerror if isinstance(error, OSError) else error}") from error


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
            if not file.is_symlink() and file.exists() and file.read_text(encoding="utf-8") == content:
                continue
            # In one step, so that nobody ever reads half of it, and not through a link that somebody laid.
            beside = folder / f".{name}.new"
            beside.unlink(missing_ok=True)
            with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "w") as stream:
                stream.write(content)
            beside.rename(file)
            changed.append(file)
    except OSError as error:
        raise SourceError(f"{error.filename or folder}: cannot be written: {error.strerror}") from error
    return changed


def _refuse_open_folder(folder: Path) -> None:
    """PBS runs as root what root imports from here."""
    if os.geteuid() != 0:
        return
    for each in (folder, *folder.parents):
        status = each.stat()
        # In a sticky folder such as /tmp nobody can replace what is another's.
        open_to_others = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not status.st_mode & stat.S_ISVTX
        if open_to_others or status.st_uid != 0:
            raise SourceError(
                f"{each}: others than root may write here, and PBS would run as root what they put there: run "
                f"chown root {each} and chmod go-w {each}, or give another FOLDER"
            )


def files_in(folder: Path) -> list[Path]:
    """Those of our files that are there."""
    return [folder / name for name in (SCRIPT, CONFIGURATION, STATEMENTS) if (folder / name).exists()]


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
        raise SourceError(f"{error.filename or folder}: cannot be removed: {error.strerror}") from error
    return removed
