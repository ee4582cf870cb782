"""The greatest share of the walltime that the user's recent jobs used (v3), and its later variant (v4)."""

from typing import ClassVar

from pydantic import Field

from softwalltime.core.jobs import CompletedJob, NoPrediction, Prediction, Submission, make_prediction
from softwalltime.core.reasons import Reason
from softwalltime.predict.predictors.base import History, Options, Predictor
from softwalltime.predict.predictors.last_jobs import LastJobs

_PLAIN = "user {1} used at most {2:.0%} of the walltime in the last {0} jobs, plus {3:g} s"
_DOUBLED = "user {1} used at most {2:.0%} of the walltime in the last {0} jobs, doubled, plus {3:g} s"


class UsageOptions(Options):
    last: int = Field(default=15, ge=1, le=1000, description="how many of the user's last jobs count")
    margin: float = Field(default=900.0, ge=0, description="seconds added to the product")


class Usage(Predictor):
    """The largest runtime / walltime of the user's last jobs, times this job's walltime, plus a margin.

    After a job that used its whole walltime, the user's next jobs are predicted with theirs.  Underestimates are rare,
    and many predictions equal the walltime.
    """

    name: ClassVar[str] = "usage"
    aliases: ClassVar[tuple[str, ...]] = ("v3",)
    summary: ClassVar[str] = "max R of the user's last 15 jobs x walltime + 900 s"
    source: ClassVar[str] = "Chlumský & Klusáček 2022, Algorithm 2"
    options: UsageOptions
    by_user = True

    def __init__(self, options: UsageOptions) -> None:
        super().__init__(options)
        self._jobs: dict[str, LastJobs[float, float]] = {}

    @property
    def history(self) -> History:
        return History(per_user=self.options.last)

    def learn(self, job: CompletedJob) -> None:
        submission = job.submission
        if job.runtime <= 0 or not submission.walltime:
            return
        jobs = self._jobs.get(submission.user) or self._jobs.setdefault(submission.user, LastJobs(self.options.last))
        jobs.add(job, job.runtime / submission.walltime)

    def predict(self, submission: Submission, now: int, elapsed: int = 0) -> Prediction | NoPrediction:
        jobs = self._jobs.get(submission.user)
        if jobs is None:
            return NoPrediction(Reason.NO_COMPLETED_JOBS_WITH_WALLTIME, (submission.user,))
        if not submission.walltime:
            return NoPrediction(Reason.NO_WALLTIME)
        if (share := jobs.summary) is None:
            share = jobs.summary = max(jobs.values)
        product, template = self._product(share, submission.walltime)
        values = (len(jobs.values), submission.user, share, self.options.margin)
        return make_prediction((product + self.options.margin, template, values, (), 1.0))

    def _product(self, share: float, walltime: int) -> tuple[float, str]:
        """Return the predicted runtime without the margin, in seconds, and the sentence about it."""
        return share * walltime, _PLAIN


class UsageLong(Usage):
    """The later variant of ``usage``: shares capped at 1, and the product doubled for long jobs."""

    name: ClassVar[str] = "usage-long"
    aliases: ClassVar[tuple[str, ...]] = ("v4",)
    summary: ClassVar[str] = "usage, R capped at 1, the product doubled when walltime > 24 h, + 900 s"
    source: ClassVar[str] = "CESNET softwalltime-predictor, after Chlumský & Klusáček 2022, Algorithm 2"

    def _product(self, share: float, walltime: int) -> tuple[float, str]:
        product = min(1.0, share) * walltime
        return (2 * product, _DOUBLED) if walltime > 86400 else (product, _PLAIN)
