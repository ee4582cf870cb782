"""Sources of a prediction, as a sentence that is formatted only when it is read."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from softwalltime.predict.predictors.learned.distribution import Quantiles
from softwalltime.predict.predictors.learned.features import Estimate

MAX_NAMED_JOBS = 3
"""Number of past jobs that the sentence names."""


@dataclass(slots=True, eq=False)
class Evidence:
    """The past jobs used for an estimate, their weights, and the resulting distribution."""

    ids: Sequence[str]
    """Job ids of the user's past jobs; the estimate's places are indices."""
    estimate: Estimate
    quantiles: Quantiles
    walltime: float
    """In seconds."""
    same_script: NDArray[np.bool_] | None = None
    """Whether each of the jobs of ``ids`` has the same script; ``None`` where none has."""

    @property
    def jobs(self) -> list[tuple[str, float]]:
        """Return job ids and their shares of the total weight, prior included; the greatest first."""
        weights = self.estimate.weights
        total = float(weights.sum()) + self.estimate.prior
        order = (-weights).argsort(kind="stable")
        return [(self.ids[self.estimate.jobs[place]], float(weights[place]) / total) for place in order.tolist()]

    def range(self, share: float) -> tuple[float, float]:
        """Return the middle range in seconds that holds this share of the distribution."""
        low, high = (self.quantiles[int(len(self.quantiles) * q)] for q in ((1 - share) / 2, (1 + share) / 2))
        return low * self.walltime, high * self.walltime

    def __str__(self) -> str:
        jobs = self.jobs
        named = ", ".join(f"{job_id} {share:.0%}" for job_id, share in jobs[:MAX_NAMED_JOBS])
        same = 0 if self.same_script is None else int(self.same_script[self.estimate.jobs].sum())
        script = f", {same} with the same script" if same else ""
        past = f"{len(jobs)} past jobs of the user{script} ({named})" if jobs else "no past jobs of the user"
        running = f" and {self.estimate.running} running" if self.estimate.running else ""
        (low, high), (least, most) = self.range(0.5), self.range(0.9)
        return (
            f"{past}{running}; half of such jobs run {low:.0f} to {high:.0f} s, 90% of them {least:.0f} to {most:.0f} s"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Evidence) and str(self) == str(other)
