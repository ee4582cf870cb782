"""The mean of the user's last two runtimes (v1), and this mean with a margin (v2)."""

from typing import ClassVar

from pydantic import Field

from softwalltime.core.jobs import CompletedJob, NoPrediction, Prediction, Submission
from softwalltime.core.reasons import Reason
from softwalltime.predict.predictors.base import History, Options, Predictor
from softwalltime.predict.predictors.last_jobs import LastJobs


class Last2Options(Options):
    margin: float = Field(default=0.0, ge=0, description="seconds added to the mean")


class Last2PlusOptions(Last2Options):
    margin: float = Field(default=900.0, ge=0, description="seconds added to the mean")


class Last2(Predictor):
    """The mean runtime of the last two jobs of the same user that ended.

    For a user with one completed job it is that job's runtime.  Runtimes beyond the walltime, and of jobs without a
    walltime, count unchanged.
    """

    name: ClassVar[str] = "last2"
    aliases: ClassVar[tuple[str, ...]] = ("v1",)
    summary: ClassVar[str] = "mean of the user's last 2 runtimes"
    source: ClassVar[str] = "Tsafrir, Etsion & Feitelson 2007; Chlumský & Klusáček 2022, Algorithm 1"
    options: Last2Options
    by_user = True
    basis: ClassVar[str] = "mean of the last {} runtimes of user {}"

    def __init__(self, options: Last2Options) -> None:
        super().__init__(options)
        self._jobs: dict[str, LastJobs[int, Prediction]] = {}

    @property
    def history(self) -> History:
        return History(per_user=2)

    def learn(self, job: CompletedJob) -> None:
        if job.runtime <= 0:
            return
        user = job.submission.user
        jobs = self._jobs.get(user) or self._jobs.setdefault(user, LastJobs(2))
        jobs.add(job, job.runtime)

    def predict(self, submission: Submission, now: int, elapsed: int = 0) -> Prediction | NoPrediction:
        jobs = self._jobs.get(submission.user)
        if jobs is None:
            return NoPrediction(Reason.NO_COMPLETED_JOBS, (submission.user,))
        if (prediction := jobs.summary) is None:
            runtimes = jobs.values
            count, margin = len(runtimes), self.options.margin
            values = (count, submission.user, margin)
            prediction = jobs.summary = Prediction(sum(runtimes) / count + margin, self.basis, values)
        return prediction


class Last2Plus(Last2):
    """``last2`` plus 15 minutes, which halves the underestimates."""

    name: ClassVar[str] = "last2+900"
    aliases: ClassVar[tuple[str, ...]] = ("v2",)
    summary: ClassVar[str] = "last2 + 900 s"
    source: ClassVar[str] = "Chlumský & Klusáček 2022"
    options: Last2PlusOptions
    basis: ClassVar[str] = "mean of the last {} runtimes of user {}, plus {:g} s"
