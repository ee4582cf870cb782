"""The trials that a file keeps as they end; an interrupted command continues from it."""

from dataclasses import asdict
from pathlib import Path
from typing import Self

from softwalltime.errors import SourceError
from softwalltime.replay.sweep.kept_lines import KeptLines
from softwalltime.tuning.trial import PartFigures, Trial, TrialTask


class TrialFile:
    """Trials in one file, open and locked inside this context manager; without a path, in memory only.

    Lines of other jobs, predictors or versions, and of simulations, stay in the file and are ignored.
    """

    def __init__(self, path: Path | None) -> None:
        """Open or create the file, and read its trials.

        :raises SourceError: if the file cannot be written, another command writes it, or it holds something else.
        """
        self._path = path
        self._lines = KeptLines(path, "trials", "command")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._lines.close()

    def find(self, task: TrialTask) -> Trial | None:
        """Return the trial, if the file has it; a failure only if it had as much time."""
        line = self._lines.find(task.key)
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
        self._lines.add({"key": task.key, "kind": "trial", "timeout": min(task.timeout, 1e9), **asdict(trial)})
