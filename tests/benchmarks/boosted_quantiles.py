"""Quantiles of the runtime by gradient boosting (LightGBM), fitted anew each week: for :mod:`.bench_pinball`.

One model for each quantile minimises the pinball loss in seconds.  It is fitted to the jobs that ended before the week,
and predicts the jobs submitted in the week.  The features are those of :mod:`softwalltime.predict.predictors.gaussier`,
statistics of the last runtimes of the user and of the user's jobs with the same walltime and
processors, and the codes of user, group, queue and job name.  All features are as they were at the submission.
"""

from collections import deque
from collections.abc import Hashable, Sequence
from importlib import import_module
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from softwalltime.core.events import Kind
from softwalltime.core.jobs import CompletedJob, Submission
from softwalltime.measure.replay.workload import Workload
from softwalltime.predict.predictors.gaussier import Asked, PastRun, UserRuns

Floats = NDArray[np.float64]

INSTALLED = find_spec("lightgbm") is not None
"""Whether the baseline can be measured: ``pip install lightgbm``; the project does not need it."""
CODES = ("user", "group", "queue", "job_name")
"""Fields of a submission that are categories."""
WEEK = 7 * 86400
LARGE, WEEKS_OF_LARGE = 30_000, 13
"""Of workloads of so many jobs or more only the last weeks are predicted: each week takes ten fits."""
MAX_TRAINING_JOBS = 20_000
"""Jobs to fit to, the last ones to end."""
MIN_TRAINING_JOBS = 200
"""Least number of jobs for a fit."""
LAST = 10
"""Last jobs in a statistic."""
BINS = {"max_bin": 63, "verbose": -1}
TREES = 60
OPTIONS = {
    "objective": "quantile", "learning_rate": 0.1, "num_leaves": 15, "min_data_in_leaf": 50, "num_threads": 1,
    "feature_fraction": 0.5, "seed": 1, "deterministic": True, "force_row_wise": True, **BINS,
}  # fmt: skip


def boosted_quantiles(workload: Workload, shares: Sequence[float]) -> Floats:
    """Return the quantiles of each job, one row a job, in seconds; NaN before the first fit and outside the part."""
    lightgbm = import_module("lightgbm")
    features = submission_features(workload)
    codes = list(range(features.shape[1] - len(CODES), features.shape[1]))
    walltime = workload.walltime.astype(float)
    runtime = np.minimum(workload.runtime, workload.walltime).astype(float)
    ends = workload.ends()
    ends = ends[workload.teaches[ends] & (walltime[ends] > 0) & (runtime[ends] > 0)]
    found = np.full((len(walltime), len(shares)), np.nan)
    week, part = workload.submitted // WEEK, predicted_part(workload)
    for number in np.unique(week[part]).tolist():
        past = ends[: np.searchsorted(workload.ended[ends], number * WEEK)][-MAX_TRAINING_JOBS:]
        if len(past) < MIN_TRAINING_JOBS:
            continue
        asked = np.flatnonzero(week == number)
        # Shares of the walltime with the walltime as weight have the pinball loss in seconds.
        data = lightgbm.Dataset(
            features[past], runtime[past] / walltime[past], weight=walltime[past],
            categorical_feature=codes, params=BINS,
        )  # fmt: skip
        for place, share in enumerate(shares):
            model = lightgbm.train({**OPTIONS, "alpha": share}, data, TREES)
            found[asked, place] = model.predict(features[asked], num_threads=1) * walltime[asked]
    # Quantiles that cross: in order their loss is less (Chernozhukov, Fernandez-Val & Galichon 2010).
    found.sort(axis=1)
    return found


def predicted_part(workload: Workload) -> NDArray[np.bool_]:
    """Return which jobs are predicted: all, or those of the last weeks."""
    if len(workload.jobs) < LARGE:
        return np.ones(len(workload.jobs), np.bool_)
    week = workload.submitted // WEEK
    found: NDArray[np.bool_] = week > week.max() - WEEKS_OF_LARGE
    return found


def submission_features(workload: Workload) -> Floats:
    """Return the features of each job at its submission, one row a job; the last columns are :data:`CODES`."""
    past = _Past()
    found = np.full((len(workload.jobs), past.width), np.nan)
    for stride in workload.stream(everything=True):
        for kind, number, job, now, _ in zip(*stride, strict=True):
            if kind == Kind.SUBMITTED:
                if job.submission.walltime:
                    found[number] = past.features(job.submission)
            elif kind == Kind.STARTED:
                past.start(job.submission, now)
            else:
                past.end(job)
                if kind == Kind.ENDED and workload.teaches[number]:
                    past.learn(job)
    return found


class _Past:
    """What is known of all users' past jobs."""

    def __init__(self) -> None:
        self._runs: dict[str, UserRuns] = {}
        # Runtimes in seconds, shares of the walltime used, and ends of the last jobs.
        self._last: dict[Hashable, deque[tuple[float, float, int]]] = {}
        self._submitted: dict[Hashable, int] = {}
        self._codes: dict[tuple[str, str], int] = {}
        self.width = len(self.features(Submission("", "", 0, 1)))

    def features(self, submission: Submission) -> list[float]:
        """Return the features of a job; the next one's know that it was submitted."""
        user, walltime, ncpus, now = (
            submission.user,
            submission.walltime or 0,
            submission.ncpus or 1,
            submission.submitted,
        )
        runs = self._runs.get(user) or UserRuns()
        found = runs.features(Asked(submission.job_id, now, walltime, ncpus), now)
        for key in (user, (user, walltime), (user, walltime, ncpus)):
            found += self._statistics(key, now)
            found.append(now - self._submitted.get(key, now))
            self._submitted[key] = now
        found += self._statistics((submission.queue, walltime), now)
        found += [runs.count, now % 86400 / 3600, now // 86400 % 7]
        for field in CODES:
            found.append(self._codes.setdefault((field, getattr(submission, field)), len(self._codes)))
        return found

    def _statistics(self, key: Hashable, now: int) -> list[float]:
        last = self._last.get(key)
        if not last:
            return [np.nan] * 9
        runtimes, shares, ends = zip(*last, strict=True)
        middle = sorted(runtimes)[len(runtimes) // 2]
        return [
            len(last), runtimes[-1], min(runtimes), middle, max(runtimes), sum(runtimes) / len(last),
            shares[-1], sum(shares) / len(last), now - ends[-1],
        ]  # fmt: skip

    def start(self, submission: Submission, now: int) -> None:
        """Note that a job runs."""
        runs = self._runs.setdefault(submission.user, UserRuns())
        runs.running[submission.job_id] = (now, submission.ncpus or 1)

    def end(self, job: CompletedJob) -> None:
        """Note that a job runs no longer."""
        if runs := self._runs.get(job.submission.user):
            runs.running.pop(job.submission.job_id, None)

    def learn(self, job: CompletedJob) -> None:
        """Add a job that ended, if it ran and had a walltime."""
        submission, walltime = job.submission, job.submission.walltime
        if not walltime or job.runtime <= 0:
            return
        user, ncpus, runtime = submission.user, submission.ncpus or 1, min(job.runtime, walltime)
        start = job.end - job.runtime if job.start is None else job.start
        run = PastRun(job.end, submission.submitted, start, runtime, ncpus)
        self._runs.setdefault(user, UserRuns()).add(run)
        for key in (user, (user, walltime), (user, walltime, ncpus), (submission.queue, walltime)):
            self._last.setdefault(key, deque(maxlen=LAST)).append((runtime, runtime / walltime, job.end))
