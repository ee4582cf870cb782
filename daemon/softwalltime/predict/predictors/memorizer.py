"""The median runtime of jobs with the same signature."""

from typing import ClassVar, Literal

from pydantic import Field

from softwalltime.core.jobs import CompletedJob, NoPrediction, Prediction, Submission
from softwalltime.core.quantiles import quantile
from softwalltime.predict.predictors.base import Options
from softwalltime.predict.predictors.keys import SIGNATURE
from softwalltime.predict.predictors.like_jobs import Keys, Least, LikeJobsPredictor, RecentJobs, Window


class MemorizerOptions(Options):
    keys: Keys = SIGNATURE
    window: Window = 10 * 86400
    least: Least = 1
    fallback: Literal["walltime", "median"] = Field(
        default="walltime", description="without like jobs: keep the walltime, or the median of all jobs of the window"
    )


class Memorizer(LikeJobsPredictor):
    """The median runtime of the jobs of the last days with the same signature: all fields known at submission.

    Runtimes of jobs with the same signature vary; predictors with more information may have a smaller error.
    """

    name: ClassVar[str] = "memorizer"
    summary: ClassVar[str] = "median runtime of the jobs with the same signature in the last W days"
    source: ClassVar[str] = "hpc-oda-commons 2026, submit-time signatures with a lookback of 10, 30 or 120 days"
    options: MemorizerOptions
    tried_options: ClassVar[tuple[str, ...]] = ("window=10d|30d|120d",)

    def __init__(self, options: MemorizerOptions) -> None:
        super().__init__(options, options.keys, options.window, options.least)
        self._all = RecentJobs(options.window) if options.fallback == "median" else None

    def learn(self, job: CompletedJob) -> None:
        if job.runtime > 0:
            self._recent.add(self._key(job.submission), job.end, job.runtime)
            if self._all is not None:
                self._all.add("", job.end, job.runtime)

    def predict(self, submission: Submission, now: int, elapsed: int = 0) -> Prediction | NoPrediction:
        """Return the median runtime of like jobs; for a running job, of those that ran longer than it has, if any."""
        runtimes = self._recent.values(self._key(submission), now)
        if elapsed:
            runtimes = [seconds for seconds in runtimes if seconds > elapsed] or runtimes
        count = len(runtimes)
        if count < self._least:
            everyone = self._all.values("", now) if self._all is not None else []
            if not everyone:
                return self._too_few(count)
            return Prediction(
                quantile(everyone, 0.5),
                "median runtime of all {} jobs of the last {:g} days: only {} have the same {}",
                (len(everyone), self._days, count, self._alike),
                everyone,
            )
        return Prediction(
            quantile(runtimes, 0.5),
            "median runtime of the {} jobs with the same {} of the last {:g} days",
            (count, self._alike, self._days),
            runtimes,
        )
