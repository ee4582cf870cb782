"""Scripts of recent submissions, kept in memory until they are stored: a job may end earlier."""

from collections import OrderedDict
from dataclasses import replace

from softwalltime.jobs import CompletedJob, Submission, whole_array

MAX_SUBMISSIONS = 20_000
"""Submissions that are remembered."""


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
