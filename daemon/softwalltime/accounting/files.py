"""Files of records: which ones a path means, and their lines in blocks."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from functools import cached_property, lru_cache
from itertools import groupby
from pathlib import Path

from softwalltime.accounting import swf
from softwalltime.accounting.opening import SUFFIXES, Contents, Opened
from softwalltime.errors import SourceError

BLOCK = 1 << 20
"""Bytes read at once."""
LONGEST_LINE = 1 << 24
"""Bytes; the record of a job on 10,000 nodes takes one, and no file is one line of many gigabytes."""
BOM = b"\xef\xbb\xbf"
"""What some editors write before the first line of UTF-8 text."""
_LOG_NAME = re.compile(rf"(\d{{8}})({'|'.join(map(re.escape, SUFFIXES))})?")
_RECORD = re.compile(rb"^\d\d/\d\d/\d{4} \d\d:\d\d:\d\d;[A-Za-z];", re.MULTILINE)
_START = 1 << 16
"""Bytes at the start of a file by which binary files are suspected."""


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
    cut: bool = False
    """Whether its lines are a record that a line break in a value cut, whatever they look like."""

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


@lru_cache(maxsize=1 << 14)
def log_day(name: str) -> str:
    """Return the day, as YYYYMMDD, whose accounting log has this name, compressed or not; empty if it is no log's name.

    >>> log_day("20240229.gz"), log_day("20262101"), log_day("notes")
    ('20240229', '', '')
    """
    match = _LOG_NAME.fullmatch(name)
    if match is None:
        return ""
    day = match.group(1)
    try:
        date(int(day[:4]), int(day[4:6]), int(day[6:]))
    except ValueError:
        return ""
    return day


def log_files(path: Path) -> list[Path]:
    """Return the accounting logs that ``path`` means: a file is itself, a folder its files named YYYYMMDD, by date.

    :raises SourceError: if there is no such path, or no log in the folder.
    """
    try:
        if not path.is_dir():
            path.stat()
            return [path]
        found = sorted((entry for entry in path.iterdir() if log_day(entry.name)), key=lambda entry: entry.name)
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror or error}") from error
    if not found:
        raise SourceError(f"{path}: the folder holds no accounting log (a file named YYYYMMDD)")
    # PBS writes 20240131; a site that compresses it may, for a moment, have both.
    plain = {entry.name for entry in found}
    return [entry for entry in found if not (entry.suffix and entry.stem in plain)]


def blocks(stream: Contents, offset: int = 0, line: int = 1, unfinished: Unfinished | None = None) -> Iterator[Block]:
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


def is_trace(file: Opened) -> bool:
    """Return whether the file is an SWF trace, by its first lines: headers, which begin with ``;``, then a job.

    A log may begin with ``;`` too, where its first bytes were lost; then records follow.  Reading is left at the
    file's start.

    :raises SourceError: if the file cannot be read, or is neither: a binary file, or UTF-16 text.
    """
    contents = file.contents
    start = contents.read(_START)
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise SourceError(f"{file.path}: UTF-16 text; convert it to UTF-8 first: iconv -f UTF-16 -t UTF-8")
    contents.seek(0)
    trace = _begins_as_trace(contents)
    if not trace and b"\0" in start and not _RECORD.search(start):
        # After a crash of its host a log may begin with many zeros.
        while (more := contents.read(BLOCK)) and not _RECORD.search(more):
            pass
        if not more:
            raise SourceError(f"{file.path}: a binary file (or UTF-16 text), neither an accounting log nor a trace")
    contents.seek(0)
    return trace


def _begins_as_trace(contents: Contents) -> bool:
    headed = False
    line = contents.readline(LONGEST_LINE).removeprefix(BOM)
    while line:
        if line.startswith(b";"):
            headed = True
        elif line.strip():
            return swf.columns(line) > 0 or (headed and not _RECORD.match(line))
        line = contents.readline(LONGEST_LINE)
    return headed


def expand(paths: Iterable[Path]) -> list[Path]:
    """All logs that the paths mean, each once, in the order given.

    :raises SourceError: as :func:`log_files`.
    """
    return list(dict.fromkeys(file for path in paths for file in log_files(path)))
