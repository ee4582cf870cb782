"""Write files atomically: to a temporary file that is then renamed."""

import csv
import io
import os
import secrets
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from softwalltime.core.errors import SourceError
from softwalltime.core.formatting import csv_cell


@contextmanager
def replaced(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Yield a temporary file that replaces ``path`` at the end; after an error it is removed.

    Its name is random and it is created exclusively, because a folder of another user may have malicious links.  Root
    does not follow a link at ``path`` either.

    :param mode: of the new file, before the umask.
    :raises SourceError: if the file cannot be written.
    """
    try:
        if os.geteuid() == 0 and path.is_symlink() and path.lstat().st_uid != 0:
            raise SourceError(f"{path}: root does not follow this link of another user: name another file")
        target = path.resolve()
        # A FIFO or device is written directly.
        direct = target.exists() and not target.is_file()
        unfinished = target if direct else target.with_name(f".{target.name}.{secrets.token_hex(8)}")
        with open(
            unfinished, "wb" if direct else "xb", opener=lambda name, flags: os.open(name, flags, mode)
        ) as stream:
            if direct:
                yield stream
                return
            try:
                yield stream
                stream.close()
                unfinished.replace(target)
            finally:
                unfinished.unlink(missing_ok=True)
    except OSError as error:
        raise SourceError(f"{path}: cannot be written: {error.strerror or error}") from error


def write_text(path: Path, text: str, errors: str = "strict") -> None:
    """Write a text in UTF-8.

    :param errors: what is done about characters that it does not have, as for ``str.encode``.
    :raises SourceError: if the file cannot be written.
    """
    with replaced(path) as stream:
        stream.write(text.encode("utf-8", errors))


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Write rows as CSV; ``None`` is empty.

    :raises SourceError: if the file cannot be written.
    """
    with (
        replaced(path) as stream,
        io.TextIOWrapper(stream, encoding="utf-8", errors="backslashreplace", newline="") as text,
    ):
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([csv_cell(value) if isinstance(value, str) else value for value in row] for row in rows)


def temporary_folder(parent: Path | None, prefix: str) -> tempfile.TemporaryDirectory[str]:
    """Create a folder, in ``parent`` if that is given, which a ``with`` block removes at its end.

    :raises SourceError: if it cannot be created.
    """
    try:
        return tempfile.TemporaryDirectory(prefix=prefix, dir=parent)
    except OSError as error:
        raise SourceError(f"{parent}: cannot be written: {error.strerror}") from error


def require_folder(file: Path | None) -> None:
    """Raise an error if the file's folder is not writable, before minutes of work; ``None``: no file is written.

    :raises SourceError: names the file.
    """
    if file is not None and not os.access(file.parent, os.W_OK):
        raise SourceError(f"{file}: cannot be written: the folder does not exist or is not writable")
