"""A workload as arrays with one entry per job, and the names that appear in it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from softwalltime.core.formatting import printable
from softwalltime.measure.replay.workload import Workload

Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]
Rename = Callable[[str, str], str]
"""Maps the kind of a name (user, project, queue) and the name to the name to print."""

UNNAMED = "(none)"
UNPRINTABLE = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True, slots=True)
class Names:
    codes: Integers
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Columns:
    """All jobs of a workload in order of submission; times in epoch seconds, durations in seconds.

    ``wait`` begins when the job could have run (PBS's etime, else its submission) and ends at its start; -1 if unknown.
    ``ncpus`` is 0 if unknown.
    """

    submitted: Integers
    end: Integers
    wait: Integers
    runtime: Integers
    ncpus: Integers
    user: Names
    queue: Names

    @property
    def cpu_seconds(self) -> Integers:
        """Requested processors x runtime; an unknown number of processors counts as 1."""
        return np.maximum(self.ncpus, 1) * self.runtime


def make_columns(workload: Workload) -> Columns:
    jobs, submitted = workload.jobs, workload.submitted
    start, etime = jobs.numbers("start"), jobs.numbers("etime", 0)
    # Held and dependent jobs were not eligible.
    eligible = np.where((etime >= submitted) & (etime <= start), etime, submitted)
    return Columns(
        submitted=submitted,
        end=jobs.numbers("end"),
        wait=np.where(start >= 0, np.maximum(start - eligible, 0), -1),
        runtime=workload.runtime,
        ncpus=jobs.numbers("ncpus", 0),
        user=_names(jobs.values("user")),
        queue=_names(jobs.values("queue")),
    )


def _names(values: Iterable[str]) -> Names:
    """Return each value as index into the distinct values, which are ordered by first appearance."""
    index: dict[str, int] = {}
    codes = [index.setdefault(value, len(index)) for value in values]
    return Names(np.array(codes, np.int64), tuple(printable(name, UNPRINTABLE) or UNNAMED for name in index))
