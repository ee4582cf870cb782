"""Predictors in memory: one thread may call ``learn`` while another one calls ``predict``."""

from collections.abc import Callable, Collection
from heapq import heappop, heappush
from threading import Lock

from softwalltime.drive import PredictorDriver, PredictorErrors
from softwalltime.events import Event
from softwalltime.jobs import CompletedJob, NoPrediction, Prediction, Submission
from softwalltime.predictors.base import Predictor
from softwalltime.predictors.registry import make


class PredictorGroup:
    """Predictors behind one lock: a question waits for one job at most.

    A job that ended in the future is learnt when its time has come, by the clock or by that of a question: what is
    predicted then rests on what was known then, and a record with a wrong clock does no harm.

    :param errors: counts the errors of predictors; the other predictors continue.
    """

    def __init__(self, specs: Collection[str], clock: Callable[[], float], errors: PredictorErrors) -> None:
        self.learnt = 0
        """Jobs that were taught."""
        self._clock = clock
        self._driver = PredictorDriver({spec: make(spec) for spec in sorted(specs)}, errors)
        self._errors = errors
        self._lock = Lock()
        self._future: list[tuple[int, int, CompletedJob]] = []
        self._taken = 0
        self._being_copied: frozenset[str] = frozenset()
        """Predictors that must not change now, because they are being copied; they catch up later."""
        self._missed: list[CompletedJob | Event] | None = None
        """Jobs taught and events observed since the copy for the current fit; ``None`` without a fit."""

    @property
    def driver(self) -> PredictorDriver:
        return self._driver

    @property
    def predictors(self) -> Collection[Predictor]:
        return self._driver.predictors.values()

    @property
    def specs(self) -> Collection[str]:
        return self._driver.predictors.keys()

    @property
    def from_the_future(self) -> int:
        """Number of jobs with an end in the future, which are learnt at that time."""
        return len(self._future)

    def learn(self, job: CompletedJob) -> None:
        """Teach every predictor this job once; its errors are counted."""
        now = int(self._clock())
        with self._lock:
            self._come_to(now)
            if job.end > now:
                self._taken += 1
                heappush(self._future, (job.end, self._taken, job))
            else:
                self._teach(job)

    def observe(self, event: Event) -> None:
        with self._lock:
            self._show(event)

    def predict(self, spec: str, submission: Submission, now: int, elapsed: int = 0) -> Prediction | NoPrediction:
        """Return the answer of a predictor as of ``now`` (epoch seconds); no prediction if it fails."""
        with self._lock:
            self._come_to(now)
            return self._driver.predict(spec, submission, now, elapsed)

    def fit(self, now: int) -> None:
        """Fit copies of the predictors that are to be fitted, and put them in the place of the originals.

        No answer waits for it but for the moment in which one job is learnt.  One call at a time, in any thread.
        """
        originals = {spec: predictor for spec, predictor in self._driver.predictors.items() if predictor.fits}
        if not originals:
            return
        with self._lock:
            missed = self._missed = []
            self._being_copied = frozenset(originals)
        try:
            try:
                # Nothing changes the originals during the copy, so they can answer.
                copies = self._driver.copies()
            finally:
                self._catch_up(missed, PredictorDriver(originals, self._errors))
            self._catch_up(missed, copies.fit(now))
        finally:
            with self._lock:
                self._missed = None

    def _come_to(self, now: int) -> None:
        while self._future and self._future[0][0] <= now:
            self._teach(heappop(self._future)[2])

    def _teach(self, job: CompletedJob) -> None:
        self._show(job)
        self.learnt += 1

    def _show(self, what: CompletedJob | Event) -> None:
        driver = self._driver
        if self._missed is not None:
            self._missed.append(what)
        if self._being_copied:
            free = {spec: known for spec, known in driver.predictors.items() if spec not in self._being_copied}
            driver = PredictorDriver(free, self._errors)
        _show_to(what, driver)

    def _catch_up(self, missed: list[CompletedJob | Event], driver: PredictorDriver) -> None:
        """Let predictors learn the jobs that they missed, one at a time; then put them in use."""
        done = 0
        while True:
            with self._lock:
                if done == len(missed):
                    self._being_copied = frozenset()
                    self._driver.replace(driver.predictors)
                    return
                _show_to(missed[done], driver)
            done += 1


def _show_to(what: CompletedJob | Event, driver: PredictorDriver) -> None:
    if isinstance(what, CompletedJob):
        driver.learn(what)
    else:
        driver.observe(what)
