"""Convert recorded jobs to the events of an emulated PBS server, in virtual time."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC
from typing import NamedTuple

from softwalltime.accounting.writer import as_pbs, record
from softwalltime.core.errors import SourceError
from softwalltime.core.events import Kind
from softwalltime.core.jobs import DEFAULT_PROJECT, CompletedJob, Submission
from softwalltime.emulation.pbs.pbs_events import Site
from softwalltime.measure.replay.workload import Workload

HOST = "replay"
ORDERING = "predicted"
"""Resource for the ordering value, as the hook is shipped."""
AHEAD = 86_400
"""Seconds from now to the first submission, at least; longer than any replay."""
WEEK = 604_800
NOBODY = "user-1"
"""User name for trace jobs with an unknown user; no trace has this name."""
_LAST = 253_402_300_799
"""The end of the year 9999, the last valid time stamp."""
_SUBJOB = re.compile(r"(\d+)\[(\d+)\].*", re.DOTALL)


def complete(job: CompletedJob) -> CompletedJob:
    """Return a job with the attributes that PBS always sets, of which traces lack some."""
    submission = job.submission
    return replace(
        job,
        submission=replace(
            as_pbs(job, HOST).submission,
            job_id=submission.job_id,
            user=submission.user or NOBODY,
            project=submission.project or DEFAULT_PROJECT,
        ),
    )


class TimedEvent(NamedTuple):
    """An event of the emulated server: virtual time, kind, and submission or started job."""

    time: int
    kind: Kind
    number: int


class Timeline:
    """All events of the jobs of a workload.

    ``jobs``: the workload's jobs in virtual time.  ``submissions``: single jobs and whole arrays; ``of_job``: the
    submission of each job; ``indices``: array indices by submission.  ``events`` are in order of time, ``ends`` are the
    jobs in the order in which they are learnt.

    Logs have a job's final request: here and in the fast replay, an altered job is submitted with its altered values.
    """

    def __init__(self, workload: Workload, *, now: int) -> None:
        """Move what happens by whole weeks to at least a day after the true time ``now`` (epoch seconds)."""
        self.workload = workload
        self.submissions: list[Submission] = []
        self.of_job: list[int] = []
        self.indices: dict[int, str] = {}
        shift = now + AHEAD - (workload.jobs[0].submission.submitted if workload.jobs else 0)
        # Whole weeks: a predictor may use the hour and the day of the week, or change something at midnight.
        self._shift = -(-shift // WEEK) * WEEK
        self.jobs = self._submit(workload.jobs)
        self.ends = [self.jobs[number] for number in workload.ends().tolist()]
        events = [TimedEvent(job.submitted, Kind.SUBMITTED, number) for number, job in enumerate(self.submissions)]
        events += [
            TimedEvent(job.start, Kind.STARTED, number) for number, job in enumerate(self.jobs) if job.start is not None
        ]
        self.events = sorted(events)
        if self.ends and max(self.ends[-1].end, self.events[-1].time) > _LAST:
            raise SourceError("the jobs lie too far apart in time: one of them must have a wrong date")
        self.site = Site(
            host=HOST,
            server={"default_queue": "workq"},
            queues={submission.queue: {"queue_type": "Execution"} for submission in self.submissions},
            resources={ORDERING: "pbs_int"},
        )

    def records(self) -> list[tuple[TimedEvent, str, str]]:
        """Return the records that PBS writes at all events and ends, in order: event, day of the log, line."""
        of_submission = {number: job for job, number in reversed([*zip(self.jobs, self.of_job, strict=True)])}
        written: list[tuple[TimedEvent, str, str]] = []
        for event in self.events:
            if event.kind is Kind.SUBMITTED:
                job, kind = replace(of_submission[event.number], submission=self.submissions[event.number]), "Q"
            else:
                job, kind = self.jobs[event.number], "S"
            written.append((event, *record(job, kind, event.time, UTC)))
        for number, job in enumerate(self.ends):
            written.append((TimedEvent(job.end, Kind.ENDED, number), *record(job, "E", job.end, UTC)))
        return sorted(written)

    def _submit(self, jobs: Sequence[CompletedJob]) -> list[CompletedJob]:
        """Return the jobs with new ids of this server, in virtual time."""
        arrays: dict[tuple[str, str, Submission], int] = {}
        indices: dict[int, list[int]] = {}
        alters = []
        for index, job in enumerate(jobs):
            moved = self._moved(index)
            subjob = _SUBJOB.fullmatch(job.submission.job_id)
            if subjob is None:
                number = len(self.submissions)
                moved = replace(moved, submission=replace(moved.submission, job_id=f"{number}.{HOST}"))
                self.submissions.append(moved.submission)
            else:
                # Altered subjobs differ from the others and form a separate array.
                alike = replace(moved.submission, job_id="")
                number = arrays.setdefault((job.server, subjob[1], alike), len(self.submissions))
                if number == len(self.submissions):
                    self.submissions.append(replace(alike, job_id=f"{number}[].{HOST}"))
                indices.setdefault(number, []).append(int(subjob[2]))
                moved = replace(moved, submission=replace(alike, job_id=f"{number}[{subjob[2]}].{HOST}"))
            self.of_job.append(number)
            alters.append(moved)
        self.indices = {number: ",".join(map(str, sorted(members))) for number, members in indices.items()}
        return alters

    def _moved(self, number: int) -> CompletedJob:
        """Return the job with this index in virtual time."""
        job = complete(self.workload.jobs[number])
        submission = replace(job.submission, submitted=job.submission.submitted + self._shift)
        return replace(
            job,
            server=HOST,
            submission=submission,
            start=None if job.start is None else int(self.workload.started[number]) + self._shift,
            end=int(self.workload.ended[number]) + self._shift,
            qtime=submission.submitted,
            etime=submission.submitted,
            soft_walltime=None,
        )
