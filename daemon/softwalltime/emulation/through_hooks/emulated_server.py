"""Emulated PBS server: fire the events of jobs, and keep each job's current values."""

import os
from dataclasses import replace
from pathlib import Path

from softwalltime.accounting.conversions import duration
from softwalltime.core.events import Kind
from softwalltime.core.jobs import Submission
from softwalltime.emulation.pbs.hook_runner import HookOutcome, HookScript
from softwalltime.emulation.pbs.pbs_events import Event, altered, postqueued, queued, started
from softwalltime.emulation.through_hooks.timeline import ORDERING, TimedEvent, Timeline

TIMEOUTS = "SOFTWALLTIME_HOOK_TIMEOUTS"
"""Environment variable with the hook's number of timeouts in a row."""


class EmulatedServer:
    """A new server with one hook.

    :param minimum: least soft walltime in seconds.
    """

    def __init__(self, timeline: Timeline, script: HookScript, minimum: int) -> None:
        self.events = self.accepted = self.invalid = self.unanswered = self.timeouts = 0
        self.at_submission: list[int | None] = [None] * len(timeline.submissions)
        """The soft walltime of each submission in seconds."""
        self.at_start: list[int | None] = [None] * len(timeline.jobs)
        """The soft walltime of each job after its start in seconds."""
        self.ordering: list[int | None] = [None] * len(timeline.submissions)
        """The ordering value of each submission in seconds."""
        self._timeline = timeline
        self._script = script
        self._minimum = minimum
        # The current requests and soft walltimes of waiting submissions and of running jobs.
        self._waiting = list(timeline.submissions)
        self._soft: list[int | None] = [None] * len(timeline.submissions)
        self._ordering: list[int | None] = [None] * len(timeline.submissions)
        self._running: dict[int, tuple[Submission, int | None]] = {}
        # Other running jobs have no further alters.
        self._altered_later = {alter.job for alter in timeline.alters}

    def handle(self, event: TimedEvent, configuration: Path) -> None:
        """Run the hook for all events that PBS fires, with this configuration of the hook."""
        match event.kind:
            case Kind.SUBMITTED:
                self._submit(event.number, configuration)
            case Kind.STARTED:
                self._start(event.number, event.time, configuration)
            case Kind.ALTERED:
                self._alter(event.number, event.time, configuration)

    def _submit(self, number: int, configuration: Path) -> None:
        submission, site = self._waiting[number], self._timeline.site
        event = queued(submission, site=site, array_indices=self._timeline.indices.get(number, ""))
        outcome = self._fire(event, submission, configuration)
        ordering = _ordering(outcome, None)
        if site.postqueuejob:
            own = _own(ordering)
            event = postqueued(submission, site=site, soft_walltime=outcome.soft_walltime, own=own)
            outcome = self._fire(event, submission, configuration)
            ordering = _ordering(outcome, ordering)
        self.at_submission[number] = self._soft[number] = outcome.soft_walltime
        self.ordering[number] = self._ordering[number] = ordering

    def _start(self, number: int, now: int, configuration: Path) -> None:
        submitted_as = self._timeline.of_job[number]
        submission = self._waiting[submitted_as]
        if submitted_as in self._timeline.indices:
            submission = replace(submission, job_id=self._timeline.jobs[number].submission.job_id)
        event = started(
            submission,
            site=self._timeline.site,
            now=now,
            soft_walltime=self._soft[submitted_as],
            own=_own(self._ordering[submitted_as]),
        )
        self.at_start[number] = soft = self._fire(event, submission, configuration).soft_walltime
        if number in self._altered_later:
            self._running[number] = submission, soft

    def _alter(self, number: int, now: int, configuration: Path) -> None:
        alter = self._timeline.alters[number]
        if alter.job is None:
            submission, soft = self._waiting[alter.submission], self._soft[alter.submission]
        else:
            submission, soft = self._running[alter.job]
        event = altered(
            submission,
            alter.resources,
            site=self._timeline.site,
            now=now,
            soft_walltime=soft,
            state="Q" if alter.job is None else "R",
            own=_own(self._ordering[alter.submission]),
        )
        new = _altered(submission, alter.resources)
        outcome = self._fire(event, new, configuration)
        if not outcome.accepted:
            return
        if alter.job is None:
            self._waiting[alter.submission], self._soft[alter.submission] = new, outcome.soft_walltime
            self._ordering[alter.submission] = _ordering(outcome, self._ordering[alter.submission])
        else:
            self._running[alter.job] = new, outcome.soft_walltime

    def _fire(self, event: Event, submission: Submission, configuration: Path) -> HookOutcome:
        """Run the hook for an event; afterwards the job has the values of the submission."""
        before = os.environ.get(TIMEOUTS, "")
        outcome = self._script.run(event, configuration)
        self.events += 1
        self.accepted += outcome.accepted and outcome.hook_accepted and not outcome.error
        soft = outcome.soft_walltime
        ordering = _ordering(outcome, None)
        ordered = ordering is None or 0 < ordering <= (submission.walltime or 0)
        if not ordered or (soft is not None and not self._valid(soft, submission)):
            self.invalid += 1
        # The hook logs errors only.
        self.unanswered += len(outcome.log)
        # The hook writes this variable at each time-out, and removes it at any other end.
        self.timeouts += os.environ.get(TIMEOUTS, "") not in ("", before)
        return outcome

    def _valid(self, soft: int, submission: Submission) -> bool:
        walltime = submission.walltime
        return walltime is not None and not submission.shrink_to_fit and self._minimum <= soft <= walltime


def _own(ordering: int | None) -> dict[str, str]:
    """Return the resources of the site's own that a job with this ordering value has."""
    return {} if ordering is None else {ORDERING: str(ordering)}


def _ordering(outcome: HookOutcome, before: int | None) -> int | None:
    """Return the ordering value of the job after the hook; ``before`` is the one that it had."""
    value = outcome.resources.get(ORDERING)
    return before if value is None else int(value)


def _altered(submission: Submission, resources: dict[str, str]) -> Submission:
    """Return the job after an alter of walltime or soft walltime."""

    def limit(name: str, before: int | None) -> int | None:
        text = resources.get(name)
        return before if text is None else duration(text) if text else None

    return replace(
        submission,
        walltime=limit("walltime", submission.walltime),
        min_walltime=limit("min_walltime", submission.min_walltime),
        max_walltime=limit("max_walltime", submission.max_walltime),
    )
