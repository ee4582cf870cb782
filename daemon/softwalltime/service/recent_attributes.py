"""Attributes of recent submissions, kept in memory until they are stored: a job may end earlier."""

from collections import OrderedDict
from dataclasses import replace

from softwalltime.jobs import CompletedJob, Submission, attributes_of, merged_attributes, whole_array

MAX_SUBMISSIONS = 20_000
"""Submissions that are remembered."""


class RecentAttributes:
    """Attributes of the last submissions by job id and submission time; one thread notes, another one completes."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, int], tuple[str, ...]] = OrderedDict()

    def note(self, submission: Submission) -> None:
        if submission.job_id and any(known := attributes_of(submission)):
            self._known[whole_array(submission.job_id), submission.submitted] = known
            if len(self._known) > MAX_SUBMISSIONS:
                self._known.popitem(last=False)

    def complete(self, job: CompletedJob) -> CompletedJob:
        """Return a stored job with the attributes that the store lacks, if they are kept."""
        of = job.submission
        known = self._known.get((whole_array(of.job_id), of.submitted))
        if known is None:
            return job
        script, submit_host, depend = merged_attributes(attributes_of(of), known)
        return replace(job, submission=replace(of, script=script, submit_host=submit_host, depend=depend))
