"""Find the job ids of submissions that the hook sent at queuejob, before PBS assigned an id.

The submission's Q record has the id.  It is written within a second, with the same user, job name and walltime; several
such jobs are matched in the order of the hook's requests.  At job start the hook sends the job again with its id, which
replaces the match.
"""

import time
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sqlalchemy import Engine

from softwalltime.core.jobs import CompletedJob, DecisionRecord, Submission, whole_array
from softwalltime.store.completed_jobs import add_scripts
from softwalltime.store.current import read_unknown

MAX_WAITING_SUBMISSIONS = 10_000
"""Maximum number of submissions without job id."""
RECORD_TIMEOUT_S = 30.0
"""Seconds to wait for a submission's Q record; after that PBS has refused the job, or it has ended."""
_CTIME_OFFSETS_S = (0, -1, 1)
"""Possible seconds between the hook's time and ``ctime``, the most likely first."""

_Key = tuple[str, str, int]
"""User, job name and time of submission."""
MAX_SUBMISSIONS = 20_000
"""Maximum number of submissions whose scripts are kept."""


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
        """Store the scripts of submissions whose ids are now known; return their number.

        :raises StoreError: if PostgreSQL fails; the next call tries again.
        """
        oldest = self._monotonic() - RECORD_TIMEOUT_S
        while self._waiting and self._waiting[0][0] < oldest:
            self._waiting.popleft()
        if not self._waiting:
            return 0
        waiting = list(self._waiting)
        with engine.begin() as connection:
            # By the fields of a request, so that bursts of similar jobs need no search.
            queued: defaultdict[_Key, list[Submission]] = defaultdict(list)
            first = min(of.submitted for _, of in waiting) - max(_CTIME_OFFSETS_S)
            for current in read_unknown(connection, first):
                of = current.submission
                queued[of.user, of.job_name, of.submitted].append(of)
            jobs = [_take(queued, of) for _, of in waiting]
            resolved = [
                replace(of, job_id=job.job_id, submitted=job.submitted)
                for (_, of), job in zip(waiting, jobs, strict=True)
                if job is not None
            ]
            add_scripts(connection, resolved)
        left = [asked for asked, job in zip(waiting, jobs, strict=True) if job is None]
        self._waiting = deque(left, maxlen=MAX_WAITING_SUBMISSIONS)
        return len(resolved)


def _take(jobs: Mapping[_Key, list[Submission]], asked: Submission) -> Submission | None:
    """Remove and return the job that matches a request: the nearest in time, then the first."""
    for apart in _CTIME_OFFSETS_S:
        similar = jobs.get((asked.user, asked.job_name, asked.submitted + apart), [])
        for place, job in enumerate(similar):
            if asked.walltime in (None, job.walltime):
                return similar.pop(place)
    return None


class RecentScripts:
    """Scripts of recent submissions by job id and submission time; one thread adds, another one reads."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, int], str] = OrderedDict()

    def note(self, submission: Submission) -> None:
        if submission.job_id and submission.script:
            self._known[whole_array(submission.job_id), submission.submitted] = submission.script
            if len(self._known) > MAX_SUBMISSIONS:
                self._known.popitem(last=False)

    def complete(self, job: CompletedJob) -> CompletedJob:
        """Return a stored job with its script, if it is known and the store lacks it."""
        of = job.submission
        script = of.script or self._known.get((whole_array(of.job_id), of.submitted), "")
        return job if script == of.script else replace(job, submission=replace(of, script=script))
