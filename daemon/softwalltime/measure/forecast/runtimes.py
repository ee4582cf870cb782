"""Predict the distribution of a job's runtime from any predictor, its past errors, and the elapsed time.

A predictor's own distribution is used unchanged.  A single number is multiplied by the predictor's past errors: ratios
of runtime to prediction, of the user's last jobs or of all.  Without prediction, the distribution of the used shares of
the walltime of all users' last jobs is used; without walltime, the runtimes of past jobs without one.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist

import numpy as np

from softwalltime.core.events import Deleted, Ended, Started, Submitted
from softwalltime.core.formatting import plural
from softwalltime.core.jobs import CompletedJob, NoPrediction, Prediction, Submission
from softwalltime.measure.simulation.simulated_jobs import Floats
from softwalltime.predict.drive import PredictorDriver
from softwalltime.predict.predictors.base import Predictor

USER_CORRELATION = 0.5
"""Correlation that is assumed while no pairs of jobs are known; on three public traces it was 0.36 to 0.56."""
PRIOR_PAIRS = 50
"""Weight of :data:`USER_CORRELATION` in the estimate, as a number of pairs of jobs."""
MAX_CORRELATION = 0.95


class UserCorrelation:
    """The correlation between the runtimes of consecutive jobs of a user, where the second one was submitted before the
    first one ended: the prediction of neither knew the runtime of the other.
    """

    def __init__(self, most: int) -> None:
        """:param most: number of ended jobs to keep, the last ones."""
        self._predicted: dict[tuple[str, int], Floats | float] = {}
        # User, submission, job id and end; last the quantile of the prediction that the runtime was.
        self._ended: deque[tuple[str, int, str, int, float]] = deque(maxlen=most)

    def predicted(self, job_id: str, submitted: int, answer: Prediction) -> None:
        # A copy, because the predictor changes the sample later.
        sample = np.array(answer.sample, np.float64) * answer.scale if answer.is_distribution else answer.seconds
        self._predicted[job_id, submitted] = sample

    def deleted(self, job_id: str, submitted: int) -> None:
        self._predicted.pop((job_id, submitted), None)

    def ended(self, job: CompletedJob, *, teaches: bool) -> None:
        submission = job.submission
        predicted = self._predicted.pop((submission.job_id, submission.submitted), None)
        if predicted is None or not teaches or job.runtime <= 0:
            return
        if isinstance(predicted, np.ndarray):
            # Many runtimes are the walltime: among equal values the middle one counts.
            place = float((predicted < job.runtime).mean() + (predicted <= job.runtime).mean()) / 2
        else:
            place = job.runtime / max(predicted, 1.0)
        self._ended.append((submission.user, submission.submitted, submission.job_id, job.end, place))

    def value(self) -> float:
        """Return the correlation, at least 0: the mean product of normal scores, as of a Gaussian copula."""
        places = np.array([place for *_, place in self._ended])
        _, which, counts = np.unique(places, return_inverse=True, return_counts=True)
        # Equal places share the mean of their ranks.
        ranks = (np.cumsum(counts) - counts / 2)[which] / max(len(places), 1)
        jobs = defaultdict[str, list[tuple[int, str, int, float]]](list)
        for (user, submitted, job_id, end, _), rank in zip(self._ended, ranks.tolist(), strict=True):
            # Jobs submitted at the same time are sorted by id, not by end: order by end would correlate them.
            jobs[user].append((submitted, job_id, end, NormalDist().inv_cdf(rank)))
        products = [
            score * later
            for own in map(sorted, jobs.values())
            for (_, _, end, score), (submitted, _, _, later) in pairwise(own)
            if submitted < end
        ]
        total = PRIOR_PAIRS * USER_CORRELATION + sum(products)
        return min(max(total / (PRIOR_PAIRS + len(products)), 0.0), MAX_CORRELATION)


MIN_PAST_JOBS = 10
"""Minimum past jobs for a distribution to be used."""
MAX_USER_ERRORS, MAX_ERRORS = 50, 1000
"""Maximum past errors kept of each user, and of all users."""
MIN_ANSWERS = 100
"""Answers, all with distributions, after which a predictor's errors are no longer recorded."""


@dataclass(frozen=True, slots=True)
class RuntimeDistribution:
    """Equally likely runtimes in seconds, ascending, and their source.

    ``known`` is false of a job without a walltime and without like jobs: the runtimes are what the scheduler assumes.
    """

    values: Floats
    basis: str
    known: bool = True

    @property
    def median(self) -> float:
        """The runtime that the job exceeds with probability 1/2."""
        middle = len(self.values) // 2
        # Ten times as fast as numpy.median: the values are sorted.
        return float(self.values[middle] if len(self.values) % 2 else self.values[middle - 1 : middle + 1].mean())


class RuntimeModel:
    """Distributions of runtimes from what has ended so far; the predictor is fitted at submissions only.

    Drivers call :meth:`submitted`, :meth:`started`, :meth:`deleted` and :meth:`ended` in order of time.
    """

    def __init__(self, predictor: Predictor | None) -> None:
        self._predictor = predictor
        self._correlation = UserCorrelation(MAX_ERRORS)
        self._driver = PredictorDriver({} if predictor is None else {"": predictor})
        self._predicted: dict[tuple[str, int], float] = {}
        self._ratios: deque[float] = deque(maxlen=MAX_ERRORS)
        self._own: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=MAX_USER_ERRORS))
        self._shares: deque[float] = deque(maxlen=MAX_ERRORS)
        self._without_walltime: deque[float] = deque(maxlen=MAX_ERRORS)
        self._only_distributions = 0

    def submitted(self, submission: Submission, now: int, *, compare: bool = True, correlate: bool = False) -> None:
        """Record the prediction for a submitted job; the job's end compares it with the runtime.

        A predictor that returned only distributions :data:`MIN_ANSWERS` times is not compared any more.

        :param correlate: whether the job counts for :attr:`user_correlation`.
        """
        needed = correlate or (compare and self._only_distributions < MIN_ANSWERS)
        ask = self._compare if needed and self._predictor is not None else None
        self._driver.step(now, ask, Submitted(now, submission), None, submission, now, correlate)

    def _compare(self, submission: Submission, now: int, correlate: bool) -> None:
        """Record a single predicted number, to compare it with the runtime."""
        answer = self._driver.predict("", submission, now)
        if isinstance(answer, NoPrediction):
            return
        if correlate:
            self._correlation.predicted(submission.job_id, submission.submitted, answer)
        if not answer.is_distribution:
            # The predictor gives numbers too, such as memorizer:fallback=median.
            self._only_distributions = -1
            if answer.seconds > 0:
                self._predicted[submission.job_id, submission.submitted] = answer.seconds
        elif self._only_distributions >= 0:
            self._only_distributions += 1

    def started(self, submission: Submission, now: int) -> None:
        self._driver.observe(Started(now, submission))

    def deleted(self, submission: Submission, now: int) -> None:
        self._predicted.pop((submission.job_id, submission.submitted), None)
        self._correlation.deleted(submission.job_id, submission.submitted)
        self._driver.observe(Deleted(now, submission))

    def ended(self, job: CompletedJob, *, teaches: bool = True) -> None:
        self._driver.observe(Ended(job.end, job))
        if teaches:
            self._driver.learn(job)
        self._correlation.ended(job, teaches=teaches)
        submission = job.submission
        predicted = self._predicted.pop((submission.job_id, submission.submitted), None)
        if not teaches or job.runtime <= 0:
            return
        if predicted is not None:
            self._ratios.append(job.runtime / predicted)
            self._own[submission.user].append(job.runtime / predicted)
        if submission.walltime:
            self._shares.append(job.runtime / submission.walltime)
        else:
            self._without_walltime.append(job.runtime)

    @property
    def user_correlation(self) -> float:
        """Correlation between the runtimes of one user's jobs, given their predictions."""
        return self._correlation.value()

    def distribution(self, submission: Submission, limit: int, now: int, elapsed: int = 0) -> RuntimeDistribution:
        """Return the total runtime given ``elapsed`` seconds, at most ``limit``, the scheduler's walltime."""
        known = False
        for values, basis in self._candidates(submission, limit, now):
            known = True
            left = values[np.minimum(values, limit) > elapsed]
            # Too few past jobs ran that long for an estimate of the rest.
            if len(left) >= (3 if elapsed else 1):
                return RuntimeDistribution(np.minimum(left, limit), basis)
        if not _has_walltime(submission):
            basis = "it has run longer than jobs like it" if known else "no past job without one is known"
            return RuntimeDistribution(np.array([float(limit)]), f"no walltime, and {basis}", known=False)
        if known:
            beyond = np.linspace(elapsed + 1, max(limit, elapsed + 1), MIN_PAST_JOBS)
            return RuntimeDistribution(beyond, "it has run longer than like jobs: evenly up to the walltime")
        return RuntimeDistribution(np.array([float(limit)]), "nothing is known of like jobs: the walltime")

    def _candidates(self, submission: Submission, limit: int, now: int) -> Iterable[tuple[Floats, str]]:
        """Yield runtimes from each source, the best first, each sorted."""
        if self._predictor is not None:
            answer = self._predictor.predict(submission, now)
            if not isinstance(answer, NoPrediction):
                values, basis = np.array([answer.seconds]), answer.basis
                own = self._own.get(submission.user, ())
                whose, ratios = ("the user's", own) if len(own) >= MIN_PAST_JOBS else ("all users'", self._ratios)
                if answer.is_distribution:
                    values = np.array(answer.sample, np.float64) * answer.scale
                elif len(ratios) >= MIN_PAST_JOBS:
                    values = np.sort(np.array(ratios)) * answer.seconds
                    basis = f"{basis}, with the errors of {whose} last {len(ratios)} jobs"
                yield np.maximum(values, 1.0), basis
        if not _has_walltime(submission):
            if past := self._without_walltime:
                basis = f"runtimes of the last {plural(len(past), 'job')} without a walltime"
                yield np.sort(np.array(past, np.float64)), basis
        elif len(self._shares) >= MIN_PAST_JOBS:
            basis = f"shares of the walltime used by the last {len(self._shares)} jobs of all users"
            yield np.maximum(np.sort(np.array(self._shares)) * limit, 1), basis


def _has_walltime(submission: Submission) -> bool:
    return bool(submission.walltime or submission.max_walltime)


_GRID = np.linspace(-5, 5, 2001)
_NORMAL = np.array([NormalDist().cdf(value) for value in _GRID])
"""The standard normal distribution function, at these values."""


def samples(
    distributions: Sequence[RuntimeDistribution], users: Sequence[str], count: int, seed: int,
    correlation: float = USER_CORRELATION,
) -> Floats:  # fmt: skip
    """Draw ``count`` samples of the runtimes of all jobs: one row per sample, one column per job.

    :param correlation: between the runtimes of one user's jobs (Gaussian copula).
    """
    random = np.random.default_rng(seed)
    index = {user: number for number, user in enumerate(dict.fromkeys(users))}
    common = random.standard_normal((count, len(index)))
    own = random.standard_normal((count, len(users)))
    mixed = np.sqrt(correlation) * common[:, [index[user] for user in users]] + np.sqrt(1 - correlation) * own
    share = np.interp(mixed, _GRID, _NORMAL)
    drawn = np.empty((count, len(users)))
    for column, values in enumerate(distribution.values for distribution in distributions):
        drawn[:, column] = np.interp(share[:, column] * (len(values) - 1), np.arange(len(values)), values)
    return drawn
