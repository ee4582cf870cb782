"""The predictors of a policy in memory, safe to teach from one thread and to ask from another."""

from collections.abc import Callable, Collection, Iterable
from heapq import heappop, heappush
from threading import Lock
from time import time

from softwalltime.events import Event, Kind
from softwalltime.jobs import ColdStart, CompletedJob, Prediction, Submission
from softwalltime.policy.decide import Decision, decide
from softwalltime.policy.site import SitePolicy
from softwalltime.predictors.base import Predictor
from softwalltime.predictors.registry import make
from softwalltime.reasons import Reason
from softwalltime.service.protocol import ProtocolError, Request
from softwalltime.states import TEACHING, State

KINDS = {
    "queuejob": Kind.SUBMITTED, "postqueuejob": Kind.SUBMITTED, "modifyjob": Kind.ALTERED, "runjob": Kind.STARTED,
}  # fmt: skip
"""What happens to a job, by PBS's name of the event."""


class PredictionService:
    """The lock and the clock around a policy's predictors; :func:`softwalltime.policy.decide.decide` decides.

    A change of policy makes a new one, which is taught the history before it takes the old one's place.

    A job that ended in the future is learnt when its time has come, by the clock or by that of a request: what is
    predicted then rests on what was known then, and a record with a wrong clock does no harm.

    :param teaching: how jobs must have ended to be learnt.
    """

    def __init__(
        self, policy: SitePolicy, teaching: Collection[State] = TEACHING, clock: Callable[[], float] = time
    ) -> None:
        self.policy = policy
        self.teaching = frozenset(teaching)
        self.ready = False
        self.learnt = 0
        self._clock = clock
        self._lock = Lock()
        self._future: list[tuple[int, int, CompletedJob]] = []
        self._taken = 0
        self._predictors: dict[str, Predictor] = {spec: make(spec) for spec in sorted(policy.specs())}
        self._observers = [predictor for predictor in self._predictors.values() if predictor.observes]

    def fresh(self) -> "PredictionService":
        """One with the same policy that has learnt nothing yet."""
        return PredictionService(self.policy, self.teaching, self._clock)

    @property
    def predictors(self) -> tuple[Predictor, ...]:
        """All predictors that may be asked."""
        return tuple(self._predictors.values())

    @property
    def observes(self) -> bool:
        """Whether a predictor wants to know which jobs wait and run."""
        return bool(self._observers)

    @property
    def from_the_future(self) -> int:
        """How many jobs wait to be learnt until the time at which they ended has come."""
        return len(self._future)

    def learn(self, jobs: Iterable[CompletedJob]) -> None:
        """Teach every predictor these jobs, but for those that do not teach; a request waits for one job at most."""
        now = int(self._clock())
        with self._lock:
            self._come_to(now)
        for job in jobs:
            if job.state not in self.teaching:
                continue
            with self._lock:
                if job.end > now:
                    self._taken += 1
                    heappush(self._future, (job.end, self._taken, job))
                else:
                    self._teach(job)

    def observe(self, events: Iterable[Event]) -> None:
        """Show these events to the predictors that observe; a request waits for one event at most."""
        for event in events:
            with self._lock:
                for predictor in self._observers:
                    predictor.observe(event)

    def _come_to(self, now: int) -> None:
        while self._future and self._future[0][0] <= now:
            self._teach(heappop(self._future)[2])

    def _teach(self, job: CompletedJob) -> None:
        for predictor in self._predictors.values():
            predictor.learn(job)
        self.learnt += 1

    def decide(self, request: Request) -> tuple[int, Decision]:
        """What to do about the job of a request, and as of when (epoch seconds).

        :raises ProtocolError: if the request names no job.
        """
        submission = request.job
        if submission is None:
            raise ProtocolError("job: an object is expected")
        now = request.now or int(self._clock())

        def predict(spec: str, submission: Submission) -> Prediction | ColdStart:
            if not self.ready:
                return ColdStart(Reason.HISTORY_LOADING)
            with self._lock:
                self._come_to(now)
                return self._predictors[spec].predict(submission, now)

        terms = self.policy.terms(submission)
        return now, decide(terms, KINDS[request.event], submission, request.soft_walltime, predict)
