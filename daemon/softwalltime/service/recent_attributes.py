"""What hooks said of recent submissions, until the store knows it: a job may end before its requests are stored."""

from collections import OrderedDict
from dataclasses import replace

from softwalltime.jobs import CompletedJob, Submission, whole_array

KEPT = 20_000
"""Submissions that are remembered."""


class RecentAttributes:
    """Attributes of the last submissions by job id and submission time; one thread notes, another one completes."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, int], tuple[str, str, str]] = OrderedDict()

    def note(self, submission: Submission) -> None:
        """Remember what a request says."""
        if submission.job_id and (submission.script or submission.submit_host or submission.depend):
            key = whole_array(submission.job_id), submission.submitted
            self._known[key] = submission.script, submission.submit_host, submission.depend
            if len(self._known) > KEPT:
                self._known.popitem(last=False)

    def complete(self, job: CompletedJob) -> CompletedJob:
        """Return a job from the store with what it lacks there, as far as it is remembered."""
        of = job.submission
        known = self._known.get((whole_array(of.job_id), of.submitted))
        if known is None:
            return job
        stored = of.script, of.submit_host, of.depend
        script, submit_host, depend = (mine or noted for mine, noted in zip(stored, known, strict=True))
        return replace(job, submission=replace(of, script=script, submit_host=submit_host, depend=depend))
