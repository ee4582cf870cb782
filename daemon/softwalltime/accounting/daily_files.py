"""Find the daily log files of PBS's accounting folder, and read the lines of files in blocks."""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from functools import cached_property, lru_cache
from itertools import groupby
from pathlib import Path

from softwalltime.accounting.log_file import SUFFIXES, Contents
from softwalltime.core.errors import SourceError

BLOCK_BYTES = 1 << 20
"""Bytes per read."""
MAX_LOG_LINE_BYTES = 1 << 24
"""Maximum bytes of a line; a limit for files that are not logs. The record of a job on 10,000 nodes fits."""
BOM = b"\xef\xbb\xbf"
"""UTF-8 byte order mark, which some editors write at the start of a file."""
_LOG_NAME = re.compile(rf"(\d{{8}})({'|'.join(map(re.escape, SUFFIXES))})?")


@dataclass(frozen=True)
class Block:
    """Complete lines of a file, the last one without its line end; or a piece of a line that is too long.

    ``offset`` is the byte and ``line`` the number (from 1) of the first line; ``end`` is the byte after the last line
    end.  Offsets in a compressed file refer to its contents.  The lines are not split until they are needed, because
    one bytes object is cheap to send to another process.
    """

    content: bytes
    offset: int
    line: int
    end: int
    piece: bool = False
    """Whether this is a piece of a line that is too long; its content is not parsed."""
    cut: bool = False
    """Whether these lines are one record that a line break in a value cut; its content is not parsed."""

    @property
    def lines(self) -> list[bytes]:
        return self.content.split(b"\n")

    @cached_property
    def last_line(self) -> int:
        """The number of the last complete line."""
        return self.line + self.content.count(b"\n") - 1 + len(self._line_end)

    def tail(self, length: int) -> bytes:
        """Return at most ``length`` bytes from the block's end, with the last line end if there is one."""
        return (self.content[-length:] + self._line_end)[-length:]

    @property
    def _line_end(self) -> bytes:
        return b"\n" * (self.end - self.offset - len(self.content))


@dataclass(slots=True)
class PartialLine:
    """A last line without a line end: still being written, or truncated.  Empty if there is none."""

    content: bytes = b""


@lru_cache(maxsize=1 << 14)
def log_day(name: str) -> str:
    """Return the day, as YYYYMMDD, in the name of an accounting log, compressed or not; empty for any other name.

    >>> log_day("20240229.gz"), log_day("20262101"), log_day("notes")
    ('20240229', '', '')
    """
    match = _LOG_NAME.fullmatch(name)
    try:
        return match[1] if match and date.fromisoformat(match[1]) else ""
    except ValueError:
        return ""


# The daemon polls thousands of logs: to make text and hash of a new path takes longer than to read the log's status.
_path = lru_cache(maxsize=1 << 14)(Path)


def log_files(path: Path) -> list[Path]:
    """Return the accounting logs of a path: the file itself, or the files named YYYYMMDD in a folder, by date.

    :raises SourceError: if the path does not exist, or the folder has no log.
    """
    try:
        if not path.is_dir():
            path.stat()
            return [path]
        logs = [_path(path, name) for name in sorted(filter(log_day, os.listdir(path)))]  # noqa: PTH208 - see _path
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror or error}") from error
    if not logs:
        raise SourceError(f"{path}: the folder holds no accounting log (a file named YYYYMMDD)")
    return without_compressed_copies(logs)


def without_compressed_copies(logs: Iterable[Path]) -> list[Path]:
    """Return the logs without ``20240131.gz`` beside ``20240131``: both exist for a moment while a site compresses."""
    every = list(logs)
    plain = set(every)
    return [log for log in every if not (str(log).endswith(SUFFIXES) and log.with_suffix("") in plain)]


def blocks(stream: Contents, offset: int = 0, line: int = 1, unfinished: PartialLine | None = None) -> Iterator[Block]:
    """Yield the stream's complete lines from byte ``offset``, where line number ``line`` begins.

    A last line without a line end is not yielded; it is stored in ``unfinished``.  A line longer than
    ``MAX_LOG_LINE_BYTES`` is yielded in pieces of about that length, and reading may begin between them.
    """
    stream.seek(max(offset - 1, 0))
    inside = offset > 0 and stream.read(1) != b"\n"
    rest = b""
    while data := stream.read(BLOCK_BYTES):
        if inside:
            rest, line_end, data = (rest + data).partition(b"\n")
            if not line_end and len(rest) <= MAX_LOG_LINE_BYTES:
                continue
            block = Block(rest, offset, line, offset + len(rest) + len(line_end), piece=True)
            yield block
            offset, line, rest, inside = block.end, block.last_line + 1, b"", not line_end
        cut = data.rfind(b"\n")
        if cut >= 0:
            # A memoryview: the data is copied only once.
            for block in _whole_lines(b"".join((rest, memoryview(data)[:cut])), offset, line):
                yield block
                offset, line = block.end, block.last_line + 1
            rest = data[cut + 1 :]
            continue
        rest += data
        if len(rest) > MAX_LOG_LINE_BYTES:
            yield Block(rest, offset, line, offset + len(rest), piece=True)
            offset, rest, inside = offset + len(rest), b"", True
    if unfinished is not None:
        unfinished.content = rest


def _whole_lines(content: bytes, offset: int, line: int) -> Iterator[Block]:
    """Yield complete lines as one block; each line that is too long is a separate block."""
    if len(content) <= MAX_LOG_LINE_BYTES:
        yield Block(content, offset, line, offset + len(content) + 1)
        return
    for too_long, some in groupby(content.split(b"\n"), lambda one: len(one) > MAX_LOG_LINE_BYTES):
        for together in some if too_long else (b"\n".join(some),):
            block = Block(together, offset, line, offset + len(together) + 1, too_long)
            yield block
            offset, line = block.end, block.last_line + 1
