"""Open log files: regular files only, decompressed, read up to any damage.

The contents before the damage in a compressed file are read: the decompression step that failed is repeated one byte
at a time.
"""

import io
import os
import stat
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Protocol

from softwalltime.errors import SourceError, UnsuitableFileError

_INPUT = 1 << 14
"""Compressed bytes per read."""
_STEP = 1 << 16
"""Maximum bytes of contents per decompression step."""


class Contents(Protocol):
    """Interface of an open file for readers."""

    def read(self, size: int, /) -> bytes:
        """Return at most ``size`` bytes; fewer only at the end, or where the next call raises an error."""

    def readline(self, size: int, /) -> bytes:
        """Return a line with its line end, or its first ``size`` bytes."""

    def seek(self, offset: int, /) -> int:
        """Move to this byte of the contents."""


class _Decompressor(Protocol):
    """Interface of the decompressors of bz2, lzma and zstd."""

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...


class _Gzip:
    """zlib's decompressor with the interface of bz2 and lzma."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(wbits=31)

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data


def _bzip2() -> _Decompressor:
    import bz2

    return bz2.BZ2Decompressor()


def _xz() -> _Decompressor:
    import lzma

    return lzma.LZMADecompressor()


def _zstd() -> _Decompressor:
    """Return Python's own decompressor (3.14), or that of its backport.

    :raises ModuleNotFoundError: if there is neither.
    """
    try:
        module = import_module("compression.zstd")
    except ModuleNotFoundError:
        module = import_module("backports.zstd")
    decompressor: _Decompressor = module.ZstdDecompressor()
    return decompressor


_FORMATS: tuple[tuple[str, bytes, Callable[[], _Decompressor]], ...] = (
    ("gzip", b"\x1f\x8b", _Gzip),
    ("bzip2", b"BZh", _bzip2),
    ("xz", b"\xfd7zXZ\0", _xz),
    ("zstd", b"\x28\xb5\x2f\xfd", _zstd),
)
_NO_ZSTD = "compressed by zstd: run pip install 'pbs-softwalltime[zstd]', or decompress it (zstd -d)"
RECENT = 60.0
"""Seconds since the last change within which a file is regarded as being written."""
SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
"""Name suffixes of compressed files."""


class _DamageError(Exception):
    """The compressed data is damaged from this position."""


class _Decompressed:
    """Contents of a compressed file, which may have several members."""

    def __init__(self, file: IO[bytes], path: Path, name: str, magic: bytes, make: Callable[[], _Decompressor]) -> None:
        self._file = file
        self._path = path
        self._name = name
        self._magic = magic
        self._make = make
        self._buffer = b""
        self._begin = 0
        """Position of the buffer in the contents, in bytes."""
        self._place = 0
        self._damage: _DamageError | None = None
        self._steps = self._decompress(lambda: _STEP)

    def read(self, size: int, /) -> bytes:
        parts: list[bytes] = []
        while size > 0:
            rest = self._rest(wait=not parts)
            if not rest:
                break
            parts.append(rest[:size])
            self._place += len(parts[-1])
            size -= len(parts[-1])
        return b"".join(parts)

    def readline(self, size: int, /) -> bytes:
        parts: list[bytes] = []
        while size > 0 and (rest := self._rest(wait=not parts)):
            line, line_end, _ = rest[:size].partition(b"\n")
            parts.append(line + line_end)
            self._place += len(parts[-1])
            size -= len(parts[-1])
            if line_end:
                break
        return b"".join(parts)

    def seek(self, offset: int, /) -> int:
        if offset < self._begin:
            self._restart()
        while offset > self._begin + len(self._buffer):
            self._place = self._begin + len(self._buffer)
            if not self._rest(wait=True):
                return self._place
        self._place = offset
        return offset

    def _restart(self) -> None:
        self._buffer = b""
        self._begin = self._place = 0
        self._damage = None
        self._steps = self._decompress(lambda: _STEP)

    def _rest(self, *, wait: bool) -> bytes:
        """Return decompressed bytes that are not read yet; empty at the end, or at damage if ``wait`` is false.

        :raises SourceError: at damage, if ``wait`` is true.
        """
        at = self._place - self._begin
        if at >= len(self._buffer):
            self._begin += len(self._buffer)
            self._buffer = b""
            at = self._place - self._begin
            if self._damage is None:
                try:
                    self._buffer = next(self._steps, b"")
                except _DamageError as error:
                    self._damage = error
                    self._buffer = self._up_to_damage(self._begin)
            if self._damage is not None and not self._buffer and wait:
                raise SourceError(
                    f"{self._path}: damaged {self._name} file, read up to the damage: {self._damage}"
                ) from self._damage
        return self._buffer[at:] if at else self._buffer

    def _up_to_damage(self, begin: int) -> bytes:
        """Return the contents from byte ``begin``, which is the end of a step, to the damage."""
        done, step = 0, _STEP
        rest = bytearray()
        steps = self._decompress(lambda: step)
        try:
            while done < begin:
                done += len(next(steps))
            step = 1
            for byte in steps:
                rest += byte
        except _DamageError:
            pass
        return bytes(rest)

    def _decompress(self, step: Callable[[], int]) -> Iterator[bytes]:
        """Decompress from the start.

        :raises _DamageError: at the damage.
        """
        self._file.seek(0)
        data = b""
        member: _Decompressor | None = None
        while True:
            while member is None:
                # Tape drives and some tools fill the last block with zeros.
                data = data.lstrip(b"\0")
                if len(data) < len(self._magic) and (more := self._file.read(_INPUT)):
                    data += more
                elif data.startswith(self._magic):
                    member = self._make()
                elif data:
                    raise _DamageError("other data after its end")
                else:
                    return
            try:
                output = member.decompress(data, step())
            except Exception as error:  # zlib.error, LZMAError, OSError and EOFError, by format
                raise _DamageError(str(error)) from error
            data = b""
            if output:
                yield output
            if member.eof:
                data, member = member.unused_data, None
            elif not output:
                data = self._file.read(_INPUT)
                if not data:
                    raise _DamageError("unexpected end of file")


@dataclass(frozen=True, slots=True)
class OpenFile:
    """File open for reading: the decompressed contents, and the file on disk."""

    path: Path
    contents: Contents
    on_disk: IO[bytes]
    plain: bool
    """Whether the file is not compressed."""

    def consumed(self) -> int:
        """Return the number of bytes read from the file on disk."""
        return self.on_disk.tell()

    def live(self) -> bool:
        return self.plain and time.time() - os.fstat(self.on_disk.fileno()).st_mtime < RECENT


@contextmanager
def opened(path: Path) -> Iterator[OpenFile]:
    """Open a regular file; decompress gzip, bzip2, xz and zstd, recognised by the first bytes, not by the name.

    :raises SourceError: if the file cannot be opened, is not a regular file, or is damaged; damage is raised after the
        contents before it were read.
    """
    try:
        with _open_regular(path) as file:
            if not os.fstat(file.fileno()).st_size:
                # Files in /proc have size 0 too, and reading some of them (kmsg) blocks for ever.
                yield OpenFile(path, io.BytesIO(), file, plain=True)
                return
            first = file.read(8)
            file.seek(0)
            for name, magic, make in _FORMATS:
                if first.startswith(magic):
                    _require(make, path)
                    yield OpenFile(path, _Decompressed(file, path, name, magic, make), file, plain=False)
                    return
            yield OpenFile(path, file, file, plain=True)
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror or error}") from error


def _require(make: Callable[[], _Decompressor], path: Path) -> None:
    """Require the package of a decompressor.

    :raises UnsuitableFileError: names the package.
    """
    try:
        make()
    except ModuleNotFoundError as error:
        raise UnsuitableFileError(path, _NO_ZSTD) from error


def _open_regular(path: Path) -> IO[bytes]:
    """Open a file for reading without blocking; opening a FIFO would block.

    :raises SourceError: if it is not a regular file; it is not opened then.
    """
    _refuse_special(path, path.stat())
    file = io.open(path, "rb", opener=_open_nonblocking)  # noqa: SIM115, UP020  # Path.open has no opener
    try:
        _refuse_special(path, os.fstat(file.fileno()))
    except SourceError:
        file.close()
        raise
    return file


def _open_nonblocking(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOCTTY | os.O_NONBLOCK)


def _refuse_special(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = "folder" if stat.S_ISDIR(status.st_mode) else "FIFO, device or socket"
        raise SourceError(f"{path}: a {kind}, not a regular file; it is not read")


def size_on_disk(path: Path) -> int:
    """Return a file's size in bytes; 0 if it is not a regular file, which its reader reports."""
    try:
        status = path.stat()
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0
