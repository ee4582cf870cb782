"""The most accurate prediction at a given rate of underestimation, from the distribution of similar past runtimes."""

import math
from bisect import insort
from collections import OrderedDict
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from softwalltime.core.compiling import compile_kernels, why_not_executable
from softwalltime.core.errors import OptionError
from softwalltime.core.events import Deleted, Ended, Event, Started
from softwalltime.core.jobs import CompletedJob, NoPrediction, Prediction, Submission
from softwalltime.core.reasons import Reason
from softwalltime.predict.predictors.base import History, Options, Predictor
from softwalltime.predict.predictors.learned import sequence
from softwalltime.predict.predictors.learned import user_jobs as of
from softwalltime.predict.predictors.learned.attention import estimate_runtime
from softwalltime.predict.predictors.learned.bursts import RecentShare
from softwalltime.predict.predictors.learned.distribution import SIZE, Floats, Quantiles, bin_of, remaining
from softwalltime.predict.predictors.learned.evidence import Evidence
from softwalltime.predict.predictors.learned.features import Estimate, Known
from softwalltime.predict.predictors.learned.levels import Situations
from softwalltime.predict.predictors.learned.network import Weights, load
from softwalltime.predict.predictors.learned.price import Objective, Price, best_seconds, critical_cell, first_log_price
from softwalltime.predict.predictors.learned.priors import NO_BINS, ProjectJobs
from softwalltime.predict.predictors.learned.sequence import MAX_USER_RUNNING_JOBS
from softwalltime.predict.predictors.learned.user_jobs import UserJobs, by_script, row_of, waited

SETTLED_AFTER_S = 86400
"""Seconds after a job's end at which it adjusts the prices."""
MAX_LATENESS_S = SETTLED_AFTER_S // 2
"""Maximum seconds by which a job may become known late without changing later answers."""
HISTORY_DAYS = 400
"""Days of history from which a new predictor learns."""
MAX_TRAINING_JOBS = 300_000
"""Maximum number of jobs of these days, the last ones.  The price has forgotten 78% of what came before."""
MAX_PRESENT_JOBS = 1000
"""Maximum waiting and running jobs of one user, the last ones, that count as submissions since a past job."""
MAX_PROJECT_KEYS = 8192
"""Maximum combinations of project, queue and walltime; the least recently used ones are forgotten."""
UNSAMPLED_JOBS, JOBS_PER_SAMPLE, JOBS_PER_LATER_SAMPLE = 2000, 3, 6
"""Jobs of a day that all adjust the prices; after them, one in so many jobs adjusts the price at submission, and the
later price.  The count starts again each day, so that it is the same after a restart."""
AT_SUBMISSION, LATER = 0, 1
"""Index of the price: for predictions at submission, or later, when more jobs have ended and fewer are
underestimated."""
LATER_GAIN = 3.0
"""Gain of the later price: its excess is that of all jobs at start, though only jobs that waited use this price."""
SUBMISSION_WINDOW_S = 60
"""Seconds after submission in which the price at submission is used."""

_NONE: Floats = np.empty((of.ROW, 0))

MIN_HISTORY_S = 6 * 3600
"""Minimum seconds of its user's history before submission for a job to adjust the price."""

Key = tuple[str, str, int]
Row = tuple[float, ...]
Pending = tuple[int, str, str, Row, str, Key]


class CalibratedOptions(Options):
    weights: str = Field(
        default="learned", description="learned: those in the package; or a file that softwalltime train wrote"
    )
    target: float = Field(default=0.05, gt=0, lt=0.5, description="share of the jobs to underestimate")
    statistic: Literal["target", "mean", "median", "quantile"] = Field(
        default="target",
        description="target: the most accurate prediction at the target; or mean, median or quantile q",
    )
    objective: Objective = Field(
        default="accuracy",
        description="for statistic=target: highest mean accuracy, or least mean absolute error in seconds",
    )
    q: float = Field(default=0.9, gt=0, lt=1, description="the quantile, for statistic=quantile")


class Calibrated(Predictor):
    """Estimate the runtime's distribution from similar past jobs; predict the value with the highest expected utility.

    The utility is the accuracy minus a price for an underestimate: the price at which the target share of past jobs
    would have been underestimated (see :mod:`.learned.price`).  To adjust it, the predictor estimates each ended job
    again from what was known at its submission.  It does so ``SETTLED_AFTER_S`` after the end and in order of end, so
    predictions depend neither on earlier requests nor on the order in which jobs became known.  (After a period without
    ends they may depend on that order for some jobs, until no past job is due: see ``_settle``.)
    """

    name: ClassVar[str] = "calibrated"
    summary: ClassVar[str] = "most accurate prediction at a target rate of underestimation, from similar past jobs"
    source: ClassVar[str] = "this project; Kaplan & Meier 1958 (censoring), Gibbs & Candès 2021 (calibration online)"
    options: CalibratedOptions
    tried_options: ClassVar[tuple[str, ...]] = (
        "target=0.01|0.02|0.05|0.1|0.2",
        "objective=absolute-error,target=0.02|0.05|0.1|0.2",
        "statistic=mean|median",
    )
    censoring: ClassVar[bool] = True

    def __init__(self, options: CalibratedOptions, weights: Weights | None = None) -> None:
        """:param weights: weights of the attention; default: those that the options name."""
        super().__init__(options)
        if why := why_not_executable():
            raise OptionError(f"calibrated: {why}")
        self._statistic = options.statistic
        self._objective = options.objective
        self._q = {"median": 0.5, "quantile": options.q}.get(options.statistic)
        self._weights = load(options.weights) if weights is None else weights
        self._users: dict[str, UserJobs] = {}
        self._projects: OrderedDict[Key, ProjectJobs] = OrderedDict()
        self._queues: OrderedDict[Key, ProjectJobs] = OrderedDict()
        self._everybody: Floats = np.zeros(SIZE)
        # Jobs that have not adjusted the price: end, job id, server, row, user, project key.
        self._pending: list[Pending] = []
        self._newest = 0
        first = first_log_price(options.objective, options.target)
        self._prices = (Price(options.target, first), Price(options.target, first, LATER_GAIN))
        self._situations = Situations()
        self._recent = RecentShare()
        self._settled = 0
        self._day = 0
        self._of_day = 0

    @property
    def history(self) -> History:
        return History(per_user=of.MIN_USER_JOBS, seconds=HISTORY_DAYS * 86400, most=MAX_TRAINING_JOBS)

    @property
    def contents(self) -> str:
        return self._weights.digest

    def observe(self, event: Event) -> None:
        if isinstance(event, Ended):
            user = self._users.get(event.job.submission.user)
            if user is not None:
                user.present.leave(event.job.submission.job_id)
            return
        submission = event.submission
        if not submission.walltime:
            return
        user = self._users.get(submission.user) or self._new_user(submission.user)
        present, job_id = user.present, submission.job_id
        if isinstance(event, Deleted):
            present.leave(job_id)
            return
        row = row_of(submission)
        present.submit(job_id, submission.submitted, row[of.KEY])
        start = event.time if isinstance(event, Started) else present.started(job_id)
        if start is not None:
            present.start(job_id, start, (0.0, start, *row[of.SUBMITTED :]))

    def learn(self, job: CompletedJob) -> None:
        """Add the job to its user and project; let jobs that ended ``SETTLED_AFTER_S`` ago adjust the prices."""
        submission, end, runtime = job.submission, job.end, job.runtime
        walltime = submission.walltime
        if not walltime or runtime <= 0:
            return
        log = math.log(min(runtime, walltime))
        killed = runtime > walltime or (runtime == walltime and job.exit_status != 0)
        start = end - runtime if job.start is None else job.start
        share = bin_of(log - math.log(walltime))
        row = row_of(submission, end, start, log, killed, share)
        (self._users.get(submission.user) or self._new_user(submission.user)).add(row, submission.job_id)
        key = (submission.group, submission.queue, walltime)
        _add(self._projects, key, end, share)
        _add(self._queues, ("", *key[1:]), end, share)
        insort(self._pending, (end, submission.job_id, job.server, row, submission.user, key))
        self._newest = max(self._newest, end)
        if self._pending[0][0] <= self._newest - SETTLED_AFTER_S:
            self._settle()

    def predict(self, submission: Submission, now: int, elapsed: int = 0) -> Prediction | NoPrediction:
        """Return the value that the options select, and the distribution."""
        walltime = submission.walltime
        if not walltime:
            return NoPrediction(Reason.NO_WALLTIME)
        if not self._newest:
            return NoPrediction(Reason.NO_COMPLETED_JOBS, (submission.user,))
        known, ids = self.known(submission, now)
        estimate = self._estimate(known)
        shares, least = estimate.shares, 0.0
        if elapsed > 0:
            shares, least = remaining(shares, math.log(elapsed / walltime)), (elapsed + 1) / walltime
        later = now - submission.submitted > SUBMISSION_WINDOW_S
        situations = self._situations
        after = later or elapsed > 0
        user_jobs = known.ended.shape[1]
        levels = situations.running(elapsed, walltime) if after else situations.submitted(user_jobs, walltime)
        quantiles = Quantiles(shares, least, levels.corrected_levels)
        log_price = self._prices[LATER if later else AT_SUBMISSION].log
        number = self._number(shares, quantiles, walltime, log_price)
        seconds = max(number, 1.0, float(elapsed))
        mine = known.asked[of.SCRIPT]
        same_script = known.ended[of.SCRIPT] == mine if mine else None
        evidence = Evidence(ids, estimate, quantiles, walltime, same_script)
        return Prediction(seconds, "{}", (evidence,), quantiles, walltime)

    def known(self, submission: Submission, now: int) -> tuple[Known, list[str]]:
        """Return what is known at ``now`` about a job with a walltime, and the ids of the past jobs."""
        user = self._users.get(submission.user) or UserJobs()
        present = user.present.submissions(MAX_PRESENT_JOBS, without=submission.job_id)
        # The last to start, independent of the order in which they became known.
        running, started = user.present.running(MAX_USER_RUNNING_JOBS, now, without=submission.job_id)
        waiting = int(present[:, 0].searchsorted(now)) - started
        columns = user.columns
        last = sequence.ended_by(columns, now)
        # Use no more jobs than a restarted daemon has (see ``history``).
        first = max(last - of.MIN_USER_JOBS, 0)
        known = self._known(
            now,
            row_of(submission),
            (submission.group, submission.queue, submission.walltime or 0),
            columns[:, first:last],
            np.array(running).T if running else _NONE,
            *sequence.submissions(columns[:, -of.MIN_USER_JOBS :], present, now),
            max(waiting, 0),
        )
        return known, user.ids[first:last]

    def _known(
        self, now: int, row: Row, key: Key, ended: Floats, running: Floats, times: Floats, keys: Floats, waiting: int
    ) -> Known:
        """Return what is known about a job, with that of its project and queue."""
        row, ended, running = by_script(row, ended, running)
        project, queue = (
            NO_BINS if jobs is None else jobs.until(now)
            for jobs in (self._projects.get(key), self._queues.get(("", *key[1:])))
        )  # fmt: skip
        return Known(now, row, ended, running, times, project, self._everybody, queue, keys, row[of.KEY], waiting)

    def _estimate(self, known: Known) -> Estimate:
        return estimate_runtime(known, self._weights)

    def _number(self, shares: Floats, quantiles: Quantiles, walltime: int, log_price: float) -> float:
        if self._q is not None:
            return Prediction(0.0, "", (), quantiles, walltime).quantile(self._q)
        if self._statistic == "mean":
            return Prediction(0.0, "", (), quantiles, walltime).mean
        return best_seconds(self._objective, shares, log_price, walltime)

    def _settle(self) -> None:
        """Let the next due job, in order of end, adjust the prices.

        After a period without ends many are due: process two for each job that is learnt, because a request may wait.
        """
        job, self._settled = self._pending.pop(0), self._settled + 1
        day = job[0] // 86400
        self._of_day = self._of_day + 1 if day == self._day else day
        self._day = day
        if self._settled < UNSAMPLED_JOBS or self._of_day % JOBS_PER_SAMPLE == 0:
            self._adjust(job)
        if self._settled < UNSAMPLED_JOBS or self._of_day % JOBS_PER_LATER_SAMPLE == 1:
            self._adjust_later(job)
        if self._settled % 2 and self._pending and self._pending[0][0] <= self._newest - SETTLED_AFTER_S:
            self._settle()

    def _adjust(self, job: Pending) -> None:
        """Adjust the price by the job's critical price, and the quantiles by its runtime."""
        row, walltime = job[3], job[5][2]
        per_sample = 1 if self._settled < UNSAMPLED_JOBS else JOBS_PER_SAMPLE
        adjusted = self._adjust_price(job, int(row[of.SUBMITTED]), AT_SUBMISSION, per_sample)
        if adjusted is None:
            return
        shares, user_jobs = adjusted
        weight, log_share = self._recent.discount(job[4], self._day, per_sample), row[of.RUNTIME] - row[of.WALLTIME]
        self._situations.submitted(user_jobs, walltime).learn(shares, log_share, walltime, per_sample, weight)
        if not waited(row, SUBMISSION_WINDOW_S):
            self._situations.learn_running(shares, log_share, walltime, per_sample, weight)
        sampled = max(self._settled - UNSAMPLED_JOBS, 0) // JOBS_PER_SAMPLE
        number = min(self._settled, UNSAMPLED_JOBS) + sampled
        weight = max(1 / number, 1 / 2048)
        self._everybody *= 1 - weight
        self._everybody[int(row[of.SHARE])] += weight

    def _adjust_later(self, job: Pending) -> None:
        """Adjust the later price and quantiles by what was known at the start of a job that waited."""
        row, walltime = job[3], job[5][2]
        if not waited(row, SUBMISSION_WINDOW_S):
            return
        per_sample = 1 if self._settled < UNSAMPLED_JOBS else JOBS_PER_LATER_SAMPLE
        adjusted = self._adjust_price(job, int(row[of.START]), LATER, per_sample)
        if adjusted is not None:
            weight, log_share = self._recent.peek(job[4]), row[of.RUNTIME] - row[of.WALLTIME]
            learnt = (adjusted[0], log_share, walltime, per_sample, weight)
            self._situations.running(0.0, walltime).learn(*learnt)
            self._situations.learn_running(*learnt)

    def _adjust_price(self, job: Pending, now: int, which: int, count: int) -> tuple[Floats, int] | None:
        """Adjust one of the prices.

        Return the distribution at ``now`` and the number of the user's ended jobs; ``None`` if the jobs known then are
        no longer kept.

        :param count: number of jobs for which this one stands.
        """
        end, job_id, _, row, user, key = job
        jobs = self._users[user]
        if jobs.forgotten > now - MIN_HISTORY_S:
            # The user has run too many jobs since: an estimate from the few kept ones would bias the price.
            return None
        # Include jobs that waited or ran at that time and ended after this one.
        until = end + SETTLED_AFTER_S - MAX_LATENESS_S
        # At its start, exclude the job itself from the waiting jobs.
        known = self._known_then(jobs, now, until, row, key, job_id if which == LATER else None)
        shares, walltime = self._estimate(known).shares, key[2]
        objective, runtime = self._objective, math.exp(row[of.RUNTIME]) - 1e-6

        def missed(log_price: float) -> bool:
            return best_seconds(objective, shares, log_price, walltime) < runtime

        price = self._prices[which]
        late = missed(price.log_at(now - SETTLED_AFTER_S))
        price.add(end, critical_cell(missed), late, count)
        if which == AT_SUBMISSION and not waited(row, SUBMISSION_WINDOW_S):  # At its start the answer was the same.
            self._prices[LATER].count(late, count)
        return shares, known.ended.shape[1]

    def _known_then(self, jobs: UserJobs, now: int, until: int, row: Row, key: Key, without: str | None) -> Known:
        return self._known(now, row, key, *sequence.look_back(jobs, now, until, without))

    def _new_user(self, name: str) -> UserJobs:
        if not self._users:
            # Compile now, so that no request waits for it.
            compile_kernels("softwalltime.predict.predictors.learned")
        user = self._users[name] = UserJobs()
        return user


def _add(projects: OrderedDict[Key, ProjectJobs], key: Key, end: int, share: int) -> None:
    jobs = projects.get(key)
    if jobs is None:
        jobs = projects[key] = ProjectJobs()
        if len(projects) > MAX_PROJECT_KEYS:
            projects.popitem(last=False)
    jobs.add(end, share)
    projects.move_to_end(key)
