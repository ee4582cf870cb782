"""Who else may change what is in a folder, or put another in its place: root must not trust what a user can write."""

import os
import stat
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

ROOT = 0


@dataclass(frozen=True, slots=True)
class Loose:
    """A path that others may change, why they may, and what root does about it."""

    path: Path
    reason: str
    remedy: str


def loose(folder: Path, owners: Collection[int] = (ROOT,)) -> Loose | None:
    """The first of the folder and those above it that somebody else than its ``owners`` (user ids) may change.

    Links on the way count too: who owns one decides where it leads.

    :raises OSError: if there is no such folder, or it cannot be seen from here.
    """
    written = folder.absolute()
    real = folder.resolve(strict=True)
    links = (each for each in (written, *written.parents) if each.is_symlink())
    # In a sticky folder such as /tmp nobody can replace what is another's; in this one nobody may even add anything.
    looks = [(real, False), *((each, True) for each in (*real.parents, *links))]
    return next((found for each, above in looks if (found := _loose(each, owners, above=above)) is not None), None)


def loose_below(folder: Path, seen: frozenset[Path] = frozenset()) -> Loose | None:
    """As :func:`loose` for root alone, and of all that is in the folder, or that links in it lead to.

    :param seen: folders that were looked at already, as links may lead in a circle.
    :raises OSError: as :func:`loose`.
    """
    if folder in seen:
        return None
    for above, folders, files in os.walk(folder, onerror=_raise):
        for each in (Path(above, name) for name in (*folders, *files)):
            found = _loose(each, (ROOT,), above=False)
            if found is None and each.is_symlink():
                target = each.resolve(strict=True)
                found = loose_below(target, seen | {folder}) if target.is_dir() else loose_file(target)
            if found is not None:
                return found
    return loose(folder)


def loose_file(file: Path) -> Loose | None:
    """As :func:`loose` for root alone, of a file.

    :raises OSError: as :func:`loose`.
    """
    return _loose(file, (ROOT,), above=False) or loose(file.parent)


def _loose(path: Path, owners: Collection[int], *, above: bool) -> Loose | None:
    status = path.lstat()
    if status.st_uid not in owners:
        return Loose(path, "belongs to another user", f"chown {max(owners) or 'root'} {path}")
    # The permissions of a link mean nothing.
    if stat.S_ISLNK(status.st_mode) or (above and status.st_mode & stat.S_ISVTX):
        return None
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return Loose(path, "can be written by others", f"chmod go-w {path}")
    return None


def _raise(error: OSError) -> None:
    raise error
