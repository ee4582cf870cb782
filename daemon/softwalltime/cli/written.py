"""Write files as a whole: under another name first, so an interrupted command leaves the earlier file as it was."""

import csv
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from softwalltime.errors import SourceError
from softwalltime.formatting import csv_cell


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Give a path to write to; at the end the new file replaces the one at ``path``, after an error it is removed.

    :raises SourceError: if the file cannot be written.
    """
    target = path.resolve()
    if target.exists() and not target.is_file():
        # A FIFO or device is written directly.
        unfinished = target
    else:
        unfinished = target.with_name(f".{target.name}.{os.getpid()}.unfinished")
    try:
        yield unfinished
        if unfinished != target:
            unfinished.replace(target)
    except OSError as error:
        raise SourceError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        if unfinished != target:
            unfinished.unlink(missing_ok=True)


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write rows as CSV; ``None`` is empty.

    :raises SourceError: if the file cannot be written.
    """
    with (
        replaced(path) as unfinished,
        unfinished.open("w", newline="", encoding="utf-8", errors="backslashreplace") as stream,
    ):
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([csv_cell(value) if isinstance(value, str) else value for value in row] for row in rows)
