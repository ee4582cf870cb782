"""Recorded jobs in event order, which is what a replay runs on."""

from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from softwalltime.jobs import CompletedJob
from softwalltime.states import TEACHING, State

NEVER_RAN = "never ran (no runtime)"
NO_WALLTIME = "no walltime"


class Workload:
    """Jobs in order of submission, with the order of their submissions and ends.

    ``order`` holds, for N jobs, numbers from 0 to 2N-1 as things happened: below N the end of that job, if it teaches,
    from N on the submission of job (number - N).  At one instant ends come before submissions, and ties stay in file
    order.
    """

    def __init__(
        self, jobs: Sequence[CompletedJob], limit: int | None = None, teaching: Collection[State] = TEACHING
    ) -> None:
        """
        :param limit: only the first so many jobs, in order of submission.
        :param teaching: how jobs must have ended to teach.
        """
        submitted = np.fromiter((job.submission.submitted for job in jobs), np.int64, len(jobs))
        first = np.argsort(submitted, kind="stable")[:limit]
        # File order decides between ends at one instant, so it must survive the sorting by submission.
        in_file_order = np.argsort(first, kind="stable")
        self.jobs = [jobs[index] for index in first.tolist()]
        count = len(self.jobs)
        submitted = submitted[first]
        ends = np.fromiter((job.end for job in self.jobs), np.int64, count)
        # A record whose job ends before it was submitted is wrong, and must not teach what it is then asked.
        ends = np.maximum(ends, submitted + 1)
        times = np.concatenate([ends[in_file_order], submitted])
        events = np.concatenate([in_file_order, np.arange(count, 2 * count)])
        teaches = np.fromiter((job.state in teaching for job in self.jobs), np.bool_, count)
        happened = events[np.argsort(times, kind="stable")]
        self.order: list[int] = happened[(happened >= count) | teaches[happened % count]].tolist() if count else []

        walltimes = [job.submission.walltime or 0 for job in self.jobs]
        self.walltime: NDArray[np.int64] = np.array(walltimes, np.int64)
        self.runtime: NDArray[np.int64] = np.fromiter((job.runtime for job in self.jobs), np.int64, count)
        self.scored: NDArray[np.bool_] = (self.runtime > 0) & (self.walltime > 0)

    def skipped(self) -> dict[str, int]:
        """How many jobs are not scored, by reason; one that has both reasons counts under the first."""
        reasons = Counter(NO_WALLTIME if job.ran else NEVER_RAN for job in self.jobs if not job.scored)
        return dict(sorted(reasons.items()))
