"""Paths that users other than their owners can change or replace; root must not trust them."""

import os
import stat
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from softwalltime.core.settings import settings_files

ROOT = 0


class WritableByOthers(NamedTuple):
    """A path that other users can change, the reason, and the command that corrects it."""

    path: Path
    reason: str
    remedy: str


def writable_by_others(folder: Path, owners: Collection[int] = (ROOT,)) -> WritableByOthers | None:
    """Return the first of the folder and its parents that a user other than ``owners`` (user ids) can change.

    Symbolic links in the path count too, because the owner of a link decides where it leads.

    :raises OSError: if the folder does not exist or cannot be examined.
    """
    written = folder.absolute()
    real = folder.resolve(strict=True)
    links = (link for link in (written, *written.parents) if link.is_symlink())
    # In a sticky parent such as /tmp only the owner can replace a file.  The folder itself must not be writable.
    checks = [(real, False), *((parent, True) for parent in (*real.parents, *links))]
    return next(
        (risk for each, above in checks if (risk := _writable_by_others(each, owners, above=above)) is not None), None
    )


def writable_by_others_below(folder: Path, seen: frozenset[Path] = frozenset()) -> WritableByOthers | None:
    """Check a folder, its contents and the targets of its links with :func:`writable_by_others`, with root as owner.

    :param seen: folders examined already, because links may form a circle.
    :raises OSError: as :func:`writable_by_others`.
    """
    if folder in seen:
        return None
    for above, folders, files in os.walk(folder, onerror=_raise):
        for each in (Path(above, name) for name in (*folders, *files)):
            risk = _writable_by_others(each, (ROOT,), above=False)
            if risk is None and each.is_symlink():
                target = each.resolve(strict=True)
                risk = (
                    writable_by_others_below(target, seen | {folder})
                    if target.is_dir()
                    else file_writable_by_others(target)
                )
            if risk is not None:
                return risk
    return writable_by_others(folder)


def file_writable_by_others(file: Path, owners: Collection[int] = (ROOT,)) -> WritableByOthers | None:
    """Return as :func:`writable_by_others` what of a file, its folder and those above it others may change.

    Where the file is a link, the file that it leads to counts too.

    :raises OSError: as :func:`writable_by_others`.
    """
    for path in dict.fromkeys((file, file.resolve(strict=True))):
        risk = _writable_by_others(path, owners, above=False) or writable_by_others(path.parent, owners)
        if risk is not None:
            return risk
    return None


def settings_writable_by_others(config: Path | None, owners: Collection[int] = (ROOT,)) -> WritableByOthers | None:
    """Return the first path by which a user other than the owners may change the settings.

    :param config: settings file; ``None``: the default ones.
    """
    for file in settings_files(config):
        try:
            risk = file_writable_by_others(file, owners)
        except OSError:
            # A file that cannot be read is reported where it is read; a pipe has no path.
            continue
        if risk is not None:
            return risk
    return None


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
