"""The values of each job: what the scheduler takes for its runtime while it waits, while it runs, and for its order.

This module is the only one of the simulator that asks predictors and teaches them.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from softwalltime.drive import PredictorDriver
from softwalltime.events import Ended, Kind, Started, Submitted
from softwalltime.jobs import ColdStart, CompletedJob, Prediction, Submission
from softwalltime.policy.decide import decide
from softwalltime.policy.site import KEEP, Terms
from softwalltime.policy.steering import Steering
from softwalltime.predictors.base import History, Predictor
from softwalltime.predictors.registry import make
from softwalltime.simulation.jobs import Jobs
from softwalltime.simulation.policies import FIXED, RUNTIME, SOFT_WALLTIME, WALLTIME, Policy

NOTHING = History()


class Values:
    """The values of all jobs under one policy.

    ``waiting`` and ``running`` are whole seconds: a prediction rounded up, at least the minimum, at most the walltime,
    which they are on a cold start.  ``ordering`` is not rounded, and at least 1.  Waiting and ordering values are
    fixed at submission; a running value at the start, but where it has the specification of the waiting value it is
    the waiting value.  ``waiting_array`` and ``limit_array`` are the waiting values and the walltimes as arrays.

    Where a predictor is asked, the value is what :func:`~softwalltime.policy.decide.decide` would set in production.
    """

    def __init__(
        self, jobs: Jobs, policy: Policy, duration: Sequence[int], steering: Steering | None,
        predictors: Mapping[str, Predictor] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        """
        :param duration: how long each job will run in this simulation, in seconds.
        :param steering: scales the waiting values, if given.
        :param predictors: new predictors by specification, of those that are not to be made from it.
        """
        self._jobs = jobs
        self._policy = policy
        self._duration = duration
        self._steering = steering
        self._same = policy.running == policy.waiting
        ordering = None if policy.ordering == WALLTIME else policy.ordering
        running = KEEP if self._same else policy.running
        self._terms = Terms(
            "on", policy.waiting, running, policy.minimum, ordering, exclusive=policy.exclusive == WALLTIME
        )
        specs = (policy.waiting, policy.running, policy.ordering)
        made = {spec: predictors[spec] if spec in predictors else make(spec) for spec in specs if spec not in FIXED}
        # A live value of a running job is a new prediction, also where a start keeps the waiting value.
        self._live_terms = self._terms._replace(running=policy.running)
        self._sources = sources(made)
        self._restating = {spec: made[spec] for spec in self._sources}
        driver = PredictorDriver({spec: made[spec] for spec in made if spec not in self._sources})
        self._driver = driver
        events = driver.observes or driver.fits
        self._at_start = not self._same and policy.running in made
        users, queues = frozenset(policy.off_users), frozenset(policy.off_queues)
        self._off = (
            [user in users or queue in queues for user, queue in jobs.completed.rows("user", "queue")]
            if users or queues
            else [False] * len(jobs)
        )
        self.limit = jobs.walltime
        self.limit_array = np.array(jobs.walltime, np.int64)
        self.waiting = self._fixed(policy.waiting)
        # Live re-estimation changes the two apart from each other.
        shared = self._same and policy.live is None
        self.running = self.waiting if shared else self._fixed(policy.running)
        self.change_at_submission = policy.waiting in made or policy.ordering in made or steering is not None or events
        """Whether :meth:`submitted` must be called, and :meth:`estimate` changes values."""
        self.change_at_start = self._at_start or (self._same and not shared) or events
        """Whether :meth:`started` must be called."""
        self.learn = events or any(predictor.history != NOTHING for predictor in driver.predictors.values())
        """Whether :meth:`ended` must be called."""
        self.waiting_array = np.array(self.waiting, np.int64)
        known: Sequence[int] = jobs.walltime
        if policy.ordering in (RUNTIME, SOFT_WALLTIME):
            known = self._unless_off(self._runtimes() if policy.ordering == RUNTIME else self._soft_walltimes())
        self.ordering = np.maximum(np.minimum(np.array(known, np.float64), self.limit_array), 1.0)

    def submitted(self, job: int, now: int) -> None:
        """Set the values of a job that is submitted at ``now``."""
        event = Submitted(now, self._jobs.completed[job].submission) if self._driver.observes else None
        self._driver.step(now, self.estimate, event, None, job, now)

    def estimate(self, job: int, now: int) -> None:
        """Set the job's waiting and ordering values as known at ``now``."""
        if self._off[job]:
            return
        limit = self.limit[job]
        steering = self._steering
        answers: dict[str, Prediction | ColdStart] = {}

        def predict(spec: str, submission: Submission) -> Prediction | ColdStart:
            # Called for the waiting and the ordering value; where one predictor gives both, it is asked once.
            source = self._sources.get(spec, spec)
            answer = answers.get(source)
            if answer is None:
                answer = answers[source] = self._predicted(source, job, now, 0)
            return answer if source == spec else self._restate(spec, answer, 0)

        asked = self._jobs.completed[job].submission
        terms = self._terms if steering is None else self._terms._replace(factor=steering.factor)
        decision = decide(terms, Kind.SUBMITTED, asked, None, predict)
        if self._terms.ordering is not None and decision.ordering is not None:
            self.ordering[job] = decision.ordering
        self.waiting[job] = self.waiting_array[job] = decision.soft_walltime or limit

    def started(self, job: int, now: int) -> None:
        """Set the running value of a job that starts at ``now``."""
        event = Started(now, self._jobs.completed[job].submission) if self._driver.observes else None
        self._driver.step(now, self._estimate_running, event, None, job, now)

    def _estimate_running(self, job: int, now: int) -> None:
        if self._same:
            self.running[job] = self.waiting[job]
        elif self._at_start and not self._off[job]:
            value = self._decide_running(self._terms, job, self.waiting[job], now, 0)
            self.running[job] = value or self.limit[job]

    def conditional(self, job: int, now: int, elapsed: int) -> int | None:
        """The value of a job that has run ``elapsed`` seconds, decided anew as live values are in production.

        ``None`` where nothing would be set: no predictor is asked for running jobs, or the policy gives the job none.
        """
        if self._policy.running in FIXED or self._off[job]:
            return None
        return self._decide_running(self._live_terms, job, self.running[job], now, elapsed)

    def _decide_running(self, terms: Terms, job: int, value: int, now: int, elapsed: int) -> int | None:
        """Decide about a job that starts or runs, with this value now."""
        has = value if value < self.limit[job] else None
        submission = self._jobs.completed[job].submission
        return decide(
            terms, Kind.STARTED, submission, has, lambda spec, _: self._predicted(spec, job, now, elapsed)
        ).soft_walltime

    def ended(self, job: int, start: int, end: int) -> None:
        """Teach the predictors the job, as it went in this simulation."""
        completed = self._jobs.completed[job]
        if completed.start != start or completed.end != end or completed.runtime != end - start:
            completed = _as_simulated(completed, start, end)
        event = Ended(end, completed) if self._driver.observes else None
        self._driver.step(end, event=event, job=completed if self._jobs.teaches[job] else None)

    def _fixed(self, spec: str) -> list[int]:
        """The values of a specification that needs no predictor; the walltimes for one that does."""
        if spec not in (RUNTIME, SOFT_WALLTIME):
            return list(self.limit)
        minimum = self._policy.minimum
        known = self._unless_off(self._runtimes() if spec == RUNTIME else self._soft_walltimes())
        return [clamped(seconds, limit, minimum) for seconds, limit in zip(known, self.limit, strict=True)]

    def _runtimes(self) -> list[int]:
        """The runtimes; the limit of a job without a walltime, which gets no soft walltime."""
        scored = self._jobs.scored.tolist()
        return [
            known if limited else limit
            for known, limit, limited in zip(self._duration, self.limit, scored, strict=True)
        ]

    def _soft_walltimes(self) -> list[int]:
        """The recorded soft walltimes, the walltime of a job without one."""
        records = self._jobs.completed
        return [record.soft_walltime or limit for record, limit in zip(records, self.limit, strict=True)]

    def _unless_off(self, seconds: Sequence[int]) -> list[int]:
        """The seconds of each job, its walltime where no value is set."""
        return [limit if off else known for known, limit, off in zip(seconds, self.limit, self._off, strict=True)]

    def _predicted(self, spec: str, job: int, now: int, elapsed: int) -> Prediction | ColdStart:
        """Return the prediction, or the runtime if the specification is ``runtime``."""
        if spec == RUNTIME:
            return Prediction(float(self._duration[job]), "the runtime")
        if spec == WALLTIME:
            return Prediction(float(self.limit[job]), "the walltime")
        if spec == SOFT_WALLTIME:
            soft = self._jobs.completed[job].soft_walltime or self.limit[job]
            return Prediction(float(soft), "the recorded soft walltime")
        source = self._sources.get(spec)
        if source is not None:
            return self._restate(spec, self._predicted(source, job, now, elapsed), elapsed)
        return self._driver.predict(spec, self._jobs.completed[job].submission, now, elapsed)

    def _restate(self, spec: str, answer: Prediction | ColdStart, elapsed: int) -> Prediction | ColdStart:
        return answer if isinstance(answer, ColdStart) else self._restating[spec].restate(answer, elapsed)


def sources(predictors: Mapping[str, Predictor]) -> dict[str, str]:
    """Of each predictor that need not learn, the one whose answers it restates (:meth:`.Predictor.restates`)."""

    def source(spec: str, others: Iterable[str]) -> str | None:
        return next((other for other in others if other != spec and predictors[spec].restates(predictors[other])), None)

    # Those that can restate none come first, and none restates one that restates another one.
    found: dict[str, str] = {}
    leading: list[str] = []
    for spec in sorted(predictors, key=lambda spec: source(spec, predictors) is not None):
        first = source(spec, leading)
        if first is None:
            leading.append(spec)
        else:
            found[spec] = first
    return found


def clamped(seconds: float, walltime: int, minimum: int) -> int:
    """Whole seconds, rounded up, at least the minimum, at most the walltime, which replaces NaN too.

    >>> [clamped(seconds, 3600, 60) for seconds in (1800.2, 5, 1e9, float("nan"))]
    [1801, 60, 3600, 3600]
    """
    if not seconds < walltime:
        return walltime
    return min(max(math.ceil(seconds), minimum), walltime)


def _as_simulated(job: CompletedJob, start: int, end: int) -> CompletedJob:
    return replace(job, start=start, end=end, runtime=end - start, qtime=None, etime=None)
