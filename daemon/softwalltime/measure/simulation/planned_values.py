"""The runtime estimates of each job that the scheduler uses while it waits, while it runs, and for the queue order.

Only this module of the simulator uses predictors.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType

import numpy as np

from softwalltime.core.events import Ended, Kind, Started, Submitted
from softwalltime.core.jobs import NoPrediction, Prediction, Submission
from softwalltime.measure.simulation.policies import (
    RUNTIME,
    SOFT_WALLTIME,
    WALLTIME,
    Distortion,
    SchedulerPolicy,
    distortion,
    is_distorted,
    is_known,
)
from softwalltime.measure.simulation.simulated_jobs import Integers, Jobs
from softwalltime.predict.drive import PredictorDriver
from softwalltime.predict.policy.decide import Decision, decide
from softwalltime.predict.policy.site import KEEP, JobPolicy
from softwalltime.predict.predictors.base import History, Predictor
from softwalltime.predict.predictors.registry import make

NOTHING = History()


class Values:
    """The values of all jobs under one policy, as :func:`~softwalltime.predict.policy.decide.decide` would set them.

    ``waiting`` and ``running`` are whole seconds, the walltime on a cold start.  ``ordering`` is not rounded, and at
    least 1.  Waiting and ordering values are fixed at submission, a running value at the start unless it has the
    specification of the waiting value.  ``waiting_array`` and ``limit_array``: waiting values and walltimes as arrays.
    """

    def __init__(
        self, jobs: Jobs, policy: SchedulerPolicy, duration: Sequence[int],
        predictors: Mapping[str, Predictor] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        """:param duration: how long each job will run in this simulation, in seconds."""
        self._jobs = jobs
        self._policy = policy
        self._duration = duration
        self._same = policy.running == policy.waiting
        ordering = None if policy.ordering == WALLTIME else policy.ordering
        running = KEEP if self._same else policy.running
        self._terms = JobPolicy(
            "on", policy.waiting, running, policy.minimum, ordering, exclusive=policy.exclusive == WALLTIME
        )
        specs = (policy.waiting, policy.running, policy.ordering)
        made = {spec: predictors[spec] if spec in predictors else make(spec) for spec in specs if not is_known(spec)}
        self._fixed: dict[str, Callable[[int], float]] = {
            RUNTIME: duration.__getitem__,
            SOFT_WALLTIME: lambda job: jobs.completed[job].soft_walltime or jobs.walltime[job],
            **{spec: partial(self._distorted, distortion(spec)) for spec in specs if is_distorted(spec)},
        }
        # A live value of a running job is a new prediction, also where a start keeps the waiting value.
        self._live_terms = self._terms._replace(running=policy.running)
        self._driver = driver = PredictorDriver(made)
        events = driver.observes or driver.fits
        self._at_start = not self._same and policy.running in made
        self.limit = jobs.walltime
        self.limit_array = np.array(jobs.walltime, np.int64)
        # Live re-estimation changes waiting and running values separately.
        shared = self._same and policy.live is None
        self.change_at_submission = policy.waiting in made or policy.ordering in made or events
        """Whether :meth:`submitted` must be called, and :meth:`estimate` changes values."""
        self.change_at_start = self._at_start or (self._same and not shared) or events
        """Whether :meth:`started` must be called."""
        self.learn = events or any(predictor.history != NOTHING for predictor in driver.predictors.values())
        """Whether :meth:`ended` must be called."""
        self.waiting = list(self.limit)
        self.waiting_array = self.limit_array.copy()
        self.ordering = np.maximum(self.limit_array, 1.0)
        # Without predictors the values are known now, and do not change at submission.
        if not self.change_at_submission and (policy.waiting in self._fixed or policy.ordering in self._fixed):
            for job in range(len(jobs)):
                self.estimate(job, 0)
        self.running = self.waiting if shared else list(self.waiting if self._same else self.limit)
        if policy.running in self._fixed and not self._same:
            for job in range(len(jobs)):
                decision = self._decide(self._live_terms, Kind.STARTED, job, self.limit[job], 0)
                self.running[job] = decision.soft_walltime or self.limit[job]

    def _distorted(self, distort: Distortion, job: int) -> float:
        return distort(job, self._duration[job], self.limit[job])

    def planned(self, guarded: bool) -> Integers:
        """The values that waiting jobs are planned with: their walltimes while the top job is late."""
        return self.limit_array if guarded else self.waiting_array

    def submitted(self, job: int, now: int) -> None:
        event = Submitted(now, self._jobs.completed[job].submission) if self._driver.observes else None
        self._driver.step(now, self.estimate, event, None, job, now)

    def estimate(self, job: int, now: int) -> None:
        """Set the job's waiting and ordering values as known at ``now``."""
        limit = self.limit[job]
        decision = self._decide(self._terms, Kind.SUBMITTED, job, limit, now)
        if self._terms.ordering is not None and decision.ordering is not None:
            self.ordering[job] = decision.ordering
        self.waiting[job] = self.waiting_array[job] = decision.soft_walltime or limit

    def started(self, job: int, now: int) -> None:
        event = Started(now, self._jobs.completed[job].submission) if self._driver.observes else None
        self._driver.step(now, self._estimate_running, event, None, job, now)

    def _estimate_running(self, job: int, now: int) -> None:
        if self._same:
            self.running[job] = self.waiting[job]
        elif self._at_start:
            decision = self._decide(self._terms, Kind.STARTED, job, self.waiting[job], now)
            self.running[job] = decision.soft_walltime or self.limit[job]

    def conditional(self, job: int, now: int, elapsed: int) -> int | None:
        """Return the live value of a job that has run ``elapsed`` seconds; ``None`` if none would be set."""
        if is_known(self._policy.running):
            return None
        return self._decide(self._live_terms, Kind.STARTED, job, self.running[job], now, elapsed).soft_walltime

    def _decide(self, terms: JobPolicy, kind: Kind, job: int, value: int, now: int, elapsed: int = 0) -> Decision:
        submission = self._jobs.completed[job].submission
        answers: dict[str, Prediction | NoPrediction] = {}

        def predict(spec: str, _: Submission) -> Prediction | NoPrediction:
            if spec in self._fixed:
                return Prediction(float(self._fixed[spec](job)), spec)
            # If one predictor gives the waiting and the ordering value, call it once.
            if spec not in answers:
                answers[spec] = self._driver.predict(spec, submission, now, elapsed)
            return answers[spec]

        return decide(terms, kind, submission, value if value < self.limit[job] else None, predict)

    def ended(self, job: int, start: int, end: int) -> None:
        """Let the predictors learn the job with its simulated times."""
        completed = self._jobs.completed[job]
        if completed.start != start or completed.end != end or completed.runtime != end - start:
            completed = replace(completed, start=start, end=end, runtime=end - start, qtime=None, etime=None)
        event = Ended(end, completed) if self._driver.observes else None
        self._driver.step(end, event=event, job=completed if self._jobs.teaches[job] else None)
