"""The Python interface: read recorded jobs, replay predictors over them, simulate schedules of them.

``import softwalltime`` loads nothing; each of these names is loaded when it is first used, and needs the extra
``measure``::

    from softwalltime import read_jobs
    from softwalltime import replay
    from softwalltime import simulate

    jobs = read_jobs("KTH-SP2-1996.swf.gz")
    print(replay(jobs, ["v1", "v3"])["v1"].scores.accuracy_mean)
    print(simulate(jobs, waiting="factor:0.5").metrics.wait_mean)
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softwalltime.accounting.queue_limits import read_queue_limits
from softwalltime.accounting.tally import Tally
from softwalltime.core.errors import OptionError, SourceError
from softwalltime.core.jobs import CompletedJob, NoPrediction, Prediction, Submission
from softwalltime.measure.replay.accuracy_metrics import WARM_UP_SHARE, Scores, score
from softwalltime.measure.replay.checked_predictor import checked
from softwalltime.measure.replay.fast_replay import drive, predicted_quantiles
from softwalltime.measure.replay.job_columns import JobColumns, with_queue_walltimes
from softwalltime.measure.replay.recorded_files import RecordedFiles
from softwalltime.measure.replay.workload import Scoring, Workload
from softwalltime.measure.simulation import engine
from softwalltime.measure.simulation.policies import SchedulerPolicy, policy_of
from softwalltime.measure.simulation.schedule_metrics import Metrics, measure, waits
from softwalltime.measure.simulation.simulated_jobs import jobs_of
from softwalltime.measure.workloads.synthetic import generate
from softwalltime.predict.policy.clamp import MIN_SOFT_WALLTIME_S
from softwalltime.predict.policy.site import KEEP, WALLTIME
from softwalltime.predict.predictors.base import Options, Predictor
from softwalltime.predict.predictors.registry import make

__all__ = [
    "CompletedJob", "NoPrediction", "Options", "Prediction", "Predictor", "Replayed", "SchedulerPolicy", "Simulated",
    "Submission", "generate", "read_jobs", "replay", "simulate",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Replayed:
    """What one predictor would have predicted, and how accurate it would have been.

    The arrays have one entry for each job, in order of submission.  ``soft_walltimes`` are in seconds, -1 where the job
    would have got none.  ``scored`` is true for the jobs that ``scores`` are made of: they ran, had a walltime and were
    submitted in the scoring period.  ``after_warm_up`` are the scores without the first 1% of the scored jobs.
    ``submitted`` is in epoch seconds.

    With ``running``, ``at_start`` are the soft walltimes from the start on, -1 for the walltime, and ``start_scores``
    are those of these values.  With ``quantiles``, ``distributions`` has a row for each job and a column for each
    quantile, in seconds, NaN where the predictor gave no distribution.
    """

    predictor: str
    scores: Scores
    after_warm_up: Scores
    soft_walltimes: NDArray[np.int64]
    walltimes: NDArray[np.int64]
    runtimes: NDArray[np.int64]
    scored: NDArray[np.bool_]
    job_ids: tuple[str, ...]
    users: tuple[str, ...]
    submitted: NDArray[np.int64]
    at_start: NDArray[np.int64] | None = None
    start_scores: Scores | None = None
    quantiles: tuple[float, ...] = ()
    distributions: NDArray[np.float64] | None = None

    def to_table(self) -> dict[str, Any]:
        """Return the columns by name, one entry for each job: for ``pandas.DataFrame`` or ``polars.DataFrame``."""
        table: dict[str, Any] = {
            "job_id": list(self.job_ids), "user": list(self.users), "submitted": self.submitted,
            "walltime": self.walltimes, "runtime": self.runtimes, "soft_walltime": self.soft_walltimes,
            "scored": self.scored,
        }  # fmt: skip
        if self.at_start is not None:
            table["at_start"] = self.at_start
        if self.distributions is not None:
            columns = zip(self.quantiles, self.distributions.T, strict=True)
            table |= {f"quantile_{share:g}": column for share, column in columns}
        return table

    def row(self) -> dict[str, Any]:
        return {"predictor": self.predictor, **asdict(self.scores)}


@dataclass(frozen=True, slots=True)
class Simulated:
    """A simulated schedule.

    The arrays and ``job_ids`` have one entry for each simulated job, in order of submission: ``submitted`` and
    ``starts`` in epoch seconds, ``waits`` in seconds.  ``left_out`` counts the jobs that cannot be simulated, by
    reason.  ``metrics`` are of the jobs with a walltime, which used ``scored_share`` of the processor time; the others
    only hold processors.
    """

    policy: SchedulerPolicy
    processors: int
    metrics: Metrics
    submitted: NDArray[np.int64]
    starts: NDArray[np.int64]
    waits: NDArray[np.int64]
    left_out: dict[str, int]
    scored_share: float
    job_ids: tuple[str, ...]


def read_jobs(*paths: str | PathLike[str]) -> JobColumns:
    """Return the completed jobs of accounting logs, folders of logs, traces, and files of ``softwalltime export``.

    The result is a sequence of :class:`CompletedJob` that keeps the jobs as columns: ``jobs[0]`` and ``jobs[10:20]``
    work, and ``jobs.numbers("runtime")`` is an array.  Malformed lines are left out.

    :raises SourceError: if a file cannot be read, or there is no completed job.
    """
    tally = Tally()
    jobs = RecordedFiles([Path(path) for path in paths]).read(tally)
    if tally.broken:
        raise tally.broken[0]
    if not jobs:
        raise SourceError(f"no completed job in {' '.join(map(str, paths))}")
    return jobs


def replay(
    jobs: Sequence[CompletedJob],
    predictors: Iterable[str | Predictor],
    *,
    minimum: int = MIN_SOFT_WALLTIME_S,
    running: str | Predictor | None = None,
    walltime_from: Mapping[str, int] | str | None = None,
    period: tuple[datetime | int | None, datetime | int | None] = (None, None),
    quantiles: Sequence[float] = (),
) -> dict[str, Replayed]:
    """Replay recorded jobs through predictors: each learns from a job when it ends, and predicts it when submitted.

    :param jobs: as from :func:`read_jobs`, in any order.
    :param predictors: specs such as ``"percentile:p=95"``, or objects of your own subclasses of :class:`Predictor`,
        which must be new.  ``"request"`` is the baseline, the walltime.
    :param minimum: least soft walltime in seconds.
    :param running: predict at the start too: the predictor for running jobs, ``"walltime"`` or ``"keep"``.
    :param walltime_from: walltimes of jobs that have none, in seconds by queue (``"*"``: other queues), or as text:
        ``"short=1:00:00,*=24:00:00"`` or the path of a file with such lines.
    :param period: score only jobs submitted from the first time to before the second one, epoch seconds or datetimes
        (UTC where they name no time zone); predictors learn from all jobs.
    :param quantiles: quantiles of the predicted distributions to record, between 0 and 1; it takes a second replay.
    :returns: the results by spec, or by the name of a predictor of your own.
    :raises OptionError: if no predictor has this name, an option is wrong, two results would have the same name, or a
        predictor has learnt already.
    :raises SoftwalltimeError: if a predictor raises or returns no prediction; names it and the job.
    """
    since, until = map(_epoch, period)
    workload = Workload(_with_walltimes(jobs, walltime_from), scoring=Scoring(since, until))
    results: dict[str, Replayed] = {}
    for predictor in predictors:
        name = predictor if isinstance(predictor, str) else predictor.name
        if name in results:
            raise OptionError(f"two predictors are called {name!r}: replay them separately")
        results[name] = _replayed(workload, predictor, name, minimum, running, tuple(quantiles))
    return results


def _replayed(
    workload: Workload, predictor: str | Predictor, name: str, minimum: int, running: str | Predictor | None,
    quantiles: tuple[float, ...],
) -> Replayed:  # fmt: skip
    made = make(predictor) if isinstance(predictor, str) else predictor
    again = deepcopy(made) if quantiles else None
    waiting = checked(made, name)
    at_start: Predictor | str = WALLTIME
    if running is not None:
        at_start = waiting if running in (predictor, name) else _running(running)
    result = drive(workload, waiting, minimum, running=at_start)
    soft = result.soft_walltimes
    return Replayed(
        name, score(workload, soft), score(workload, soft, WARM_UP_SHARE), soft, workload.walltime, workload.runtime,
        workload.scored, tuple(workload.jobs.values("job_id")), tuple(workload.jobs.values("user")), workload.submitted,
        None if running is None else result.at_start,
        None if running is None else score(workload, result.at_start),
        quantiles,
        None if again is None else predicted_quantiles(workload, checked(again, name), quantiles),
    )  # fmt: skip


def _running(running: str | Predictor) -> Predictor | str:
    if isinstance(running, str):
        return running if running in (WALLTIME, KEEP) else checked(make(running), running)
    # One object would learn each job once for each of the predictors beside it.
    return checked(deepcopy(running), running.name)


def simulate(
    jobs: Sequence[CompletedJob],
    processors: int | None = None,
    policy: SchedulerPolicy | None = None,
    *,
    walltime_from: Mapping[str, int] | str | None = None,
    **changes: Any,
) -> Simulated:
    """Schedule recorded jobs on a machine of interchangeable processors under a policy.

    ``simulate(jobs)`` is first come, first served with EASY backfilling and walltimes; ``simulate(jobs,
    waiting="factor:0.5", order="wfp")`` changes the fields of :class:`SchedulerPolicy` that it names.  ``waiting``,
    ``running`` and ``ordering`` may be new objects of your own subclasses of :class:`Predictor`; one object may be
    several of them.

    :param processors: size of the machine; by default the most that were in use at one time.
    :param policy: the policy that the changes are made to; by default that of today.
    :param walltime_from: walltimes of jobs that have none, as in :func:`replay`.  Jobs whose walltime is still unknown
        hold their processors, planned without an end, and are not among the metrics.
    :raises OptionError: if the policy has no such field, a value is wrong, or a predictor has learnt already.
    :raises UsageError: if the policy names something that does not exist.
    :raises SoftwalltimeError: if a predictor raises or returns no prediction; names it and the job.
    """
    objects: dict[str, Predictor] = {}
    for field, value in changes.items():
        if isinstance(value, Predictor):
            if objects.setdefault(value.name, value) is not value:
                raise OptionError(f"two predictors are called {value.name!r}: give one of them another name")
            changes[field] = value.name
    chosen = policy or SchedulerPolicy()
    if changes:
        chosen = policy_of({**asdict(chosen), **changes}, "simulate", objects)
    engine.check(chosen, objects)
    every = jobs_of(_with_walltimes(jobs, walltime_from), vnodes=chosen.vnodes)
    size = processors or every.peak()
    fitting, refused = every.that_fit(size)
    own = {name: checked(predictor, name) for name, predictor in objects.items()}
    outcome = engine.simulate(fitting, size, chosen, predictors=own)
    left_out = fitting.left_out | ({"larger than the machine": refused} if refused else {})
    # Its speed is not a property of the schedule.
    metrics = replace(measure(fitting, outcome, size), jobs_per_second=None)
    submitted = np.array(fitting.submitted, np.int64)
    return Simulated(
        chosen, size, metrics, submitted, outcome.start, waits(fitting, outcome), left_out, fitting.scored_share(),
        tuple(fitting.completed.values("job_id")),
    )  # fmt: skip


def _with_walltimes(
    jobs: Sequence[CompletedJob], walltime_from: Mapping[str, int] | str | None
) -> Sequence[CompletedJob]:
    if walltime_from is None:
        return jobs
    walltimes = read_queue_limits(walltime_from) if isinstance(walltime_from, str) else walltime_from
    return with_queue_walltimes(jobs, walltimes)


def _epoch(time: datetime | int | None) -> int | None:
    if not isinstance(time, datetime):
        return time
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp())
