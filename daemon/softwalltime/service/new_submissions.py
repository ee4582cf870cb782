"""Find the job ids of submissions about which the hook asked at queuejob, where PBS has given none yet.

The Q record of the same submission has it.  It is written within a second, for the same user, with the same job name
and walltime; several such jobs were queued in the order in which the hook asked.  At a job's start the hook says the
same again with its id, which replaces what was found here.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from sqlalchemy import Engine

from softwalltime.jobs import CurrentJob, DecisionRecord, Submission
from softwalltime.store.attributes import add_attributes
from softwalltime.store.current import read_unknown

KEPT = 10_000
"""Submissions that wait for their ids."""
PATIENCE = 30.0
"""Seconds after which a submission's Q record is not expected any more: PBS refused it, or it has ended."""
EARLIER, LATER = 1, 1
"""Seconds by which ``ctime`` may precede and follow the hook's time."""


class NewSubmissions:
    """Submissions without ids, oldest first."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._waiting: deque[tuple[float, Submission]] = deque(maxlen=KEPT)
        self._monotonic = monotonic

    def note(self, decisions: Sequence[DecisionRecord]) -> None:
        """Add those of these decisions that are about new jobs with attributes."""
        now = self._monotonic()
        for decision in decisions:
            of = decision.submission
            if decision.event == "queuejob" and not of.job_id and (of.script or of.submit_host or of.depend):
                self._waiting.append((now, replace(of, submitted=decision.at)))

    def resolve(self, engine: Engine) -> int:
        """Store the attributes of submissions whose ids are known by now; return how many.

        :raises StoreError: if PostgreSQL fails; then nothing is forgotten.
        """
        if not self._waiting:
            return 0
        waiting = list(self._waiting)
        with engine.begin() as connection:
            since = min(of.submitted for _, of in waiting) - EARLIER
            jobs = read_unknown(connection, since)
            found: list[Submission] = []
            left = []
            for at, of in waiting:
                same = min((job for job in jobs if _same(of, job)), key=partial(_apart, of), default=None)
                if same is not None:
                    jobs.remove(same)
                    there = same.submission
                    found.append(replace(of, job_id=there.job_id, submitted=there.submitted))
                else:
                    left.append((at, of))
            add_attributes(connection, found)
        oldest = self._monotonic() - PATIENCE
        self._waiting = deque((each for each in left if each[0] > oldest), maxlen=KEPT)
        return len(found)


def _apart(of: Submission, job: CurrentJob) -> int:
    """Return the seconds between the hook's time and a job's submission."""
    return abs(job.submission.submitted - of.submitted)


def _same(of: Submission, job: CurrentJob) -> bool:
    there = job.submission
    return (
        -EARLIER <= there.submitted - of.submitted <= LATER
        and (there.user, there.job_name) == (of.user, of.job_name)
        and of.walltime in (None, there.walltime)
    )
