"""Predict and decide with a policy and its predictors, in memory.

One thread may call ``learn`` while another one calls ``decide``.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from heapq import heappop, heappush
from itertools import count
from threading import Lock
from time import time

from softwalltime.core.events import Altered, Deleted, Ended, Event, Kind, Started, Submitted
from softwalltime.core.jobs import CompletedJob, CurrentJob, NoPrediction, Prediction, Submission
from softwalltime.core.reasons import Reason
from softwalltime.core.states import TEACHING, State
from softwalltime.predict.drive import PredictorDriver, PredictorErrors
from softwalltime.predict.policy.decide import Decision, decide
from softwalltime.predict.policy.site import SitePolicy
from softwalltime.predict.predictors.registry import make
from softwalltime.service.protocol import EVENTS, Request

Key = tuple[str, str]


class JobEvents:
    """Convert changes of waiting and running jobs to events for the predictors.

    The changes come from the accounting log's records Q, S, a, D and E, whichever process has read them.  After a
    restart no event is repeated.  A job that was submitted and ended between two reads is observed at its end.
    """

    def __init__(self) -> None:
        self.jobs: dict[Key, tuple[Submission, int | None]] = {}
        """Submission and start of the waiting and running jobs that predictors know; start ``None``: waiting."""

    def load(self, current: Iterable[CurrentJob], now: int) -> list[Event]:
        """Return the events for all waiting and running jobs, as at start-up; for ``now`` see :meth:`change`."""
        jobs: dict[Key, CurrentJob | None] = {(job.submission.job_id, job.server): job for job in current}
        return self.change({**dict.fromkeys(self.jobs.keys() - jobs.keys()), **jobs}, now)

    def change(self, changed: Mapping[Key, CurrentJob | None], now: int) -> list[Event]:
        """Return the events of the changed jobs, in order of time; whole arrays are left out.

        :param changed: the state of each job; ``None``: it neither waits nor runs.
        :param now: time of alters and deletions, which the store does not have, epoch seconds.
        """
        events: list[Event] = []
        for key, job in changed.items():
            known = self.jobs.get(key)
            if job is None:
                if known is not None:
                    del self.jobs[key]
                    events.append(Deleted(now, known[0]))
                continue
            submission, start = job.submission, job.start
            if "[]" in submission.job_id:
                continue
            self.jobs[key] = submission, start
            if known is None:
                events.append(Submitted(submission.submitted, submission))
            elif known[0] != submission:
                events.append(Altered(now, submission))
            if start is not None and (known is None or known[1] != start):
                events.append(Started(start, submission))
        return sorted(events, key=lambda event: (event.time, event.kind))

    def ended(self, job: CompletedJob) -> list[Event]:
        """Return the events of a stored job: those that were not observed yet, then its end."""
        submission = job.submission
        key = submission.job_id, job.server
        known = self.jobs.get(key)
        if known is not None and known[0].submitted <= submission.submitted:
            del self.jobs[key]
        else:
            # A later job has the same id, for example after a reinstallation of the server.
            known = None
        events: list[Event] = [] if known else [Submitted(submission.submitted, submission)]
        if job.start is not None and (known is None or known[1] != job.start):
            events.append(Started(job.start, submission))
        ended = job.start is not None or job.ran
        return [*events, Ended(job.end, job) if ended else Deleted(job.end, submission)]


class PredictionService:
    """A policy and its predictors behind one lock: a request waits for one job at most.

    A change of policy creates a new service, which learns the history and then replaces the old one.

    A job with an end time in the future is learnt at that time, by the clock or by the time of a request: predictions
    never use later jobs, and a record with a wrong clock does no harm.

    :param teaching: end states of the jobs to learn.
    """

    def __init__(
        self, policy: SitePolicy, teaching: Collection[State] = TEACHING, clock: Callable[[], float] = time
    ) -> None:
        self.policy = policy
        self.teaching = frozenset(teaching)
        self.ready = False
        self.guarded = False
        """Whether waiting jobs are planned with their walltimes, because the top job is late."""
        self.errors = PredictorErrors()
        """Errors of predictors since the history was loaded; the other predictors continue."""
        self.driver = PredictorDriver({spec: make(spec) for spec in sorted(policy.specs())}, self.errors)
        self.learnt = 0
        """Jobs that were taught."""
        self._clock = clock
        self._scripts: dict[str, str] = {}
        """Scripts of waiting and running jobs by job id: only the hook's requests contain them."""
        self._groups: dict[str, str] = {}
        """Group of each user's last job: PBS sets a job's group after queuejob."""
        self._lock = Lock()
        self._future: list[tuple[int, int, CompletedJob]] = []
        self._taken = 0
        self._being_copied: frozenset[str] = frozenset()
        """Predictors that are being copied and must not change; they catch up later."""
        self._missed: list[CompletedJob | Event] | None = None
        """Jobs learnt and events observed since the copy for the current fit; ``None`` without a fit."""

    def fresh(self) -> "PredictionService":
        """Return a service with the same policy that has learnt nothing yet."""
        return PredictionService(self.policy, self.teaching, self._clock)

    @property
    def from_the_future(self) -> int:
        """Number of jobs with an end in the future, which are learnt at that time."""
        return len(self._future)

    def learn(self, jobs: Iterable[CompletedJob]) -> None:
        """Let every predictor learn the jobs whose end state counts."""
        for job in jobs:
            if job.state not in self.teaching:
                continue
            now = int(self._clock())
            with self._lock:
                self._come_to(now)
                if job.end > now:
                    self._taken += 1
                    heappush(self._future, (job.end, self._taken, job))
                else:
                    self._teach(job)

    def observe(self, events: Iterable[Event]) -> None:
        """Pass these events to the predictors that observe; a request waits for one event at most."""
        for event in events:
            submission = event.job.submission if isinstance(event, Ended) else event.submission
            if isinstance(event, Ended | Deleted):
                self._scripts.pop(submission.job_id, None)
            elif submission.script:
                self._scripts[submission.job_id] = submission.script
            with self._lock:
                self._show(event)
                self._groups[submission.user] = submission.group

    def predict(self, spec: str, submission: Submission, now: int, elapsed: int = 0) -> Prediction | NoPrediction:
        """Return the answer of a predictor as of ``now`` (epoch seconds); no prediction if it fails."""
        if not self.ready:
            return NoPrediction(Reason.HISTORY_LOADING)
        with self._lock:
            self._come_to(now)
            if not submission.group and (group := self._groups.get(submission.user)):
                submission = replace(submission, group=group)
            return self.driver.predict(spec, submission, now, elapsed)

    def fit(self, now: int) -> None:
        """Fit copies of the predictors that need fitting, then replace the originals.

        A request waits for at most one job to be learnt.  One call at a time, in any thread.
        """
        originals = {spec: predictor for spec, predictor in self.driver.predictors.items() if predictor.fits}
        if not originals:
            return
        with self._lock:
            missed = self._missed = []
            self._being_copied = frozenset(originals)
        try:
            try:
                # The originals are not changed during the copy, so they can answer.
                copies = self.driver.copies()
            finally:
                self._catch_up(missed, PredictorDriver(originals, self.errors))
            self._catch_up(missed, copies.fit(now))
        finally:
            with self._lock:
                self._missed = None

    def decide(self, request: Request) -> tuple[int, Decision]:
        """Return the decision about the job of a request, and its time in epoch seconds."""
        now = request.now or int(self._clock())
        return now, self._decide(EVENTS[request.event], request.job, request.soft_walltime, now, 0)

    def revise(self, submission: Submission, has: int | None, elapsed: int | None, now: int) -> Decision:
        """Decide again about a waiting or running job.

        :param has: current soft walltime, seconds; ``None``: none.
        :param elapsed: seconds since its start; ``None`` while it waits.
        :param now: epoch seconds.
        """
        kind = Kind.ALTERED if elapsed is None else Kind.STARTED
        script = submission.script or self._scripts.get(submission.job_id, "")
        if script != submission.script:
            submission = replace(submission, script=script)
        return self._decide(kind, submission, has, now, elapsed or 0)

    def _decide(self, kind: Kind, submission: Submission, has: int | None, now: int, elapsed: int) -> Decision:
        terms = self.policy.terms(submission)
        if self.guarded:
            terms = terms._replace(guarded=True)
        return decide(terms, kind, submission, has, lambda spec, job: self.predict(spec, job, now, elapsed))

    def _come_to(self, now: int) -> None:
        while self._future and self._future[0][0] <= now:
            self._teach(heappop(self._future)[2])

    def _teach(self, job: CompletedJob) -> None:
        self._show(job)
        self._groups[job.submission.user] = job.submission.group
        self.learnt += 1

    def _show(self, what: CompletedJob | Event) -> None:
        driver = self.driver
        if self._missed is not None:
            self._missed.append(what)
        if self._being_copied:
            free = {spec: known for spec, known in driver.predictors.items() if spec not in self._being_copied}
            driver = PredictorDriver(free, self.errors)
        _show_to(what, driver)

    def _catch_up(self, missed: list[CompletedJob | Event], driver: PredictorDriver) -> None:
        """Let fitted copies learn the jobs that they missed, one at a time; then put them into use."""
        for done in count():
            with self._lock:
                if done == len(missed):
                    self._being_copied = frozenset()
                    self.driver.replace(driver.predictors)
                    return
                _show_to(missed[done], driver)


def _show_to(what: CompletedJob | Event, driver: PredictorDriver) -> None:
    if isinstance(what, CompletedJob):
        driver.learn(what)
    else:
        driver.observe(what)
