"""A workload as arrays with one entry per job, and the names that appear in it.

All figures are computed from these arrays, so one place replaces names by pseudonyms.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from softwalltime.core.formatting import printable
from softwalltime.core.jobs import DEFAULT_PROJECT
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
    ``soft_walltime`` is the last one in the log, -1 for none.  ``ncpus`` is 0 if unknown.  ``t`` is the runtime capped
    at the walltime.  ``project_field`` is the field in ``project``: the first of project, account and group in which
    jobs differ.
    """

    submitted: Integers
    end: Integers
    wait: Integers
    runtime: Integers
    walltime: Integers
    t: Integers
    ncpus: Integers
    soft_walltime: Integers
    scored: NDArray[np.bool_]
    user: Names
    project: Names
    queue: Names
    project_field: str

    @property
    def cpu_seconds(self) -> Integers:
        """Requested processors x runtime; an unknown number of processors counts as 1."""
        return np.maximum(self.ncpus, 1) * self.runtime


def make_columns(workload: Workload, rename: Rename = lambda kind, name: name) -> Columns:
    submitted = workload.submitted
    start = workload.jobs.numbers("start")
    etime = workload.jobs.numbers("etime", 0)
    # Held and dependent jobs were not eligible.
    eligible = np.where((etime >= submitted) & (etime <= start), etime, submitted)
    wait = np.where(start >= 0, np.maximum(start - eligible, 0), -1)
    fields = ("project", "account", "group")
    project_field = next((name for name in fields if len(set(workload.jobs.values(name))) > 1), "project")

    def named(kind: str, values: Iterable[str]) -> Names:
        codes, names = encode(values)
        shown = (printable(rename(kind, name), UNPRINTABLE) if name else UNNAMED for name in names)
        return Names(codes, tuple(shown))

    return Columns(
        submitted=submitted,
        end=workload.jobs.numbers("end"),
        wait=wait,
        runtime=workload.runtime,
        walltime=workload.walltime,
        t=np.minimum(workload.runtime, workload.walltime),
        ncpus=workload.jobs.numbers("ncpus", 0),
        soft_walltime=workload.jobs.numbers("soft_walltime"),
        scored=workload.scored,
        user=named("user", workload.jobs.values("user")),
        project=named(
            project_field, ("" if name == DEFAULT_PROJECT else name for name in workload.jobs.values(project_field))
        ),
        queue=named("queue", workload.jobs.values("queue")),
        project_field=project_field,
    )  # fmt: skip


def encode(values: Iterable[str]) -> tuple[Integers, list[str]]:
    """Return each value as index into the distinct values, which are ordered by first appearance."""
    index: dict[str, int] = {}
    codes = [index.setdefault(value, len(index)) for value in values]
    return np.array(codes, np.int64), list(index)
