"""The results of a sweep: a CSV file to which each row is appended as it is computed.

Each row is synced to disk before the next one.  An incomplete last row of a killed process is removed when the file is
opened again.  Existing rows are not computed again.
"""

import csv
import fcntl
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import Self

from softwalltime.errors import SourceError
from softwalltime.formatting import csv_cell
from softwalltime.replay.metrics import Scores
from softwalltime.replay.sweep.evaluation import SweepRow, SweepTask, Value

OPTION = "option_"
"""Prefix of the columns of options, which separates them from other columns."""
WARMED_UP = "after_warm_up_"
"""Prefix of the columns of the scores without the warm-up."""

_SCORES = [field.name for field in fields(Scores)]
_BEFORE = ["source", "predictor", "name"]
_AFTER = ["min_soft_walltime", *_SCORES, *(WARMED_UP + name for name in _SCORES), "seconds", "digest", "version"]


class Results:
    """The results in one file, open and locked while the context manager is active."""

    def __init__(self, path: Path, *, again: bool = False) -> None:
        """:param again: discard the rows in the file.

        :raises SourceError: if the file cannot be written, another sweep writes it, or it holds something else.
        """
        self._path = path
        with self._explained():
            self._file = _open_locked(path)
        try:
            self._options, self._rows = self._read(again)
        except BaseException:
            os.close(self._file)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        if not os.fstat(self._file).st_size:
            # This process created the file and wrote nothing.
            self._path.unlink(missing_ok=True)
        os.close(self._file)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def rows(self) -> Sequence[Mapping[str, str]]:
        """The rows of the file, as texts by column, which no spreadsheet takes for formulas."""
        return self._rows

    def prepare(self, tasks: Sequence[SweepTask], options: Iterable[str]) -> tuple[list[SweepTask], int]:
        """Prepare the file for the rows of these tasks.

        Rows of a source whose jobs have changed, of other weights of a task's predictor, or of another version, are
        dropped.

        :param options: names of all options of the tasks' predictors.
        :return: the tasks without a row, and the number of dropped rows.
        :raises SourceError: if the file cannot be written.
        """
        now = {csv_cell(task.source): (task.snapshot.digest, task.version) for task in tasks}
        digests = {(csv_cell(task.source), csv_cell(task.spec)): task.digest for task in tasks}
        kept = [
            row
            for row in self._rows
            if now.get(row["source"]) in (None, (row["digest"].partition("+")[0], row["version"]))
            and digests.get((row["source"], row["predictor"]), row["digest"]) == row["digest"]
        ]
        dropped = len(self._rows) - len(kept)
        self._options = list(dict.fromkeys((*self._options, *(OPTION + name for name in options))))
        self._rows = kept
        self._rewrite()
        there = {(row["source"], row["predictor"], row["min_soft_walltime"]) for row in kept}
        todo = [task for task in tasks if (csv_cell(task.source), csv_cell(task.spec), str(task.minimum)) not in there]
        return todo, dropped

    def add(self, row: SweepRow) -> None:
        """Append a row and sync it to disk.

        :raises SourceError: if the file cannot be written.
        """
        task = row.task
        values: dict[str, Value] = {
            "source": task.source,
            "predictor": task.spec,
            "name": row.name,
            **{OPTION + name: value for name, value in row.options.items()},
            "min_soft_walltime": task.minimum,
            **asdict(row.scores),
            **{WARMED_UP + name: value for name, value in asdict(row.after_warm_up).items()},
            "seconds": round(row.seconds, 6),
            "digest": task.digest,
            "version": task.version,
        }
        texts = {column: _text(values.get(column)) for column in self._header}
        with self._explained():
            _write(self._file, _csv([texts.values()]))
        self._rows.append(texts)

    @property
    def _header(self) -> list[str]:
        return [*_BEFORE, *self._options, *_AFTER]

    def _read(self, again: bool) -> tuple[list[str], list[dict[str, str]]]:
        """Return the columns of options and the rows, without an incomplete last row."""
        with self._explained(), os.fdopen(os.dup(self._file), encoding="utf-8", errors="surrogateescape") as stream:
            text = stream.read()
        if not text:
            return [], []
        try:
            header, *lines = list(csv.reader(io.StringIO(text[: text.rfind("\n") + 1], newline=""))) or [[]]
        except csv.Error:
            header, lines = [], []
        if header[: len(_BEFORE)] != _BEFORE:
            raise SourceError(f"{self._path}: holds something other than the results of a sweep: name another file")
        if again:
            return [], []
        if header[-len(_AFTER) :] != _AFTER:
            raise SourceError(
                f"{self._path}: its columns are those of another version: name another file, or give --discard"
            )
        if lines and len(lines[-1]) < len(header):
            lines.pop()
        for number, line in enumerate(lines, 1):
            if len(line) != len(header):
                raise SourceError(
                    f"{self._path}: row {number} has {len(line)} fields, not {len(header)}: mend it, or give --discard"
                )
        rows = [dict(zip(header, map(csv_cell, line), strict=True)) for line in lines]
        return header[len(_BEFORE) : -len(_AFTER)], rows

    def _rewrite(self) -> None:
        """Replace the file atomically: a kill at any time loses no rows."""
        unfinished = self._path.with_name(f".{self._path.name}.unfinished")
        with self._explained():
            # The lock on the results keeps other processes from writing it.
            unfinished.unlink(missing_ok=True)
            file = _open_locked(unfinished)
            try:
                _write(file, _csv([self._header, *(map(row.get, self._header) for row in self._rows)]))
                unfinished.replace(self._path)
            except BaseException:
                os.close(file)
                unfinished.unlink(missing_ok=True)
                raise
        os.close(self._file)
        self._file = file

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except BlockingIOError as error:
            raise SourceError(
                f"{self._path}: another sweep is writing it: wait until it has ended, or name another file"
            ) from error
        except OSError as error:
            raise SourceError(f"{self._path}: cannot be written: {error.strerror}") from error


def _open_locked(path: Path) -> int:
    """A descriptor of the file that the path names, made if there is none, which no other process has locked.

    :raises BlockingIOError: if one has.
    """
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise
            except OSError:
                # Some cluster file systems have no locks; users must not run two sweeps on one file there.
                return file
            # Another process may have replaced the file between open and lock.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file), path.stat()):
                    return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def _write(file: int, text: str) -> None:
    data = text.encode("utf-8", errors="surrogateescape")
    while data:
        data = data[os.write(file, data) :]
    os.fsync(file)


def _csv(lines: Iterable[Iterable[str | None]]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


def _text(value: Value) -> str:
    if value is None:
        return ""
    # True and False as SQL and data frames write them.  A float's shortest text is the same float when read.
    return str(value).lower() if isinstance(value, bool) else csv_cell(str(value))
