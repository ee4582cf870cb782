"""Boosted regression trees, refitted on a schedule; only the fit needs scikit-learn."""

from bisect import bisect_left, insort
from itertools import accumulate
from typing import ClassVar

import numpy as np
from pydantic import Field

from softwalltime.core.jobs import CompletedJob, NoPrediction, Prediction, Submission
from softwalltime.core.reasons import Reason
from softwalltime.predict.predictors.base import History, Options, Predictor
from softwalltime.predict.predictors.like_jobs import Window
from softwalltime.predict.predictors.random_forest import Forest, forest_of

_MIN_JOBS = 50
"""Minimum number of jobs for a fit."""


class AdaBoostOptions(Options):
    window: Window = 30 * 86400
    every: int = Field(default=7, ge=1, le=365, description="days between two fits")
    trees: int = Field(default=20, ge=1, le=1000, description="number of trees")
    depth: int = Field(default=8, ge=1, le=30, description="greatest depth of a tree")
    most: int = Field(default=10_000, ge=_MIN_JOBS, description="jobs to fit to, the last ones of the window")
    seed: int = Field(default=1, ge=0, le=2**32 - 1, description="of the random draws of boosting")


class AdaBoost(Predictor):
    """AdaBoost.R2 over decision trees, by user, walltime, processors and memory.

    A user is encoded as the mean runtime of their jobs in the window.  The model is fitted to the jobs of the window
    before each multiple of ``every`` days since 1970, so that a restart gives the same model.
    """

    name: ClassVar[str] = "adaboost"
    summary: ClassVar[str] = "regression trees boosted by AdaBoost, fitted to the last W days every N days"
    source: ClassVar[str] = "Rubio, Villapando, Matira & Aborot 2021, section 4.3; Drucker 1997 (AdaBoost.R2)"
    options: AdaBoostOptions

    def __init__(self, options: AdaBoostOptions) -> None:
        super().__init__(options)
        self._window = options.window
        self._every = options.every * 86400
        self._fitted_before: int | None = None
        # End, id, user, walltime, processors, memory and runtime of each job of the window, in order of end.
        self._rows: list[tuple[int, str, str, int, int, int, int]] = []
        self._users: dict[str, float] = {}
        self._anybody = 0.0
        self._forest: Forest | None = None
        self._weights: list[float] = []
        self._fitted_to = 0

    @property
    def history(self) -> History:
        return History(seconds=self._window + self._every)

    def learn(self, job: CompletedJob) -> None:
        """Keep the job if it ran; remove jobs that no later fit needs."""
        if job.runtime <= 0:
            return
        rows = self._rows
        if rows and rows[0][0] < job.end - self._window - self._every:
            # Remove a quarter of a window at once: deleting at the start of a list moves all other items.
            del rows[: bisect_left(rows, (job.end - self._window - 3 * self._every // 4,))]
        submission = job.submission
        insort(rows, (job.end, submission.job_id, submission.user, *_numbers(submission), job.runtime))

    def fit(self, now: int) -> None:
        """Fit to the jobs that ended before the current period, if it began after the last fit."""
        before = now - now % self._every
        if self._fitted_before is None or before > self._fitted_before:
            self._fitted_before = before
            self._fit(before)

    def predict(self, submission: Submission, now: int, elapsed: int = 0) -> Prediction | NoPrediction:
        if self._forest is None:
            return NoPrediction(Reason.OTHER, ("no model has been fitted yet: too few jobs have ended",))
        user = self._users.get(submission.user, self._anybody)
        trees = self._forest.of_trees([user, *_numbers(submission)]).tolist()
        seconds, weights = zip(*sorted(zip(trees, self._weights, strict=True)), strict=True)
        # The weighted median; rounding may leave the total just below half of itself.
        median = bisect_left([*accumulate(weights)][:-1], 0.5 * sum(self._weights))
        values = (len(self._weights), self._fitted_to)
        return Prediction(max(seconds[median], 0.0), "{} boosted trees fitted to {} jobs", values)

    def _fit(self, before: int) -> None:
        from sklearn.ensemble import AdaBoostRegressor  # type: ignore[import-untyped]  # it has no types
        from sklearn.tree import DecisionTreeRegressor  # type: ignore[import-untyped]  # it has no types

        options = self.options
        rows = [row for row in self._rows if before - self._window <= row[0] < before][-options.most :]
        self._forest, self._weights, self._fitted_to = None, [], len(rows)
        if len(rows) < _MIN_JOBS:
            return
        runtimes: dict[str, list[int]] = {}
        for row in rows:
            runtimes.setdefault(row[2], []).append(row[6])
        self._users = {user: sum(values) / len(values) for user, values in runtimes.items()}
        runtime = np.array([row[6] for row in rows], np.float64)
        self._anybody = float(runtime.mean())
        features = np.array([(self._users[row[2]], *row[3:6]) for row in rows], np.float32)
        model = AdaBoostRegressor(
            DecisionTreeRegressor(max_depth=options.depth),
            n_estimators=options.trees, loss="linear", random_state=options.seed,
        ).fit(features, runtime)  # fmt: skip
        self._weights = [float(weight) for weight in model.estimator_weights_[: len(model.estimators_)]]
        self._forest = forest_of([estimator.tree_ for estimator in model.estimators_])


def _numbers(submission: Submission) -> tuple[int, int, int]:
    return submission.walltime or 0, submission.ncpus or 0, submission.mem or 0
