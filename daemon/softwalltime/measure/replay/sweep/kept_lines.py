"""A file of JSON lines that saves results as they are computed; an interrupted command continues from it."""

import fcntl
import json
import os
from pathlib import Path
from typing import IO, Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from softwalltime.core.errors import SourceError

T = TypeVar("T")


class KeptLines:
    """Objects by their ``key``, in one file that is open and locked until it is closed.

    Several kinds of objects may share a file, as other lines are ignored.  Without a path objects are only in memory.
    """

    def __init__(self, path: Path | None) -> None:
        """Open or create the file, and read its lines.

        :raises SourceError: if the file cannot be written, another process writes it, or it holds something else.
        """
        self.path = path
        self._stream: IO[bytes] | None = None
        self._lines: dict[str, dict[str, Any]] = {}
        if path is None:
            return
        try:
            self._stream = path.open("a+b")
        except OSError as error:
            raise SourceError(f"{path}: cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self.close()
            raise SourceError(f"{path}: another command writes it: wait, or name another file") from error
        except OSError:
            # Some cluster file systems have no locks; users must not run two commands on one file there.
            pass
        try:
            self._read(self._stream)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()

    def find(self, key: str, kind: TypeAdapter[T]) -> T | None:
        """Return the object with this key, if there is one.

        :raises SourceError: if its line is not of this kind.
        """
        if key not in self._lines:
            return None
        try:
            return kind.validate_python(self._lines[key])
        except ValidationError as error:
            raise self._other() from error

    def add(self, key: str, values: dict[str, Any]) -> None:
        """Append an object; it is in the file when this returns.

        :raises SourceError: if the file cannot be written.
        """
        self._lines[key] = line = {"key": key, **values}
        if self._stream is None:
            return
        try:
            self._stream.write(json.dumps(line).encode() + b"\n")
            self._stream.flush()
        except OSError as error:
            raise SourceError(f"{self.path}: cannot be written: {error.strerror}") from error

    def _other(self) -> SourceError:
        return SourceError(f"{self.path}: holds something other than results: name another file")

    def _read(self, stream: IO[bytes]) -> None:
        stream.seek(0)
        content = stream.read()
        whole = content[: content.rfind(b"\n") + 1]
        try:
            self._lines |= {line["key"]: line for line in map(json.loads, whole.splitlines())}
        except (ValueError, KeyError, TypeError) as error:
            raise self._other() from error
        if len(whole) < len(content):
            if not whole and not content.startswith(b'{"key"'):
                raise self._other()
            # Remove an incomplete last line of a killed process.
            os.ftruncate(stream.fileno(), len(whole))
