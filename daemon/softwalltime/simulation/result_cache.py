"""The results that a file keeps as they are computed; an interrupted run continues from it."""

from dataclasses import asdict
from pathlib import Path
from typing import Self

from pydantic import TypeAdapter, ValidationError

from softwalltime.errors import SourceError
from softwalltime.replay.sweep.kept_lines import KeptLines
from softwalltime.simulation.metrics import Metrics
from softwalltime.simulation.policies import SchedulerPolicy
from softwalltime.simulation.tasks import Experiment, SimulationResult

_FIGURES = TypeAdapter(tuple[Metrics, dict[str, dict[str, Metrics]]])
"""The metrics of all jobs, and those of each class."""


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
        self._lines = KeptLines(path, "simulations", "simulation")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._lines.close()

    def find(self, policy: SchedulerPolicy, seed: int) -> SimulationResult | None:
        """The result of this simulation, if the file has it."""
        line = self._lines.find(self._experiment.key(policy, seed))
        if line is None:
            return None
        try:
            figures = _FIGURES.validate_python((line["metrics"], line["classes"]))
        except (KeyError, ValidationError) as error:
            raise SourceError(f"{self._path}: holds a line that is no result: name another file") from error
        return SimulationResult(policy, seed, *figures)

    def add(self, result: SimulationResult) -> None:
        """Append a result; it is in the file when this returns.

        :raises SourceError: if the file cannot be written.
        """
        self._lines.add(
            {
                "key": self._experiment.key(result.policy, result.seed),
                "policy": result.policy.name,
                "shake": self._experiment.shake,
                "seed": result.seed,
            }
            | {name: value for name, value in asdict(result).items() if name in ("metrics", "classes")}
        )
