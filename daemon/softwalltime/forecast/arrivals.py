"""Jobs that will be submitted later, drawn from those that were submitted in the last weeks.

Each day from now on repeats the same 24 hours of the week of one of the last weeks, drawn at random: a block bootstrap.
So the rate by hour of the week, the mix of users, queues, sizes and runtimes, and the bursts in which users submit are
the site's own.  With less than a week of history, past days take the place of weeks.
"""

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass

import numpy as np

from softwalltime.jobs import CompletedJob, Submission

DAY, WEEK = 86400, 7 * 86400
WEEKS = 8
"""Past weeks to draw from."""
HORIZON = 10 * DAY
"""Seconds from now after which no more jobs come."""
MAX_ARRIVALS = 20_000
"""Jobs that come at most in one run."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job that comes ``after`` so many seconds from now, and runs for ``runtime`` seconds."""

    after: int
    submission: Submission
    runtime: int


class ArrivalModel:
    """The submissions of the last weeks.

    Drivers call :meth:`submitted` and :meth:`ended` in order of time.
    """

    def __init__(self) -> None:
        self._first: int | None = None
        self._times: deque[int] = deque()
        self._jobs: deque[Submission] = deque()
        self._runtimes: dict[tuple[str, int], int] = {}
        self._shares: deque[float] = deque(maxlen=1000)

    def submitted(self, submission: Submission, now: int) -> None:
        """Note that a job could run for the first time at ``now``."""
        self._first = now if self._first is None else self._first
        self._times.append(now)
        self._jobs.append(submission)
        while self._times[0] < now - (WEEKS + 2) * WEEK:
            self._times.popleft()
            old = self._jobs.popleft()
            self._runtimes.pop((old.job_id, old.submitted), None)

    def ended(self, job: CompletedJob) -> None:
        """Note how long a job ran."""
        asked = job.submission
        self._runtimes[asked.job_id, asked.submitted] = job.runtime
        if asked.walltime and job.runtime > 0:
            self._shares.append(min(job.runtime / asked.walltime, 1.0))

    def drawn_from(self, now: int) -> "ArrivalDraws":
        """Return what later jobs are drawn from at ``now``; there are none with less than a day of history."""
        times = list(self._times)
        last = bisect_left(times, now)
        history = now - (now if self._first is None else self._first)
        period = WEEK if history >= WEEK else DAY
        return ArrivalDraws(
            now, times[:last], list(self._jobs)[:last], self._runtimes, sorted(self._shares), period,
            min(history // period, WEEKS),
        )  # fmt: skip


@dataclass(slots=True)
class ArrivalDraws:
    """Later jobs, as seen at one moment: those of the last ``periods`` weeks or days, ``period`` in seconds."""

    now: int
    times: list[int]
    jobs: list[Submission]
    runtimes: dict[tuple[str, int], int]
    shares: list[float]
    period: int
    periods: int

    def draw(self, random: np.random.Generator, seconds: int) -> list[Arrival]:
        """Draw the jobs of the next ``seconds``, in order of time."""
        arrivals: list[Arrival] = []
        if not self.periods:
            return arrivals
        for begin in range(0, min(seconds, HORIZON), DAY):
            # The last day that is over, at the same hour of the week.
            back = self.period * (-(-(begin + DAY) // self.period) + int(random.integers(self.periods)))
            first = bisect_left(self.times, self.now + begin - back)
            last = bisect_left(self.times, self.now + min(begin + DAY, seconds) - back)
            for place in range(first, last):
                job = self.jobs[place]
                arrivals.append(Arrival(self.times[place] + back - self.now, job, self._runtime(job, random)))
            if len(arrivals) > MAX_ARRIVALS:
                return arrivals[:MAX_ARRIVALS]
        return arrivals

    def _runtime(self, job: Submission, random: np.random.Generator) -> int:
        """How long it ran; while it has not ended, as much of its walltime as another job used."""
        known = self.runtimes.get((job.job_id, job.submitted))
        if known is not None:
            return max(known, 1)
        share = self.shares[int(random.integers(len(self.shares)))] if self.shares else 1.0
        return max(int((job.walltime or DAY) * share), 1)
