"""The folder that the hook is imported from: its files and their permissions."""

import errno
import os
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from softwalltime.core.errors import SourceError, UsageError
from softwalltime.deployment import configuration
from softwalltime.deployment.configuration import Values
from softwalltime.deployment.hook import CONFIGURATION, SCRIPT, TRANSPORT, InstallationPlan
from softwalltime.deployment.ownership import writable_by_others

STATE = "softwalltime_scheduler.json"
"""PBS's settings as they were before a preset changed them."""
_PUBLIC = 0o644
_PRIVATE = 0o600
"""The configuration may contain the password for PostgreSQL."""


def read_own(folder: Path) -> Values | None:
    """Return the configuration in the folder, which the administrator edits; ``None`` if there is none.

    :raises UsageError: if it cannot be read.
    """
    file = folder / CONFIGURATION
    with _named_failure(file), suppress(FileNotFoundError):
        return configuration.read(file.read_text(encoding="utf-8"), str(file))
    return None


def write(plan: InstallationPlan, folder: Path, *, do: bool = True) -> list[Path]:
    """Return the files that are missing or differ, and write them if wanted.

    :param folder: absolute.
    :raises SourceError: if that is impossible, or other users could change what root imports.
    """
    if do and (not str(folder).isprintable() or set(str(folder)) & set(" \t\"'")):
        raise UsageError(f"{folder}: qmgr cannot read files from a path with blanks or quotes; give another FOLDER")
    with _named_failure(folder, "cannot be written: " if do else ""):
        if do:
            _prepare(folder)
        changed = [folder / name for name, content in plan.files.items() if not _current(folder / name, content)]
        for file in changed if do else ():
            _replace(file, plan.files[file.name])
    return changed


def _prepare(folder: Path) -> None:
    """Create the folder; refuse one that others can change: PBS runs as root what root imports from it."""
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    _refuse_open_folder(folder)


def _replace(file: Path, content: str) -> None:
    """Write a temporary file and rename it: atomic, and without following symbolic links."""
    # A unique name: another command may write the same file concurrently.
    with tempfile.NamedTemporaryFile(
        "w", dir=file.parent, prefix=_unfinished(file), encoding="utf-8", delete=False
    ) as stream:
        stream.write(content)
        stream.flush()
        os.fchmod(stream.fileno(), _mode(file.name))
        os.fsync(stream.fileno())
    Path(stream.name).rename(file)


def read_state(folder: Path) -> str:
    """Return the text of the file with PBS's earlier settings; empty if there is none.

    :raises SourceError: if it cannot be read, or others can change what root would do to PBS.
    """
    file = folder / STATE
    with _named_failure(file), suppress(FileNotFoundError):
        text = file.read_text(encoding="utf-8")
        _refuse_open_folder(folder)
        if os.geteuid() == 0 and not _closed(file, _PRIVATE):
            raise SourceError(f"{file}: others can change it; check it, then run chown root {file}; chmod 600 {file}")
        return text
    return ""


def write_state(folder: Path, text: str) -> None:
    """Write the file with PBS's earlier settings; an empty text removes it, and the folder if nothing else is in it.

    :raises SourceError: if that is impossible, or others can change the folder.
    """
    file = folder / STATE
    with _named_failure(file, "cannot be written: "):
        if text:
            _prepare(folder)
            _replace(file, text + "\n")
        else:
            with suppress(FileNotFoundError):
                file.unlink()
                _remove_empty(folder)


def _mode(name: str) -> int:
    return _PRIVATE if name in (CONFIGURATION, STATE) else _PUBLIC


def _current(file: Path, content: str) -> bool:
    return _closed(file, _mode(file.name)) and file.read_text(encoding="utf-8") == content


@contextmanager
def _named_failure(path: Path, what: str = "") -> Iterator[None]:
    """Translate OSError to an error that names the refused file, else ``path``, and the remedy."""
    try:
        yield
    except OSError as error:
        hint = "; run this as root on the PBS server's host" if isinstance(error, PermissionError) else ""
        raise SourceError(f"{error.filename or path}: {what}{error.strerror}{hint}") from error
    except UnicodeDecodeError as error:
        raise SourceError(f"{path}: not UTF-8: {error}; move it away") from error


def _closed(file: Path, mode: int) -> bool:
    """Return whether it is a regular file of this user with no more permissions than ``mode``.

    Another user who can write to it could do so before PBS reads it.
    """
    try:
        status = file.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & ~mode


def _unfinished(file: Path) -> str:
    """Return the prefix of a file's temporary names."""
    return f".{file.name}.new"


def _refuse_open_folder(folder: Path) -> None:
    if os.geteuid() != 0:
        return
    if (found := writable_by_others(folder)) is not None:
        raise SourceError(
            f"{found.path} {found.reason}, and PBS would run its contents as root: run {found.remedy}, or give "
            "another FOLDER"
        )


def _remove_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
            raise


def files_in(folder: Path) -> list[Path]:
    """Return the existing files of the hook, temporary files and dangling links included."""
    files = [folder / name for name in (TRANSPORT, SCRIPT, CONFIGURATION)]
    try:
        present = sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):  # Another command may remove it at the same moment.
        return []
    unfinished = tuple(_unfinished(file) for file in files)
    return [file for file in files if file in present] + [path for path in present if path.name.startswith(unfinished)]


def remove_files(folder: Path, more: Sequence[Path] = ()) -> list[Path]:
    """Remove what :func:`write` wrote, and the folder if nothing else is in it; returns what was removed.

    :param more: other files to remove.
    :raises SourceError: if that is not possible.
    """
    removed = files_in(folder)
    with _named_failure(folder, "cannot be removed: "):
        for file in (*removed, *more):
            file.unlink(missing_ok=True)
        if removed:
            _remove_empty(folder)
    return [*removed, *more]
