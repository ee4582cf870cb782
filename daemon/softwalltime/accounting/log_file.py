"""Open log files: regular files only, decompressed, read up to any damage."""

import io
import os
import stat
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Protocol

from softwalltime.core.errors import SourceError, UnsuitableFileError

_INPUT = 1 << 14
"""Compressed bytes per read."""
_STEP_BYTES = 1 << 13
"""Maximum bytes per decompression step: damage loses at most so many bytes before it."""


class Contents(Protocol):
    """Interface of an open file for readers."""

    def read(self, size: int, /) -> bytes:
        """Return at most ``size`` bytes; fewer only at the end, or where the next call raises an error."""

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


_ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
_GZIP = b"\x1f\x8b"
_FORMATS: tuple[tuple[str, bytes, Callable[[], _Decompressor]], ...] = (
    ("gzip", _GZIP, _Gzip),
    ("bzip2", b"BZh", lambda: import_module("bz2").BZ2Decompressor()),
    ("xz", b"\xfd7zXZ\0", lambda: import_module("lzma").LZMADecompressor()),
    ("zstd", b"\x28\xb5\x2f\xfd", lambda: import_module(_ZSTD).ZstdDecompressor()),
)
_NO_ZSTD = "compressed by zstd: run pip install 'pbs-softwalltime[zstd]', or decompress it (zstd -d)"
WRITTEN_WITHIN_S = 60.0
"""Seconds since the last change within which a file is regarded as being written."""
SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
"""Name suffixes of compressed files."""


@dataclass
class _Decompressed:
    """Contents of a compressed file, which may have several members."""

    _file: IO[bytes]
    _path: Path
    _name: str
    _magic: bytes
    _make: Callable[[], _Decompressor]

    def __post_init__(self) -> None:
        # Byte offsets in the contents: of the buffer, and of the next read.
        self._begin = 0
        self._place = 0
        self._restart()

    def read(self, size: int, /) -> bytes:
        parts: list[bytes] = []
        while size > 0:
            at = self._place - self._begin
            if at < len(self._buffer):
                parts.append(self._buffer[at : at + size])
                self._place += len(parts[-1])
                size -= len(parts[-1])
            elif not self._step():
                break
        if self._damage and size and not parts:
            raise SourceError(f"{self._path}: damaged {self._name} file, read up to the damage: {self._damage}")
        return b"".join(parts)

    def seek(self, offset: int, /) -> int:
        if offset < self._begin:
            self._restart()
        while offset > self._begin + len(self._buffer) and self._step():
            pass
        self._place = min(offset, self._begin + len(self._buffer))
        return self._place

    def _restart(self) -> None:
        self._buffer = b""
        self._begin = self._place = 0
        self._damage = ""
        self._steps = self._decompress()

    def _step(self) -> bool:
        self._begin += len(self._buffer)
        self._buffer = next(self._steps, b"")
        return bool(self._buffer)

    def _decompress(self) -> Iterator[bytes]:
        """Decompress from the start; stop at damage and keep the error."""
        self._file.seek(0)
        data = b""
        member: _Decompressor | None = None
        while True:
            while member is None:
                # Skip zeros: tape drives and some tools pad the last block.
                data = data.lstrip(b"\0")
                if len(data) < len(self._magic) and (more := self._file.read(_INPUT)):
                    data += more
                elif data.startswith(self._magic):
                    member = self._make()
                else:
                    self._damage = "other data after its end" if data else ""
                    return
            try:
                output = member.decompress(data, _STEP_BYTES)
            except Exception as error:  # zlib.error, LZMAError, OSError and EOFError, by format
                self._damage = str(error)
                return
            data = b""
            if output:
                yield output
            if member.eof:
                data, member = member.unused_data, None
            elif not output:
                data = self._file.read(_INPUT)
                if not data:
                    self._damage = "unexpected end of file"
                    return


@dataclass(frozen=True, slots=True)
class OpenFile:
    path: Path
    contents: Contents
    on_disk: IO[bytes]
    plain: bool
    """Whether the file is not compressed."""

    def consumed(self) -> int:
        """Return the number of bytes read from the file on disk."""
        return self.on_disk.tell()

    def ends_at(self, offset: int) -> bool:
        """Return whether this is a gzip file with so many bytes of contents, without decompressing it.

        Its last four bytes are this number, of several members that of the last one.
        """
        descriptor = self.on_disk.fileno()
        if os.pread(descriptor, len(_GZIP), 0) != _GZIP:
            return False
        end = os.pread(descriptor, 4, os.fstat(descriptor).st_size - 4)
        return int.from_bytes(end, "little") == offset % 2**32

    def live(self) -> bool:
        return self.plain and time.time() - os.fstat(self.on_disk.fileno()).st_mtime < WRITTEN_WITHIN_S


@contextmanager
def opened(path: Path) -> Iterator[OpenFile]:
    """Open a regular file; decompress gzip, bzip2, xz and zstd, recognised by the first bytes, not by the name.

    :raises SourceError: if the file cannot be opened, is not a regular file, or is damaged; damage is raised after the
        contents before it were read.
    """
    try:
        with _open_regular(path) as file:
            if not os.fstat(file.fileno()).st_size:
                # Do not read files of size 0: some of those in /proc (kmsg) block forever.
                yield OpenFile(path, io.BytesIO(), file, plain=True)
                return
            first = file.read(8)
            file.seek(0)
            for name, magic, make in _FORMATS:
                if first.startswith(magic):
                    try:
                        make()
                    except ModuleNotFoundError as error:
                        raise UnsuitableFileError(path, _NO_ZSTD) from error
                    yield OpenFile(path, _Decompressed(file, path, name, magic, make), file, plain=False)
                    return
            yield OpenFile(path, file, file, plain=True)
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror or error}") from error


def _open_regular(path: Path) -> IO[bytes]:
    """Open a file for reading without blocking; opening a FIFO would block.

    :raises SourceError: if it is not a regular file; it is not opened then.
    """
    _refuse_special(path, path.stat())
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK), "rb")
    try:
        _refuse_special(path, os.fstat(file.fileno()))
    except SourceError:
        file.close()
        raise
    return file


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
