"""The values of each job: what the scheduler takes for its runtime while it waits, while it runs, and for its order.

This module is the only one of the simulator that asks predictors and teaches them.
"""

import math
from dataclasses import replace

import numpy as np

from softwalltime.jobs import CompletedJob, Prediction
from softwalltime.predictors.base import History, Predictor
from softwalltime.predictors.registry import make
from softwalltime.simulation.jobs import Jobs
from softwalltime.simulation.policies import RUNTIME, WALLTIME, Policy
from softwalltime.simulation.steering import Steering

NOTHING = History()


class Values:
    """The values of all jobs under one policy.

    ``waiting`` and ``running`` are whole seconds: a prediction rounded up, at least the minimum, at most the walltime,
    which they are on a cold start.  ``ordering`` is not rounded, and at least 1.  Waiting and ordering values are
    fixed at submission; a running value at the start, but where it has the specification of the waiting value it is
    the waiting value.  ``running_array`` and so on are the same numbers as arrays.
    """

    def __init__(self, jobs: Jobs, policy: Policy, duration: list[int], steering: Steering | None) -> None:
        """
        :param duration: how long each job will run in this simulation, in seconds.
        :param steering: scales the waiting values, if given.
        """
        self._jobs = jobs
        self._policy = policy
        self._duration = duration
        self._steering = steering
        specs = (policy.waiting, policy.running, policy.ordering)
        self._predictors = {spec: make(spec) for spec in specs if spec not in (WALLTIME, RUNTIME)}
        self._pupils = [each for each in self._predictors.values() if each.history != NOTHING]
        self._at_submission = policy.waiting in self._predictors or policy.ordering in self._predictors
        self._at_start = policy.running != policy.waiting and policy.running in self._predictors
        self.limit = jobs.walltime
        self.limit_array = np.array(jobs.walltime, np.int64)
        self.waiting = self._fixed(policy.waiting)
        self._same = policy.running == policy.waiting
        # Live re-estimation changes the two apart from each other.
        shared = self._same and policy.live is None
        self.running = self.waiting if shared else self._fixed(policy.running)
        if steering is not None:
            self._unsteered = [float(value) for value in self.waiting]
        self.waiting_array = np.array(self.waiting, np.int64)
        ordering = duration if policy.ordering == RUNTIME else jobs.walltime
        self.ordering = np.maximum(np.minimum(np.array(ordering, np.float64), self.limit_array), 1.0)

    @property
    def change_at_submission(self) -> bool:
        """Whether :meth:`submitted` must be called."""
        return self._at_submission or self._steering is not None

    @property
    def change_at_start(self) -> bool:
        """Whether :meth:`started` must be called."""
        return self._at_start or (self.running is not self.waiting and self._same)

    @property
    def learn(self) -> bool:
        """Whether :meth:`ended` must be called."""
        return bool(self._pupils)

    def submitted(self, job: int, now: int) -> None:
        """Set the job's waiting and ordering values as known at ``now``."""
        policy = self._policy
        waiting = self._predicted(policy.waiting, job, now, 0)
        if policy.ordering in self._predictors:
            same = policy.ordering == policy.waiting
            ordering = waiting if same else self._predicted(policy.ordering, job, now, 0)
            if ordering is not None:
                self.ordering[job] = max(min(ordering, float(self.limit[job])), 1.0)
        if self._steering is not None:
            waiting = (self._unsteered[job] if waiting is None else waiting) * self._steering.factor
        if waiting is not None:
            self.waiting[job] = self.waiting_array[job] = self._clamped(waiting, job)

    def started(self, job: int, now: int) -> None:
        """Set the running value of a job that starts at ``now``."""
        if self._same:
            self.running[job] = self.waiting[job]
            return
        predicted = self._predicted(self._policy.running, job, now, 0)
        if predicted is not None:
            self.running[job] = self._clamped(predicted, job)

    def conditional(self, job: int, now: int, elapsed: int) -> int | None:
        """The runtime of a job that has run ``elapsed`` seconds, predicted anew; ``None`` without a predictor."""
        predicted = self._predicted(self._policy.running, job, now, elapsed)
        return None if predicted is None else self._clamped(predicted, job)

    def ended(self, job: int, start: int, end: int) -> None:
        """Teach the predictors the job, as it went in this simulation."""
        if not self._jobs.teaches[job]:
            return
        completed = self._jobs.completed[job]
        if completed.start != start or completed.end != end or completed.runtime != end - start:
            completed = _as_simulated(completed, start, end)
        for predictor in self._pupils:
            predictor.learn(completed)

    def _fixed(self, spec: str) -> list[int]:
        """The values of a specification that needs no predictor; the walltimes for one that does."""
        if spec == RUNTIME:
            return [self._clamped(float(seconds), job) for job, seconds in enumerate(self._duration)]
        return list(self._jobs.walltime)

    def _predicted(self, spec: str, job: int, now: int, elapsed: int) -> float | None:
        """The bare prediction in seconds; ``None`` if the specification has no predictor, or on a cold start."""
        predictor: Predictor | None = self._predictors.get(spec)
        if predictor is None:
            return None
        answer = predictor.predict(self._jobs.completed[job].submission, now, elapsed)
        if type(answer) is Prediction and not math.isnan(answer.seconds):
            return answer.seconds
        return float(self.limit[job])

    def _clamped(self, seconds: float, job: int) -> int:
        limit = self.limit[job]
        if not seconds < limit:
            return limit
        return min(max(math.ceil(seconds), self._policy.minimum), limit)


def _as_simulated(job: CompletedJob, start: int, end: int) -> CompletedJob:
    return replace(job, start=start, end=end, runtime=end - start, qtime=None, etime=None)
