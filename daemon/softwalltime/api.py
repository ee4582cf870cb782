"""The Python interface: read recorded jobs, replay predictors over them, simulate schedules of them.

``import softwalltime`` loads nothing; each of these names is loaded when it is first used, and needs the extra
``measure``::

    from softwalltime import read_jobs, replay, simulate

    jobs = read_jobs("KTH-SP2-1996.swf.gz")
    print(replay(jobs, ["v1", "v3"])["v1"].scores.accuracy_mean)
    print(simulate(jobs, waiting="factor:0.5").metrics.wait_mean)
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softwalltime.accounting.folders import find_logs
from softwalltime.accounting.reader import read_values
from softwalltime.accounting.tally import Tally
from softwalltime.errors import OptionError, SourceError
from softwalltime.jobs import ColdStart, CompletedJob, Prediction, Submission
from softwalltime.policy.clamp import MINIMUM
from softwalltime.predictors.base import Options, Predictor
from softwalltime.predictors.registry import make
from softwalltime.replay.drive import drive
from softwalltime.replay.job_columns import JobColumns
from softwalltime.replay.metrics import WARM_UP, Scores, score
from softwalltime.replay.workload import Workload
from softwalltime.simulation import engine
from softwalltime.simulation.jobs import jobs_of
from softwalltime.simulation.metrics import Metrics, measure, waits
from softwalltime.simulation.policies import Policy, policy_of
from softwalltime.workloads.synthetic import generate

__all__ = [
    "ColdStart",
    "CompletedJob",
    "Options",
    "Policy",
    "Prediction",
    "Predictor",
    "Replayed",
    "Simulated",
    "Submission",
    "generate",
    "read_jobs",
    "replay",
    "simulate",
]


@dataclass(frozen=True, slots=True)
class Replayed:
    """What one predictor would have predicted, and how accurate it would have been.

    The arrays have one entry for each job, in order of submission.  ``soft_walltimes`` are in seconds, -1 where the job
    would have got none.  ``scored`` is true for the jobs that ``scores`` are made of: they ran and had a walltime.
    ``after_warm_up`` are the scores without the first 1% of the scored jobs.
    """

    predictor: str
    scores: Scores
    after_warm_up: Scores
    soft_walltimes: NDArray[np.int64]
    walltimes: NDArray[np.int64]
    runtimes: NDArray[np.int64]
    scored: NDArray[np.bool_]

    def row(self) -> dict[str, Any]:
        """Return the predictor's name and scores, for example as a row of a ``pandas.DataFrame``."""
        return {"predictor": self.predictor, **asdict(self.scores)}


@dataclass(frozen=True, slots=True)
class Simulated:
    """A simulated schedule.

    The arrays have one entry for each simulated job, in order of submission: ``submitted`` and ``starts`` in epoch
    seconds, ``waits`` in seconds.  ``left_out`` counts the jobs that cannot be simulated, by reason.
    """

    policy: Policy
    processors: int
    metrics: Metrics
    submitted: NDArray[np.int64]
    starts: NDArray[np.int64]
    waits: NDArray[np.int64]
    left_out: dict[str, int]


def read_jobs(*paths: str | PathLike[str]) -> JobColumns:
    """Return the completed jobs of accounting logs, folders of logs, and traces in Standard Workload Format.

    The result is a sequence of :class:`CompletedJob` that keeps the jobs as columns: ``jobs[0]`` and ``jobs[10:20]``
    work, and ``jobs.numbers("runtime")`` is an array.  Malformed lines are left out.

    :raises SourceError: if a file cannot be read, or there is no completed job.
    """
    found = find_logs(map(Path, paths))
    tally = Tally(broken=found.broken)
    jobs, _ = JobColumns.of(read_values(found.files, tally)).each_run_once()
    if tally.broken:
        raise tally.broken[0]
    if not jobs:
        raise SourceError(f"no completed job in {' '.join(map(str, paths))}")
    return jobs


def replay(
    jobs: Sequence[CompletedJob], predictors: Iterable[str | Predictor], *, minimum: int = MINIMUM
) -> dict[str, Replayed]:
    """Replay recorded jobs through predictors: each learns from a job when it ends, and predicts it when submitted.

    :param jobs: as from :func:`read_jobs`, in any order.
    :param predictors: specs such as ``"percentile:p=95"``, or objects of your own subclasses of :class:`Predictor`,
        which must be new.  ``"request"`` is the baseline, the walltime.
    :param minimum: least soft walltime in seconds.
    :returns: the results by spec, or by the name of a predictor of your own.
    :raises OptionError: if no predictor has this name, an option is wrong, or two results would have the same name.
    """
    workload = Workload(jobs)
    results: dict[str, Replayed] = {}
    for each in predictors:
        name = each if isinstance(each, str) else each.name
        if name in results:
            raise OptionError(f"two predictors are called {name!r}: replay them separately")
        soft = drive(workload, make(each) if isinstance(each, str) else each, minimum).soft_walltimes
        results[name] = Replayed(
            name, score(workload, soft), score(workload, soft, WARM_UP), soft, workload.walltime, workload.runtime,
            workload.scored,
        )  # fmt: skip
    return results


def simulate(
    jobs: Sequence[CompletedJob], processors: int | None = None, policy: Policy | None = None, **changes: Any
) -> Simulated:
    """Schedule recorded jobs on a machine of interchangeable processors under a policy.

    ``simulate(jobs)`` is first come, first served with EASY backfilling and walltimes; ``simulate(jobs,
    waiting="factor:0.5", order="wfp")`` changes the fields of :class:`Policy` that it names.

    :param processors: size of the machine; by default the most that were in use at one time.
    :param policy: the policy that the changes are made to; by default that of today.
    :raises OptionError: if the policy has no such field, or a value is wrong.
    :raises UsageError: if the policy names something that does not exist.
    """
    chosen = policy or Policy()
    if changes:
        chosen = policy_of({**asdict(chosen), **changes}, "simulate")
    engine.check(chosen)
    every = jobs_of(jobs)
    size = processors or every.peak()
    fitting, refused = every.that_fit(size)
    outcome = engine.simulate(fitting, size, chosen)
    left_out = fitting.left_out | ({"larger than the machine": refused} if refused else {})
    # Its speed is not a property of the schedule.
    metrics = replace(measure(fitting, outcome, size), jobs_per_second=None)
    submitted = np.array(fitting.submitted, np.int64)
    return Simulated(chosen, size, metrics, submitted, outcome.start, waits(fitting, outcome), left_out)
