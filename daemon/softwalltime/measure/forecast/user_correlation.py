"""Estimate the correlation between the runtimes of a user's jobs, given their predictions, from ended jobs."""

from collections import defaultdict, deque
from itertools import pairwise
from statistics import NormalDist

import numpy as np

from softwalltime.core.jobs import CompletedJob, Prediction
from softwalltime.measure.simulation.simulated_jobs import Floats

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
