"""A file of JSON lines that saves trials as they end; an interrupted command continues from it."""

import fcntl
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Self

from softwalltime.errors import SourceError
from softwalltime.tuning.trial import PartFigures, Trial, TrialTask

_KIND = "trial"


class TrialFile:
    """Trials in one file, open and locked inside this context manager; without a path, in memory only.

    Lines of other jobs, predictors or versions, and of simulations, stay in the file and are ignored.
    """

    def __init__(self, path: Path | None) -> None:
        """Open or create the file, and read its trials.

        :raises SourceError: if the file cannot be written, another command writes it, or it holds something else.
        """
        self._path = path
        self._stream: IO[bytes] | None = None
        self._lines: dict[str, dict[str, Any]] = {}
        if path is None:
            return
        try:
            self._stream = path.open("a+b")
            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if self._stream is not None:
                self._stream.close()
            raise SourceError(f"{path}: another command writes it: wait, or name another file") from error
        except OSError as error:
            raise SourceError(f"{path}: cannot be written: {error.strerror}") from error
        try:
            self._read(self._stream)
        except BaseException:
            self._stream.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._stream is not None:
            self._stream.close()

    def find(self, task: TrialTask) -> Trial | None:
        """Return the trial, if the file has it; a failure only if it had as much time."""
        line = self._lines.get(task.key)
        if line is None:
            return None
        try:
            if line["failure"] and line["timeout"] < task.timeout:
                return None
            parts = tuple(PartFigures(**part) for part in line["parts"])
            return Trial(task.spec, parts, float(line["seconds"]), str(line["failure"]))
        except (KeyError, TypeError, ValueError) as error:
            raise SourceError(f"{self._path}: holds a line that is no trial: name another file") from error

    def add(self, task: TrialTask, trial: Trial) -> None:
        """Append a trial; it is in the file when this returns.

        :raises SourceError: if the file cannot be written.
        """
        # JSON has no infinity.
        line = {"kind": _KIND, "key": task.key, "timeout": min(task.timeout, 1e9), **asdict(trial)}
        self._lines[task.key] = line
        if self._stream is None:
            return
        try:
            self._stream.write(json.dumps(line).encode() + b"\n")
            self._stream.flush()
        except OSError as error:
            raise SourceError(f"{self._path}: cannot be written: {error.strerror}") from error

    def _read(self, stream: IO[bytes]) -> None:
        stream.seek(0)
        content = stream.read()
        whole = content[: content.rfind(b"\n") + 1]
        other = SourceError(f"{self._path}: holds something other than trials: name another file")
        try:
            for line in map(json.loads, whole.splitlines()):
                # Simulations may be in the same file.
                key = line["key"]
                if line.get("kind") == _KIND:
                    self._lines[key] = line
        except (ValueError, KeyError, TypeError) as error:
            raise other from error
        if len(whole) < len(content):
            if not whole and not content.startswith(b'{"k'):
                raise other
            # A process was killed while it wrote the last line.
            os.ftruncate(stream.fileno(), len(whole))
