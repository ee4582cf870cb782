"""Who else may change what is in a folder, or put another in its place: root must not trust what a user can write."""

import os
import stat
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

ROOT = 0


@dataclass(frozen=True, slots=True)
class WritableByOthers:
    """A path that others may change, why they may, and what root does about it."""

    path: Path
    reason: str
    remedy: str


def writable_by_others(folder: Path, owners: Collection[int] = (ROOT,)) -> WritableByOthers | None:
    """The first of the folder and those above it that somebody else than its ``owners`` (user ids) may change.

    Links on the way count too: who owns one decides where it leads.

    :raises OSError: if there is no such folder, or it cannot be seen from here.
    """
    written = folder.absolute()
    real = folder.resolve(strict=True)
    links = (each for each in (written, *written.parents) if each.is_symlink())
    # In a sticky folder such as /tmp nobody can replace what is another's; in this one nobody may even add anything.
    looks = [(real, False), *((each, True) for each in (*real.parents, *links))]
    return next(
        (found for each, above in looks if (found := _writable_by_others(each, owners, above=above)) is not None), None
    )


def writable_by_others_below(folder: Path, seen: frozenset[Path] = frozenset()) -> WritableByOthers | None:
    """As :func:`writable_by_others` for root alone, and of all that is in the folder, or that links in it lead to.

    :param seen: folders that were looked at already, as links may lead in a circle.
    :raises OSError: as :func:`writable_by_others`.
    """
    if folder in seen:
        return None
    for above, folders, files in os.walk(folder, onerror=_raise):
        for each in (Path(above, name) for name in (*folders, *files)):
            found = _writable_by_others(each, (ROOT,), above=False)
            if found is None and each.is_symlink():
                target = each.resolve(strict=True)
                found = (
                    writable_by_others_below(target, seen | {folder})
                    if target.is_dir()
                    else file_writable_by_others(target)
                )
            if found is not None:
                return found
    return writable_by_others(folder)


def file_writable_by_others(file: Path) -> WritableByOthers | None:
    """As :func:`writable_by_others` for root alone, of a file.

    :raises OSError: as :func:`writable_by_others`.
    """
    return _writable_by_others(file, (ROOT,), above=False) or writable_by_others(file.parent)


def _writable_by_others(path: Path, owners: Collection[int], *, above: bool) -> WritableByOthers | None:
    status = path.lstat()
    if status.st_uid not in owners:
        return WritableByOthers(path, "belongs to another user", f"chown {max(owners) or 'root'} {path}")
    # The permissions of a link mean nothing.
    if stat.S_ISLNK(status.st_mode) or (above and status.st_mode & stat.S_ISVTX):
        return None
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return WritableByOthers(path, "can be written by others", f"chmod go-w {path}")
    return None


def _raise(error: OSError) -> None:
    raise error
