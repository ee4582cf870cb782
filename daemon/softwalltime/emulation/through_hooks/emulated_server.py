"""Emulated PBS server: fire the events of jobs, and keep each job's current values."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

from softwalltime.core.events import Kind
from softwalltime.core.jobs import Submission
from softwalltime.emulation.pbs.hook_runner import HookScript
from softwalltime.emulation.pbs.pbs_events import Event, postqueued, queued, started
from softwalltime.emulation.through_hooks.timeline import ORDERING, TimedEvent, Timeline

TIMEOUTS = "SOFTWALLTIME_HOOK_TIMEOUTS"
"""Environment variable with the hook's number of timeouts in a row."""


@dataclass(slots=True)
class _Job:
    """Current request, soft walltime and ordering value (seconds) of a submission or a starting job."""

    submission: Submission
    soft: int | None = None
    ordering: int | None = None

    @property
    def own(self) -> dict[str, str]:
        """The custom resources that it has."""
        return {} if self.ordering is None else {ORDERING: str(self.ordering)}


@dataclass(slots=True)
class EventCounts:
    """Number of events that were fired, and of those that passed, that left the job with a value which PBS must not be
    given, that got no answer, and that got none within the deadline.
    """

    events: int = 0
    accepted: int = 0
    invalid: int = 0
    unanswered: int = 0
    timeouts: int = 0


class EmulatedServer:
    """A new server with one hook.

    :param minimum: least soft walltime in seconds.
    """

    def __init__(self, timeline: Timeline, script: HookScript, minimum: int) -> None:
        self.counts = EventCounts()
        self.at_submission: list[int | None] = [None] * len(timeline.submissions)
        """The soft walltime of each submission in seconds."""
        self.at_start: list[int | None] = [None] * len(timeline.jobs)
        """The soft walltime of each job after its start in seconds."""
        self.ordering: list[int | None] = [None] * len(timeline.submissions)
        """The ordering value of each submission in seconds."""
        self._timeline = timeline
        self._script = script
        self._minimum = minimum
        self._waiting = [_Job(submission) for submission in timeline.submissions]

    def handle(self, event: TimedEvent, configuration: Path) -> None:
        """Run the hook for all events that PBS fires, with this configuration of the hook."""
        if event.kind is Kind.SUBMITTED:
            self._submit(event.number, configuration)
        else:
            self._start(event.number, event.time, configuration)

    def _submit(self, number: int, configuration: Path) -> None:
        job, site = self._waiting[number], self._timeline.site
        indices = self._timeline.indices.get(number, "")
        self._fire(queued(job.submission, site=site, array_indices=indices), job, configuration)
        if site.postqueuejob:
            event = postqueued(job.submission, site=site, soft_walltime=job.soft, own=job.own)
            self._fire(event, job, configuration)
        self.at_submission[number], self.ordering[number] = job.soft, job.ordering

    def _start(self, number: int, now: int, configuration: Path) -> None:
        submitted_as = self._timeline.of_job[number]
        job = replace(self._waiting[submitted_as])
        if submitted_as in self._timeline.indices:
            job.submission = replace(job.submission, job_id=self._timeline.jobs[number].submission.job_id)
        event = started(job.submission, site=self._timeline.site, now=now, soft_walltime=job.soft, own=job.own)
        self._fire(event, job, configuration)
        self.at_start[number] = job.soft

    def _fire(self, event: Event, job: _Job, configuration: Path) -> None:
        """Run the hook for an event and set the job's values after it."""
        counts, before = self.counts, os.environ.get(TIMEOUTS, "")
        outcome = self._script.run(event, configuration)
        walltime, soft, ordering = job.submission.walltime or 0, outcome.soft_walltime, outcome.resources.get(ORDERING)
        counts.events += 1
        counts.accepted += outcome.accepted and outcome.hook_accepted and not outcome.error
        valid = soft is None or (not job.submission.shrink_to_fit and self._minimum <= soft <= walltime)
        counts.invalid += not (valid and (ordering is None or 0 < int(ordering) <= walltime))
        # The hook logs errors only.
        counts.unanswered += len(outcome.log)
        # The hook writes this variable at each time-out, and removes it at any other end.
        counts.timeouts += os.environ.get(TIMEOUTS, "") not in ("", before)
        job.soft = soft
        if ordering is not None:
            job.ordering = int(ordering)
