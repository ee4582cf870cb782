"""The predictions for the jobs of a workload by the daemon's decisions: an oracle of the store's views."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from softwalltime.core.jobs import DecisionRecord, whole_array
from softwalltime.measure.replay.workload import Flags, Integers, Workload

UNRECORDED = "predictor not recorded"
SKEW = 60
"""Tolerated difference between the clocks of the hook and the accounting log, in seconds."""
AT_ONCE = 3
"""Greatest difference in seconds between a decision at queuejob and the time of submission."""


@dataclass(frozen=True, slots=True)
class WorkloadPredictions:
    """Predictions for the jobs of the workload: soft walltime (-1 for none) and predictor.

    ``predictor`` is an index into ``names``.  ``applied``: PBS had the soft walltime; false in shadow mode. ``raised``:
    number of jobs whose last soft walltime is the walltime, as after a raise at start; their predictions are unknown.
    """

    soft_walltime: Integers
    predictor: Integers
    names: tuple[str, ...]
    applied: Flags
    raised: int = 0

    @property
    def shadow(self) -> Flags:
        """Mask of the jobs whose soft walltime was predicted and not set."""
        return (self.soft_walltime >= 0) & ~self.applied


def recorded_predictions(workload: Workload) -> WorkloadPredictions:
    """Return the predictions by the log: each job's last soft walltime."""
    soft = np.where(workload.scored, workload.jobs.numbers("soft_walltime"), -1)
    raised = (soft >= 0) & (soft >= workload.walltime)
    soft = np.where(raised | (soft <= 0), -1, soft)
    return WorkloadPredictions(soft, np.zeros(len(soft), np.int64), (UNRECORDED,), soft >= 0, int(raised.sum()))


def from_decisions(
    workload: Workload, decisions: Iterable[DecisionRecord], known: WorkloadPredictions
) -> WorkloadPredictions:
    """Return the daemon's last decision for each job while it waited; else what is ``known``.

    A decision at queuejob, where jobs have no id yet, belongs to the job with that user, walltime and time of
    submission.  Of several such decisions the closest is used, of its project first, as in the store's views.  If
    PBS was told to set a soft walltime, the one that the job had at its first start is used: PBS planned with that.

    :param decisions: ordered by time; those without a soft walltime are ignored.
    """
    submitted, end = workload.submitted.tolist(), workload.jobs.numbers("end").tolist()
    # A reinstalled server reuses job ids, so a decision belongs to the run at that time.  A decision about an array
    # (5[].srv) applies to all its subjobs (5[3].srv).
    runs: dict[str, list[int]] = {}
    for index, own in enumerate(workload.jobs.values("job_id")):
        for job_id in {own, whole_array(own)}:
            runs.setdefault(job_id, []).append(index)
    nameless = _Nameless(workload)
    soft, predictor, applied = known.soft_walltime.copy(), known.predictor.copy(), known.applied.copy()
    names = list(known.names)
    told: set[int] = set()
    for decision in decisions:
        if decision.event == "runjob" and (decision.mode != "on" or decision.had is None):
            continue
        if decision.event == "runjob":
            for index in runs.get(decision.submission.job_id, ()):
                if index in told and submitted[index] - SKEW <= decision.at <= end[index] + SKEW:
                    told.remove(index)
                    had = decision.had or 0
                    soft[index] = had if 0 < had < workload.walltime[index] else -1
                    applied[index] = soft[index] >= 0
            continue
        if decision.soft_walltime is None:
            continue
        # A soft walltime equal to the walltime removes the soft walltime.
        kept = decision.soft_walltime if decision.soft_walltime != decision.submission.walltime else -1
        if decision.action == "late":
            kept = -1
        name = f"{decision.predictor} (shadow)" if decision.action == "shadow" else decision.predictor
        named = decision.submission.job_id != ""
        for index in runs.get(decision.submission.job_id, ()) if named else nameless.become(decision):
            if submitted[index] - SKEW <= decision.at <= end[index] + SKEW and workload.scored[index]:
                if named:
                    nameless.known(index)
                if name not in names:
                    names.append(name)
                soft[index], predictor[index] = kept, names.index(name)
                applied[index] = kept >= 0 and decision.action == "set"
                if decision.action != "shadow":
                    told.add(index)
    return WorkloadPredictions(soft, predictor, tuple(names), applied, known.raised)


class _Nameless:
    """Matches decisions about jobs without id to jobs."""

    def __init__(self, workload: Workload) -> None:
        self._projects = list(workload.jobs.values("project"))
        self._alike: dict[tuple[str, int | None, int], list[int]] = {}
        for index, alike in enumerate(workload.jobs.rows("user", "walltime", "submitted")):
            self._alike.setdefault(alike, []).append(index)
        self._nearest: dict[int, tuple[bool, int]] = {}

    def known(self, index: int) -> None:
        """Record a decision with the job's id, which takes precedence."""
        self._nearest[index] = (False, -1)

    def become(self, decision: DecisionRecord) -> Iterator[int]:
        """Return the jobs that match this decision better than earlier ones."""
        of = decision.submission
        for distance in range(-AT_ONCE, AT_ONCE + 1):
            for index in self._alike.get((of.user, of.walltime, decision.at + distance), ()):
                near = (self._projects[index] != of.project, abs(distance))
                if index not in self._nearest or near < self._nearest[index]:
                    self._nearest[index] = near
                    yield index
