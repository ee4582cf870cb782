"""The predictors of a policy in memory, safe to teach from one thread and to ask from another."""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from heapq import heappop, heappush
from threading import Lock
from time import time

from softwalltime.events import Deleted, Ended, Event, Kind
from softwalltime.jobs import ColdStart, CompletedJob, Prediction, Submission
from softwalltime.policy.clamp import soft_walltime
from softwalltime.policy.decide import Decision, decide
from softwalltime.policy.site import SitePolicy
from softwalltime.predictors.base import Predictor
from softwalltime.predictors.registry import make
from softwalltime.reasons import Reason
from softwalltime.service.protocol import ProtocolError, Request
from softwalltime.states import TEACHING, State

log = logging.getLogger(__name__)

KINDS = {
    "queuejob": Kind.SUBMITTED, "postqueuejob": Kind.SUBMITTED, "modifyjob": Kind.ALTERED, "runjob": Kind.STARTED,
}  # fmt: skip
"""Kinds of events by PBS's names."""


class PredictionService:
    """The lock and the clock around a policy's predictors; :func:`softwalltime.policy.decide.decide` decides.

    A change of policy makes a new one, which is taught the history before it takes the old one's place.

    A job that ended in the future is learnt when its time has come, by the clock or by that of a request: what is
    predicted then rests on what was known then, and a record with a wrong clock does no harm.

    The policy's shadow predictors are in a second one with a lock of its own, ``shadows``, which learns and observes
    the same: no request waits for them, and an error of one costs nothing but its own values.

    :param teaching: how jobs must have ended to be learnt.
    :param specs: the predictors, if not those of the policy.
    """

    def __init__(
        self, policy: SitePolicy, teaching: Collection[State] = TEACHING, clock: Callable[[], float] = time,
        specs: Collection[str] | None = None,
    ) -> None:  # fmt: skip
        self.policy = policy
        self.teaching = frozenset(teaching)
        self.ready = False
        self.guarded = False
        """Whether waiting jobs are planned with their walltimes, because the top job is late."""
        self.factor = 1.0
        """What is predicted for waiting jobs is multiplied by it (steering)."""
        self.learnt = 0
        self._clock = clock
        self._lock = Lock()
        self._future: list[tuple[int, int, CompletedJob]] = []
        self._taken = 0
        self._scripts: dict[str, str] = {}
        """Scripts of jobs that wait or run, by job id: only the hook's questions say them."""
        wanted = policy.specs() if specs is None else specs
        self._predictors: dict[str, Predictor] = {spec: make(spec) for spec in sorted(wanted)}
        with_shadows = specs is None and bool(policy.shadows)
        self.shadows = PredictionService(policy, teaching, clock, policy.shadows) if with_shadows else None
        """The shadow predictors; ``None``: the policy has none."""
        self._are_shadows = specs is not None
        self._errors: set[str] = set()
        """What shadow predictors raised while they learnt, so that it is logged once, not for each job."""
        self._notices: tuple[tuple[str, str], ...] = ()
        self._fitted = {spec for spec, predictor in self._predictors.items() if predictor.fits}
        self._copying = False
        self._missed: list[CompletedJob | Event] | None = None
        """Jobs learnt and events observed since the copy for the current fit; ``None`` without a fit."""

    def fresh(self) -> "PredictionService":
        """One with the same policy that has learnt nothing yet."""
        return PredictionService(self.policy, self.teaching, self._clock)

    @property
    def predictors(self) -> tuple[Predictor, ...]:
        """All predictors that may be asked, and the shadow predictors."""
        return (*self._predictors.values(), *(self.shadows.predictors if self.shadows is not None else ()))

    @property
    def observes(self) -> bool:
        """Whether a predictor wants to know which jobs wait and run."""
        return any(predictor.observes for predictor in self.predictors)

    @property
    def fit_seconds(self) -> int | None:
        """Seconds between two fits, the shortest that a predictor asks for; ``None``: none is to be fitted."""
        return min((predictor.fit_seconds for predictor in self.predictors if predictor.fits), default=None)

    @property
    def from_the_future(self) -> int:
        """Number of jobs with an end in the future, which are learnt at that time."""
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
            if self.shadows is not None:
                self.shadows.learn([job])

    def observe(self, events: Iterable[Event]) -> None:
        """Show these events to the predictors that observe; a request waits for one event at most."""
        for event in events:
            self._note_script(event)
            with self._lock:
                self._show(event, self._live())
            if self.shadows is not None:
                self.shadows.observe([event])

    def _note_script(self, event: Event) -> None:
        submission = event.job.submission if isinstance(event, Ended) else event.submission
        if isinstance(event, Ended | Deleted):
            self._scripts.pop(submission.job_id, None)
        elif submission.script:
            self._scripts[submission.job_id] = submission.script

    def _come_to(self, now: int) -> None:
        while self._future and self._future[0][0] <= now:
            self._teach(heappop(self._future)[2])

    def _teach(self, job: CompletedJob) -> None:
        self._show(job, self._live())
        self.learnt += 1

    def _live(self) -> Iterable[Predictor]:
        """Return the predictors that may change now; predictors that are being copied catch up later."""
        if self._missed is None or not self._copying:
            return self._predictors.values()
        return [predictor for spec, predictor in self._predictors.items() if spec not in self._fitted]

    def _show(self, what: CompletedJob | Event, predictors: Iterable[Predictor]) -> None:
        if self._missed is not None:
            self._missed.append(what)
        self._show_to(what, predictors)

    def _show_to(self, what: CompletedJob | Event, predictors: Iterable[Predictor]) -> None:
        """Let predictors learn a job, or observe an event."""
        for predictor in predictors:
            with self._alone(predictor):
                if isinstance(what, CompletedJob):
                    predictor.learn(what)
                elif predictor.observes:
                    predictor.observe(what)

    @contextmanager
    def _alone(self, predictor: Predictor) -> Iterator[None]:
        """Log an error of a shadow predictor, which must not end the step in which other predictors learn too."""
        try:
            yield
        # A predictor of another package may fail in any way.
        except Exception as error:
            if not self._are_shadows:
                raise
            failed = f"{type(predictor).__name__}: {type(error).__name__}"
            if failed not in self._errors:
                self._errors.add(failed)
                log.exception("a shadow predictor failed: %s", failed)

    def fit(self, now: int) -> None:
        """Fit copies of the predictors that are to be fitted, and put them in the place of the originals.

        No answer waits for it but for the moment in which one job is learnt.  One call at a time, in any thread.
        """
        if self.shadows is not None:
            self.shadows.fit(now)
        if not self._fitted:
            return
        spec_names = sorted(self._fitted)
        with self._lock:
            missed = self._missed = []
            self._copying = True
        try:
            originals = {spec: self._predictors[spec] for spec in spec_names}
            try:
                # Nothing changes the originals during the copy, so they can answer.
                copies = {}
                for spec, original in originals.items():
                    with self._alone(original):
                        copies[spec] = deepcopy(original)
            finally:
                self._catch_up(missed, originals)
            fitted = {}
            for spec, copy in copies.items():
                with self._alone(copy):
                    copy.fit(now)
                    fitted[spec] = copy
            self._catch_up(missed, fitted)
        finally:
            with self._lock:
                self._missed = None

    def _catch_up(self, missed: list[CompletedJob | Event], predictors: dict[str, Predictor]) -> None:
        """Show predictors what they have missed, one job at a time; then let them take part."""
        done = 0
        while True:
            with self._lock:
                if done == len(missed):
                    self._copying = False
                    self._predictors.update(predictors)
                    return
                self._show_to(missed[done], predictors.values())
            done += 1

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

    def values(self, submission: Submission, now: int) -> dict[str, int | None]:
        """Return what each predictor would give a waiting job: its soft walltime in seconds, ``None`` for none.

        A predictor that raises gives none; its error is logged.
        """
        minimum = self.policy.terms(submission).minimum
        found: dict[str, int | None] = {}
        for spec in self._predictors:
            try:
                with self._lock:
                    self._come_to(now)
                    answer = self._predictors[spec].predict(submission, now, 0)
                found[spec] = soft_walltime(answer, submission, minimum)
            # A predictor of another package may fail in any way.
            except Exception:
                log.exception("the shadow predictor %s failed", spec)
                found[spec] = None
        return found

    def notices(self) -> tuple[tuple[str, str], ...]:
        """Return what the predictors say about their own state, by specification."""
        # The thread of the answers asks for them too, and must not wait for a shadow predictor at work.
        if self._lock.acquire(blocking=not self._are_shadows):
            try:
                found = []
                for spec, predictor in self._predictors.items():
                    with self._alone(predictor):
                        found.append((spec, predictor.notice))
            finally:
                self._lock.release()
            self._notices = tuple((spec, notice) for spec, notice in found if notice)
        of_shadows = self.shadows.notices() if self.shadows is not None else ()
        return (*self._notices, *of_shadows)

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
        def predict(spec: str, submission: Submission) -> Prediction | ColdStart:
            if not self.ready:
                return ColdStart(Reason.HISTORY_LOADING)
            with self._lock:
                self._come_to(now)
                return self._predictors[spec].predict(submission, now, elapsed)

        terms = self.policy.terms(submission)
        if self.guarded or self.factor != 1.0:
            terms = terms._replace(guarded=self.guarded, factor=self.factor)
        return decide(terms, kind, submission, has, predict)
