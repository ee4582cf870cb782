"""A percentile of the share of the walltime that recent like jobs used."""

from bisect import bisect_right
from typing import ClassVar

from pydantic import Field

from softwalltime.core.jobs import CompletedJob, NoPrediction, Prediction, Submission, make_prediction
from softwalltime.core.quantiles import quantile
from softwalltime.core.reasons import Reason
from softwalltime.predict.predictors.base import Options
from softwalltime.predict.predictors.like_jobs import Keys, Least, LikeJobsPredictor, Window


class PercentileOptions(Options):
    p: float = Field(default=85.0, ge=0, le=100, description="the percentile, 0 to 100, interpolated linearly")
    keys: Keys = ("user", "project", "walltime")
    window: Window = 30 * 86400
    least: Least = 10
    threshold: float | None = Field(
        default=None, ge=0, le=1, description="least share of the walltime ever predicted, such as 0.5"
    )


_BASIS = "{:g}th percentile of the walltime used by the {} jobs with the same {} of the last {:g} days is {:.0%}"


class Percentile(LikeJobsPredictor):
    """The P-th percentile of R = runtime / walltime over like jobs of the last days, times this job's walltime.

    Like jobs share the keys' values; a job counts while its end is at most ``window`` seconds old.  Memory is bounded
    by the jobs that ended within the window.

    Users choose project, name and walltime freely, and could run short fake jobs.  ``threshold`` limits what they gain:
    no prediction is shorter than this share of the walltime.
    """

    name: ClassVar[str] = "percentile"
    summary: ClassVar[str] = "percentile P of R over jobs with the same keys in the last W days x walltime"
    source: ClassVar[str] = "Tang, Desai, Buettner & Lan 2013"
    options: PercentileOptions
    tried_options: ClassVar[tuple[str, ...]] = (
        "p=50|75|85|95,keys=user|user+project|user+project+walltime,window=30d|90d",
    )

    def __init__(self, options: PercentileOptions) -> None:
        super().__init__(options, options.keys, options.window, options.least)
        self.by_user = "user" in options.keys
        self._p = options.p / 100

    def learn(self, job: CompletedJob) -> None:
        submission = job.submission
        if job.runtime <= 0 or not submission.walltime:
            return
        self._recent.add(self._key(submission), job.end, job.runtime / submission.walltime)

    def predict(self, submission: Submission, now: int, elapsed: int = 0) -> Prediction | NoPrediction:
        """Return the percentile of like jobs' shares, times this job's walltime, with the distribution of the shares.

        For a running job, only shares above the one that it has used count, if there are any.
        """
        walltime = submission.walltime
        if not walltime:
            return NoPrediction(Reason.NO_WALLTIME)
        shares = self._recent.values(self._key(submission), now)
        count = len(shares)
        if count < self._least:
            return self._too_few(count)
        if elapsed:
            shares = shares[bisect_right(shares, elapsed / walltime) :] or shares
        share = quantile(shares, self._p)
        if self.options.threshold is not None:
            share = max(share, self.options.threshold)
        values = (self._p * 100, count, self._alike, self._days, share)
        return make_prediction((share * walltime, _BASIS, values, shares, walltime))
