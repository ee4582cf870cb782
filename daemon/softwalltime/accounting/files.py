"""Files of records: which ones a path means, and their lines in blocks, gzipped or not."""

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from softwalltime.errors import SourceError

BLOCK = 1 << 20
"""Bytes read at once."""
LONGEST_LINE = 1 << 24
"""Bytes; the record of a job on 10,000 nodes takes one, and no file is one line of many gigabytes."""
_NUMBERS = re.compile(rb"[-+.0-9\s]*")
_LOG_NAME = re.compile(r"\d{8}(\.gz)?")


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines of a file, the last one without its line end.

    ``offset`` is the byte and ``line`` the number (from 1) of the first one; ``end`` the byte after the last one's
    line end.  Offsets in a gzipped file are those of its contents.  The lines are kept together until they are
    wanted, so that a block is cheap to hand to another process.
    """

    content: bytes
    offset: int
    line: int
    end: int

    @property
    def lines(self) -> list[bytes]:
        """The lines without their line ends."""
        return self.content.split(b"\n")

    @property
    def last_line(self) -> int:
        """The number of the last line."""
        return self.line + self.content.count(b"\n")


@dataclass(slots=True)
class Unfinished:
    """A last line without a line end: still being written, or cut off.  Empty if there was none."""

    content: bytes = b""


def log_files(path: Path) -> list[Path]:
    """The accounting logs that ``path`` means: a file is itself, a folder its files named YYYYMMDD, by date.

    :raises SourceError: if there is no such path, or no log in the folder.
    """
    try:
        if not path.is_dir():
            path.stat()
            return [path]
        found = sorted(
            (entry for entry in path.iterdir() if _LOG_NAME.fullmatch(entry.name)), key=lambda entry: entry.name
        )
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror or error}") from error
    if not found:
        raise SourceError(f"{path}: the folder holds no accounting log (a file named YYYYMMDD)")
    # PBS writes 20240131; a site that gzips it may, for a moment, have both.
    plain = {entry.name for entry in found}
    return [entry for entry in found if not (entry.suffix == ".gz" and entry.stem in plain)]


@dataclass(frozen=True, slots=True)
class Opened:
    """A file open for reading: its contents, unpacked, and the file on disk that they come from."""

    contents: IO[bytes]
    on_disk: IO[bytes]

    @property
    def plain(self) -> bool:
        """Whether the contents are the file itself, not gzipped."""
        return self.contents is self.on_disk

    def consumed(self) -> int:
        """Bytes of the file on disk that were read so far."""
        return self.on_disk.tell()


@contextmanager
def opened(path: Path) -> Iterator[Opened]:
    """The file open for reading, unpacked if it is gzipped (by its first two bytes, whatever its name).

    :raises SourceError: if it cannot be opened, or breaks while it is read.
    """
    try:
        with path.open("rb") as raw:
            if raw.peek(2)[:2] == b"\x1f\x8b":
                with gzip.open(raw) as unpacked:
                    yield Opened(unpacked, raw)  # type: ignore[arg-type]  # GzipFile is no IO to typeshed
            else:
                yield Opened(raw, raw)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise SourceError(f"{path}: broken gzip file, read up to the break: {error}") from error
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror or error}") from error


def blocks(stream: IO[bytes], offset: int = 0, line: int = 1, unfinished: Unfinished | None = None) -> Iterator[Block]:
    """The stream's whole lines from byte ``offset`` on, which is where line number ``line`` begins.

    A last line without a line end is not returned; ``unfinished`` is given it.  A line longer than
    ``LONGEST_LINE`` comes in pieces of that length, which no reader takes for a record.
    """
    stream.seek(offset)
    rest = b""
    while data := stream.read(BLOCK):
        whole, line_end, rest = (rest + data if rest else data).rpartition(b"\n")
        if not line_end and len(rest) > LONGEST_LINE:
            whole, rest = rest, b""
        elif not line_end:
            continue
        block = Block(whole, offset, line, offset + len(whole) + len(line_end))
        yield block
        offset, line = block.end, block.last_line + 1
    if unfinished is not None:
        unfinished.content = rest


def first_line(path: Path) -> bytes:
    """The first line that is not blank, cut off at 4 KiB; empty if there is none.

    :raises SourceError: if the file cannot be read.
    """
    with opened(path) as file:
        while line := file.contents.readline(4096):
            if line.strip():
                return line
    return b""


def is_trace(path: Path) -> bool:
    """Whether the file is an SWF trace, by its first line: a header line or 18 numbers.

    :raises SourceError: if the file cannot be read.
    """
    line = first_line(path)
    return line.startswith(b";") or (len(line.split()) == 18 and _NUMBERS.fullmatch(line) is not None)


def expand(paths: Iterable[Path]) -> list[Path]:
    """All logs that the paths mean, each once, in the order given.

    :raises SourceError: as :func:`log_files`.
    """
    return list(dict.fromkeys(file for path in paths for file in log_files(path)))
