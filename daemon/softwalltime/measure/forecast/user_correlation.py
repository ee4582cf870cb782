"""Estimate how alike the runtimes of one user's jobs are beyond what is predicted, from jobs that have ended."""

from collections import defaultdict, deque
from itertools import pairwise
from statistics import NormalDist

import numpy as np

from softwalltime.core.jobs import CompletedJob, Prediction
from softwalltime.measure.simulation.simulated_jobs import Floats

USER_CORRELATION = 0.5
"""Correlation without known pairs of jobs; on three public traces it was 0.36 to 0.56."""
PRIOR_PAIRS = 50
"""Number of pairs of jobs that weigh as much as :data:`USER_CORRELATION`."""
MAX_CORRELATION = 0.95


class UserCorrelation:
    """The correlation of two consecutive jobs of one user of which neither was known when the other was predicted."""

    def __init__(self, most: int) -> None:
        """:param most: number of ended jobs to keep, the last ones."""
        self._predicted: dict[tuple[str, int], Floats | float] = {}
        # User, submission, job id, end, and the place of the runtime in its prediction.
        self._ended: deque[tuple[str, int, str, int, float]] = deque(maxlen=most)

    def predicted(self, job_id: str, submitted: int, answer: Prediction) -> None:
        # The sample belongs to the predictor.
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
            # In the middle of equal values, as where jobs run into their walltime.
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
            # Jobs that were submitted at once are not in order of their ends.
            jobs[user].append((submitted, job_id, end, NormalDist().inv_cdf(rank)))
        products = [
            score * later
            for own in map(sorted, jobs.values())
            for (_, _, end, score), (submitted, _, _, later) in pairwise(own)
            if submitted < end
        ]
        total = PRIOR_PAIRS * USER_CORRELATION + sum(products)
        return min(max(total / (PRIOR_PAIRS + len(products)), 0.0), MAX_CORRELATION)
