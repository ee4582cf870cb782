"""Convert recorded jobs to the events of an emulated PBS server, in virtual time."""

import re
from calendar import timegm
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from time import strptime
from typing import NamedTuple

from softwalltime.accounting import pbs_records
from softwalltime.accounting.daily_files import blocks
from softwalltime.accounting.fields import attributes
from softwalltime.accounting.log_file import OpenFile, opened
from softwalltime.accounting.queue_changes import ALTERED, COMES, Record, event_time
from softwalltime.accounting.recognition import is_trace
from softwalltime.accounting.writer import as_pbs
from softwalltime.core.errors import RecordError, SourceError
from softwalltime.core.events import Kind
from softwalltime.core.jobs import DEFAULT_PROJECT, CompletedJob, Submission
from softwalltime.emulation.pbs.pbs_events import Site
from softwalltime.measure.replay.workload import Workload

HOST = "replay"
ORDERING = "predicted"
"""Resource for the ordering value, as the hook is shipped."""
AHEAD = 86_400
"""Seconds from now to the first submission; longer than any replay."""
NOBODY = "user-1"
"""User name for trace jobs with an unknown user; no trace has this name."""
_LAST = 253_402_300_799
"""The end of the year 9999, the last valid time stamp."""
_SUBJOB = re.compile(r"(\d+)\[(\d+)\](.*)", re.DOTALL)

_PREFIX = "Resource_List."
_QUARTER = 900
"""Time zones are off by whole quarters of an hour."""


class RecordedAlter(NamedTuple):
    """An alter of a job: time (epoch seconds) and new values of resources; ``""``: removed."""

    job_id: str
    time: int
    resources: dict[str, str]


class TimedEvent(NamedTuple):
    """An event of the emulated server: virtual time, kind, and submission, started job or alter."""

    time: int
    kind: Kind
    number: int


class TimelineAlter(NamedTuple):
    """An alter of a waiting job or array (``job`` is ``None``), or of a running job."""

    submission: int
    job: int | None
    resources: dict[str, str]


class Timeline:
    """All events of the jobs of a workload.

    ``jobs``: the workload's jobs in virtual time.  ``submissions``: single jobs and whole arrays; ``of_job``: the
    submission of each job; ``indices``: array indices by submission.  ``events`` are in order of time, ``ends`` are the
    jobs in the order in which they are learnt.

    Logs have a job's final request: here and in the fast replay, an altered job is submitted with its altered
    values.
    """

    def __init__(self, workload: Workload, alters: Iterable[RecordedAlter] = (), *, now: int) -> None:
        """Move what happens to a day after the true time ``now`` (epoch seconds)."""
        self.workload = workload
        self.submissions: list[Submission] = []
        self.of_job: list[int] = []
        self.indices: dict[int, str] = {}
        self.alters: list[TimelineAlter] = []
        self._shift = now + AHEAD - (workload.jobs[0].submission.submitted if workload.jobs else 0)
        self.jobs = self._submit(workload.jobs)
        self.ends = [self.jobs[number] for number in workload.ends().tolist()]
        events = [TimedEvent(job.submitted, Kind.SUBMITTED, number) for number, job in enumerate(self.submissions)]
        events += [
            TimedEvent(job.start, Kind.STARTED, number) for number, job in enumerate(self.jobs) if job.start is not None
        ]
        self.events = sorted([*events, *self._alters(alters)])
        if self.ends and max(self.ends[-1].end, self.events[-1].time) > _LAST:
            raise SourceError("the jobs lie too far apart in time: one of them must have a wrong date")
        self.site = Site(
            host=HOST,
            server={"default_queue": "workq"},
            queues={submission.queue: {"queue_type": "Execution"} for submission in self.submissions},
            resources={ORDERING: "pbs_int"},
        )

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
        """Return the job with this index in virtual time, with the attributes that PBS always sets."""
        job = as_pbs(self.workload.jobs[number], HOST)
        submission = replace(
            job.submission,
            user=job.submission.user or NOBODY,
            project=job.submission.project or DEFAULT_PROJECT,
            submitted=job.submission.submitted + self._shift,
        )
        return replace(
            job,
            submission=submission,
            start=None if job.start is None else int(self.workload.started[number]) + self._shift,
            end=int(self.workload.ended[number]) + self._shift,
            qtime=submission.submitted,
            etime=submission.submitted,
            soft_walltime=None,
        )

    def _alters(self, alters: Iterable[RecordedAlter]) -> Iterator[TimedEvent]:
        """Yield the alters of jobs that existed at that time; alters of an array refer to its submission."""
        named: dict[str, list[int]] = {}
        for number, job in enumerate(self.workload.jobs):
            named.setdefault(job.submission.job_id, []).append(number)
            if subjob := _SUBJOB.fullmatch(job.submission.job_id):
                named.setdefault(f"{subjob[1]}[]{subjob[3]}", []).append(number)
        for alter in alters:
            time = alter.time + self._shift
            there = [
                number
                for number in named.get(alter.job_id, ())
                if self.jobs[number].submission.submitted <= time <= self.jobs[number].end
            ]
            runs = [] if "[]" in alter.job_id else [number for number in there if self._runs(number, time)]
            waits = dict.fromkeys(self.of_job[number] for number in there if number not in runs)
            altered = [TimelineAlter(self.of_job[number], number, alter.resources) for number in runs]
            for timeline_alter in (*altered, *(TimelineAlter(number, None, alter.resources) for number in waits)):
                yield TimedEvent(time, Kind.ALTERED, len(self.alters))
                self.alters.append(timeline_alter)

    def _runs(self, number: int, time: int) -> bool:
        start = self.jobs[number].start
        return start is not None and start <= time


def read_alters(paths: Iterable[Path]) -> list[RecordedAlter]:
    """Return the alters in these logs, in their order; none in traces, nor in what cannot be read.

    Alters of the soft walltime alone are left out: a hook or a manager made them, and here the hook does.
    """
    alters: list[RecordedAlter] = []
    for path in paths:
        # The reader of the jobs has reported an unreadable log.
        with suppress(SourceError), opened(path) as file:
            if not is_trace(file):
                alters += _of_log(file)
    return alters


def _of_log(file: OpenFile) -> Iterator[RecordedAlter]:
    timed: Record | None = None
    waiting: list[bytes] = []
    for block in blocks(file.contents):
        if timed is None or ALTERED in block.content:
            for line in block.lines:
                kind = line[19:22]
                if kind in COMES:
                    timed = Record(kind, "", 0, 0, line)
                elif kind == ALTERED:
                    waiting.append(line)
                if timed is not None and waiting:
                    yield from _alters(waiting, timed)
                    waiting = []


def _alters(lines: list[bytes], timed: Record) -> Iterator[RecordedAlter]:
    """Return the alters in these records, with the time zone of another record, whose time is known."""
    for line in lines:
        with suppress(RecordError, ValueError):
            offset = (event_time(timed) or 0) - _stamp(timed.line)
            _, job_id, message = pbs_records.split(line)
            fields = attributes(message)
            soft = fields.pop(f"{_PREFIX}soft_walltime", None)
            resources = {name.removeprefix(_PREFIX): text for name, text in fields.items() if name.startswith(_PREFIX)}
            if fields or soft is None:
                yield RecordedAlter(job_id, _stamp(line) + round(offset / _QUARTER) * _QUARTER, resources)


def _stamp(line: bytes) -> int:
    """Return the time stamp of a record as if it were UTC."""
    return timegm(strptime(line[:19].decode(), "%m/%d/%Y %H:%M:%S"))
