"""File of JSON lines that saves results as they are computed; an interrupted run continues from it."""

import fcntl
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

from softwalltime.errors import SourceError
from softwalltime.simulation.policies import Policy
from softwalltime.simulation.tasks import Experiment, SimulationResult, metrics_of


class ResultCache:
    """Results in one file, open and locked inside this context manager.

    A line is one simulation with its key (:meth:`Experiment.key`).  Lines of other jobs, policies or versions stay in
    the file and are ignored.
    """

    def __init__(self, path: Path, experiment: Experiment) -> None:
        """Open or create the file, and read its results.

        :raises SourceError: if the file cannot be written, another process writes it, or it holds something else.
        """
        self._path = path
        self._experiment = experiment
        try:
            self._stream = path.open("a+b")
            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._stream.close()
            raise SourceError(f"{path}: another simulation writes it: wait, or name another file") from error
        except OSError as error:
            raise SourceError(f"{path}: cannot be written: {error.strerror}") from error
        try:
            self._lines = self._read()
        except BaseException:
            self._stream.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stream.close()

    def find(self, policy: Policy, seed: int) -> SimulationResult | None:
        """The result of this simulation, if the file has it."""
        line = self._lines.get(self._experiment.key(policy, seed))
        if line is None:
            return None
        try:
            return SimulationResult(
                policy,
                seed,
                metrics_of(line["metrics"]),
                {
                    by: {name: metrics_of(values) for name, values in found.items()}
                    for by, found in line["classes"].items()
                },
            )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise SourceError(f"{self._path}: holds a line that is no result: name another file") from error

    def add(self, result: SimulationResult) -> None:
        """Append a result; it is in the file when this returns.

        :raises SourceError: if the file cannot be written.
        """
        line = {
            "key": self._experiment.key(result.policy, result.seed),
            "policy": result.policy.name,
            "shake": self._experiment.shake,
            "seed": result.seed,
            "metrics": asdict(result.metrics),
            "classes": {by: {name: asdict(one) for name, one in found.items()} for by, found in result.classes.items()},
        }
        try:
            self._stream.write(json.dumps(line).encode() + b"\n")
            self._stream.flush()
        except OSError as error:
            raise SourceError(f"{self._path}: cannot be written: {error.strerror}") from error

    def _read(self) -> dict[str, dict[str, Any]]:
        self._stream.seek(0)
        content = self._stream.read()
        whole = content[: content.rfind(b"\n") + 1]
        found = {}
        try:
            for line in whole.splitlines():
                values = json.loads(line)
                found[values["key"]] = values
        except (ValueError, KeyError, TypeError) as error:
            raise SourceError(f"{self._path}: holds something other than simulations: name another file") from error
        if len(whole) < len(content):
            if not whole and not content.startswith(b'{"key"'):
                raise SourceError(f"{self._path}: holds something other than simulations: name another file")
            # A process was killed while it wrote the last line.
            os.ftruncate(self._stream.fileno(), len(whole))
        return found
