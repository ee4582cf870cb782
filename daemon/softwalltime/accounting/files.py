"""Files of records: which ones a path means, and their lines in blocks, gzipped or not."""

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import IO

from softwalltime.errors import SourceError

BLOCK = 1 << 20
"""Bytes read at once."""
LONGEST_LINE = 1 << 24
"""Bytes; the record of a job on 10,000 nodes takes one, and no file is one line of many gigabytes."""
LOG_NAME = re.compile(r"\d{8}(\.gz)?")
"""A log of PBS is named by its day, YYYYMMDD; a site may gzip it."""
_NUMBERS = re.compile(rb"[-+.0-9\s]*")


@dataclass(frozen=True)
class Block:
    """Whole lines of a file, the last one without its line end; or a piece of a line that is too long.

    ``offset`` is the byte and ``line`` the number (from 1) of the first one; ``end`` the byte after the last one's
    line end.  Offsets in a gzipped file are those of its contents.  The lines are kept together until they are
    wanted, so that a block is cheap to hand to another process.
    """

    content: bytes
    offset: int
    line: int
    end: int
    piece: bool = False
    """Whether it is a piece of a line that is too long, whatever it looks like."""

    @property
    def lines(self) -> list[bytes]:
        """The lines without their line ends."""
        return self.content.split(b"\n")

    @cached_property
    def last_line(self) -> int:
        """The number of the last line that is whole."""
        return self.line + self.content.count(b"\n") - 1 + len(self._line_end)

    def tail(self, length: int) -> bytes:
        """The block's last bytes, at most so many, with the last line's end if it has one."""
        return (self.content[-length:] + self._line_end)[-length:]

    @property
    def _line_end(self) -> bytes:
        """The last line's end; nothing after a piece of a line."""
        return b"\n" * (self.end - self.offset - len(self.content))


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
            (entry for entry in path.iterdir() if LOG_NAME.fullmatch(entry.name)), key=lambda entry: entry.name
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
    ``LONGEST_LINE`` comes in pieces of about that length, and reading may begin between them.
    """
    stream.seek(max(offset - 1, 0))
    inside = offset > 0 and stream.read(1) != b"\n"
    rest = b""
    while data := stream.read(BLOCK):
        if inside:
            rest, line_end, data = (rest + data).partition(b"\n")
            if not line_end and len(rest) <= LONGEST_LINE:
                continue
            block = Block(rest, offset, line, offset + len(rest) + len(line_end), piece=True)
            yield block
            offset, line, rest, inside = block.end, block.last_line + 1, b"", not line_end
        cut = data.rfind(b"\n")
        if cut >= 0:
            # A view, so that a megabyte is copied but once.
            for block in _whole_lines(b"".join((rest, memoryview(data)[:cut])), offset, line):
                yield block
                offset, line = block.end, block.last_line + 1
            rest = data[cut + 1 :]
            continue
        rest += data
        if len(rest) > LONGEST_LINE:
            yield Block(rest, offset, line, offset + len(rest), piece=True)
            offset, rest, inside = offset + len(rest), b"", True
    if unfinished is not None:
        unfinished.content = rest


def _whole_lines(content: bytes, offset: int, line: int) -> Iterator[Block]:
    """Whole lines as a block, or as several if some are too long, which then are blocks of their own."""
    if len(content) <= LONGEST_LINE:
        yield Block(content, offset, line, offset + len(content) + 1)
        return
    for too_long, some in groupby(content.split(b"\n"), lambda one: len(one) > LONGEST_LINE):
        for together in some if too_long else (b"\n".join(some),):
            block = Block(together, offset, line, offset + len(together) + 1, too_long)
            yield block
            offset, line = block.end, block.last_line + 1


def is_trace(path: Path) -> bool:
    """Whether the file is an SWF trace, by its first lines: header lines, which begin with ``;``, and 18 numbers.

    A log may begin with ``;`` too, where its first bytes were lost; then records follow.

    :raises SourceError: if the file cannot be read.
    """
    headed = False
    with opened(path) as file:
        while line := file.contents.readline(LONGEST_LINE):
            if line.startswith(b";"):
                headed = True
            elif line.strip():
                return len(line.split(None, 18)) == 18 and _NUMBERS.fullmatch(line) is not None
    return headed


def expand(paths: Iterable[Path]) -> list[Path]:
    """All logs that the paths mean, each once, in the order given.

    :raises SourceError: as :func:`log_files`.
    """
    return list(dict.fromkeys(file for path in paths for file in log_files(path)))
