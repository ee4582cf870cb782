"""The median runtime of jobs that were submitted alike."""

from collections.abc import Callable, Hashable
from operator import attrgetter
from typing import ClassVar

from pydantic import Field

from softwalltime.jobs import ColdStart, CompletedJob, Prediction, Submission
from softwalltime.predictors.base import History, Options, Predictor
from softwalltime.predictors.like_jobs import Keys, RecentJobs, Window
from softwalltime.quantiles import quantile
from softwalltime.reasons import Reason


class MemorizerOptions(Options):
    """Options of ``memorizer``."""

    keys: Keys = ("user", "project", "job_name", "queue", "ncpus", "walltime")
    window: Window = 10 * 86400
    least: int = Field(default=1, ge=1, description="fewer like jobs than this give no prediction")


class Memorizer(Predictor):
    """The median runtime of the jobs of the last days with the same signature, all that is known at submission.

    What it cannot predict no other predictor with these inputs can: jobs with one signature that run differently.
    """

    name: ClassVar[str] = "memorizer"
    summary: ClassVar[str] = "median runtime of the jobs with the same signature in the last W days"
    source: ClassVar[str] = "hpc-oda-commons 2026, submit-time signatures with a lookback of 10, 30 or 120 days"
    options_type: ClassVar[type[Options]] = MemorizerOptions

    def __init__(self, options: MemorizerOptions) -> None:
        super().__init__(options)
        self._window = options.window
        self._least = options.least
        self._alike = " and ".join(options.keys)
        self._key: Callable[[Submission], Hashable] = attrgetter(*options.keys)
        self._recent = RecentJobs(options.window)

    @property
    def history(self) -> History:
        """All jobs of the window."""
        return History(seconds=self._window)

    def learn(self, job: CompletedJob) -> None:
        """Add the job's runtime, if it ran."""
        if job.runtime > 0:
            self._recent.add(self._key(job.submission), job.end, job.runtime)

    def predict(self, submission: Submission, now: int, elapsed: int = 0) -> Prediction | ColdStart:
        """The median of like jobs' runtimes; of a running job, of those that ran longer than it has, if any did."""
        runtimes = self._recent.values(self._key(submission), now)
        if elapsed:
            runtimes = [seconds for seconds in runtimes if seconds > elapsed] or runtimes
        count = len(runtimes)
        if count < self._least:
            return ColdStart(Reason.TOO_FEW_JOBS, (count, self._alike, self._window / 86400, self._least))
        return Prediction(
            quantile(runtimes, 0.5),
            "median runtime of the {} jobs with the same {} of the last {:g} days",
            (count, self._alike, self._window / 86400),
            runtimes,
        )
