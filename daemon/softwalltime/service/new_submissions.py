"""Find the job ids of submissions about which the hook asked at queuejob, where PBS has given none yet.

The Q record of the same submission has it.  It is written within a second, for the same user, with the same job name
and walltime; several such jobs were queued in the order in which the hook asked.  At a job's start the hook says the
same again with its id, which replaces what was found here.
"""

import time
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlalchemy import Engine

from softwalltime.core.jobs import CompletedJob, CurrentJob, DecisionRecord, Submission, whole_array
from softwalltime.store.completed_jobs import add_scripts
from softwalltime.store.current import read_unknown

MAX_WAITING_SUBMISSIONS = 10_000
"""Submissions that wait for their ids."""
PATIENCE = 30.0
"""Seconds after which a submission's Q record is not expected any more: PBS refused it, or it has ended."""
_APART = (0, -1, 1)
"""Seconds between the hook's time and ``ctime``, the likeliest first."""

MAX_SUBMISSIONS = 20_000
"""Submissions that are remembered."""


class NewSubmissions:
    """Submissions without ids, oldest first."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._waiting: deque[tuple[float, Submission]] = deque(maxlen=MAX_WAITING_SUBMISSIONS)
        self._monotonic = monotonic

    def note(self, decisions: Sequence[DecisionRecord]) -> None:
        now = self._monotonic()
        for decision in decisions:
            of = decision.submission
            if decision.event == "queuejob" and not of.job_id and of.script:
                self._waiting.append((now, replace(of, submitted=decision.at)))

    def resolve(self, engine: Engine) -> int:
        """Store the scripts of submissions whose ids are known by now; return how many.

        :raises StoreError: if PostgreSQL fails; they are looked for again.
        """
        oldest = self._monotonic() - PATIENCE
        while self._waiting and self._waiting[0][0] < oldest:
            self._waiting.popleft()
        if not self._waiting:
            return 0
        waiting = list(self._waiting)
        with engine.begin() as connection:
            queued = _Queued(read_unknown(connection, min(of.submitted for _, of in waiting) - max(_APART)))
            resolved: list[Submission] = []
            left = []
            for at, of in waiting:
                there = queued.take(of)
                if there is not None:
                    resolved.append(replace(of, job_id=there.job_id, submitted=there.submitted))
                else:
                    left.append((at, of))
            add_scripts(connection, resolved)
        self._waiting = deque(left, maxlen=MAX_WAITING_SUBMISSIONS)
        return len(resolved)


class _Queued:
    """Jobs with a known Q record, indexed by fields of the requests: a burst of similar jobs needs no search."""

    def __init__(self, jobs: Sequence[CurrentJob]) -> None:
        self._jobs: defaultdict[tuple[str, str, int], list[Submission]] = defaultdict(list)
        # Reversed: the first job is taken from the end.
        for job in reversed(jobs):
            of = job.submission
            self._jobs[of.user, of.job_name, of.submitted].append(of)

    def take(self, asked: Submission) -> Submission | None:
        """Remove and return the job that was asked about, of several the nearest in time, then the first."""
        for apart in _APART:
            jobs = self._jobs.get((asked.user, asked.job_name, asked.submitted + apart), [])
            for place in range(len(jobs) - 1, -1, -1):
                if asked.walltime in (None, jobs[place].walltime):
                    return jobs.pop(place)
        return None


class RecentScripts:
    """Scripts of the last submissions by job id and submission time; one thread notes, another one completes."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, int], str] = OrderedDict()

    def note(self, submission: Submission) -> None:
        if submission.job_id and submission.script:
            self._known[whole_array(submission.job_id), submission.submitted] = submission.script
            if len(self._known) > MAX_SUBMISSIONS:
                self._known.popitem(last=False)

    def complete(self, job: CompletedJob) -> CompletedJob:
        """Return a stored job with the script that the store lacks, if it is kept."""
        of = job.submission
        script = of.script or self._known.get((whole_array(of.job_id), of.submitted), "")
        return job if script == of.script else replace(job, submission=replace(of, script=script))
