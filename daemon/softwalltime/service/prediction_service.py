"""The predictors of a policy in memory, and the decisions about jobs."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from time import time

from softwalltime.drive import PredictorErrors, PredictorFailure
from softwalltime.events import Deleted, Ended, Event, Kind
from softwalltime.jobs import CompletedJob, NoPrediction, Prediction, Submission
from softwalltime.policy.clamp import soft_walltime
from softwalltime.policy.decide import Decision, decide
from softwalltime.policy.site import SitePolicy
from softwalltime.predictors.base import History
from softwalltime.reasons import Reason
from softwalltime.service.predictor_group import PredictorGroup
from softwalltime.service.protocol import ProtocolError, Request
from softwalltime.states import TEACHING, State

KINDS = {
    "queuejob": Kind.SUBMITTED, "postqueuejob": Kind.SUBMITTED, "modifyjob": Kind.ALTERED, "runjob": Kind.STARTED,
}  # fmt: skip
"""Kinds of events by PBS's names."""


class PredictionService:
    """The predictors and the clock around a policy; :func:`softwalltime.policy.decide.decide` decides.

    A change of policy makes a new one, which is taught the history before it takes the old one's place.

    The policy's shadow predictors are a group with a lock of its own, ``shadows``, which learns and observes the same:
    no request waits for them.

    :param teaching: how jobs must have ended to be learnt.
    """

    def __init__(
        self, policy: SitePolicy, teaching: Collection[State] = TEACHING, clock: Callable[[], float] = time
    ) -> None:
        self.policy = policy
        self.teaching = frozenset(teaching)
        self.ready = False
        self.guarded = False
        """Whether waiting jobs are planned with their walltimes, because the top job is late."""
        self._clock = clock
        self._errors = PredictorErrors()
        self._scripts: dict[str, str] = {}
        """Scripts of jobs that wait or run, by job id: only the hook's questions say them."""
        self.answering = PredictorGroup(policy.specs(), clock, self._errors)
        """The predictors that answer the hook."""
        self.shadows = PredictorGroup(policy.shadows, clock, self._errors) if policy.shadows else None
        """The shadow predictors; ``None``: the policy has none."""
        self._groups = (self.answering,) if self.shadows is None else (self.answering, self.shadows)

    def fresh(self) -> "PredictionService":
        """Return a service with the same policy that has learnt nothing yet."""
        return PredictionService(self.policy, self.teaching, self._clock)

    @property
    def histories(self) -> list[History]:
        """The past jobs that each predictor needs."""
        return [history for group in self._groups for history in group.driver.histories()]

    @property
    def observes(self) -> bool:
        """Whether a predictor wants to know which jobs wait and run."""
        return any(group.driver.observes for group in self._groups)

    @property
    def fit_seconds(self) -> int | None:
        """Seconds between two fits, the shortest that a predictor asks for; ``None``: none is to be fitted."""
        intervals = [group.driver.fit_seconds for group in self._groups]
        return min((seconds for seconds in intervals if seconds is not None), default=None)

    @property
    def learnt(self) -> int:
        return self.answering.learnt

    @property
    def from_the_future(self) -> int:
        """Number of jobs with an end in the future, which are learnt at that time."""
        return self.answering.from_the_future

    @property
    def failures(self) -> tuple[PredictorFailure, ...]:
        """Errors of predictors since the history was loaded."""
        return self._errors.failures()

    def learn(self, jobs: Iterable[CompletedJob]) -> None:
        """Let every predictor learn the jobs whose end state counts; a request waits for one job at most."""
        for job in jobs:
            if job.state in self.teaching:
                for group in self._groups:
                    group.learn(job)

    def observe(self, events: Iterable[Event]) -> None:
        """Show these events to the predictors that observe; a request waits for one event at most."""
        for event in events:
            self._note_script(event)
            for group in self._groups:
                group.observe(event)

    def _note_script(self, event: Event) -> None:
        submission = event.job.submission if isinstance(event, Ended) else event.submission
        if isinstance(event, Ended | Deleted):
            self._scripts.pop(submission.job_id, None)
        elif submission.script:
            self._scripts[submission.job_id] = submission.script

    def fit(self, now: int) -> None:
        """Fit the predictors that are to be fitted; one call at a time, in any thread."""
        for group in reversed(self._groups):
            group.fit(now)

    def decide(self, request: Request) -> tuple[int, Decision]:
        """Return the decision about the job of a request, and its time in epoch seconds.

        :raises ProtocolError: if the request names no job.
        """
        submission = request.job
        if submission is None:
            raise ProtocolError("job: an object is expected")
        now = request.now or int(self._clock())

        kind = KINDS[request.event]
        return now, self._decide(kind, submission, request.soft_walltime, now, 0)

    def shadow_values(self, submission: Submission, now: int) -> dict[str, int | None]:
        """Return the soft walltime that each shadow predictor would give a waiting job, seconds; ``None``: none.

        A predictor that raises gives none.
        """
        shadows = self.shadows
        if shadows is None:
            return {}
        minimum = self.policy.terms(submission).minimum
        return {
            spec: soft_walltime(shadows.predict(spec, submission, now), submission, minimum) for spec in shadows.specs
        }

    def revise(self, submission: Submission, has: int | None, elapsed: int | None, now: int) -> Decision:
        """Decide anew about a job that waits or runs.

        :param has: the soft walltime that it has, seconds; ``None`` for none.
        :param elapsed: seconds that it has run; ``None`` while it waits.
        :param now: epoch seconds.
        """
        kind = Kind.ALTERED if elapsed is None else Kind.STARTED
        script = submission.script or self._scripts.get(submission.job_id, "")
        if script != submission.script:
            submission = replace(submission, script=script)
        return self._decide(kind, submission, has, now, elapsed or 0)

    def _decide(self, kind: Kind, submission: Submission, has: int | None, now: int, elapsed: int) -> Decision:
        def predict(spec: str, submission: Submission) -> Prediction | NoPrediction:
            if not self.ready:
                return NoPrediction(Reason.HISTORY_LOADING)
            return self.answering.predict(spec, submission, now, elapsed)

        terms = self.policy.terms(submission)
        if self.guarded:
            terms = terms._replace(guarded=True)
        return decide(terms, kind, submission, has, predict)
