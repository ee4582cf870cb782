"""Recorded jobs as the life of an emulated PBS server, in virtual time."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple

from softwalltime.accounting.writer import as_pbs
from softwalltime.emulation.pbs.events import Site
from softwalltime.emulation.through_hooks.alters import RecordedAlter
from softwalltime.errors import SourceError
from softwalltime.jobs import DEFAULT_PROJECT, CompletedJob, Submission
from softwalltime.replay.workload import Workload

HOST = "replay"
AHEAD = 86_400
"""Seconds from now to the first submission: more than a replay takes."""
NOBODY = "user-1"
"""The user of a trace's job whose user is not known; no trace has one of this name."""
_LAST = 253_402_300_799
"""The end of the year 9999: no time stamp can be written after it."""
_SUBJOB = re.compile(r"(\d+)\[(\d+)\](.*)", re.DOTALL)


class Kind(IntEnum):
    """What happens, in the order in which it does at one instant; ends come first of all."""

    SUBMITTED = 1
    ALTERED = 2
    STARTED = 3


class Happening(NamedTuple):
    """What fires events: when (virtual time), what, and to which submission, start (a job) or alter."""

    time: int
    kind: Kind
    number: int


@dataclass(frozen=True, slots=True)
class Alter:
    """An alter of what waits, a job or a whole array (``job`` is ``None``), or of a running job."""

    submission: int
    job: int | None
    resources: dict[str, str]


class Timeline:
    """All that happens to the jobs of a workload.

    ``jobs`` are the workload's as they are here, ``submissions`` what users submitted, arrays whole; ``of_job`` says
    for each job which of them it came from, ``indices`` which indices those have that are arrays.  ``happenings`` are
    in their order, ``ends`` the jobs in the order in which they are learnt.

    Logs say of a job what it asked for in the end: an altered job is submitted, here and in the fast replay, with what
    its alters made of it.
    """

    def __init__(
        self, workload: Workload, alters: Iterable[RecordedAlter] = (), *, now: int, postqueuejob: bool = True
    ) -> None:
        """
        :param now: the true time; what happens is moved to a day after it.
        :param postqueuejob: whether the server has that event.
        """
        self.workload = workload
        self.submissions: list[Submission] = []
        self.of_job: list[int] = []
        self.indices: dict[int, str] = {}
        self.alters: list[Alter] = []
        self._shift = now + AHEAD - (workload.jobs[0].submission.submitted if workload.jobs else 0)
        self.jobs = self._submit(workload.jobs)
        count = len(self.jobs)
        # The workload's order is that of learning; the sort leaves it, and puts what teaches nothing in its place.
        learnt = [event for event in workload.order if event < count]
        others = sorted(set(range(count)).difference(learnt))
        self.ends = sorted((self.jobs[number] for number in learnt + others), key=lambda job: job.end)
        self.happenings = sorted([*self._submissions(), *self._starts(), *self._alters(alters)])
        if self.ends and max(self.ends[-1].end, self.happenings[-1].time) > _LAST:
            raise SourceError("the jobs lie too far apart in time: one of them must have a wrong date")
        self.site = Site(
            host=HOST,
            server={"default_queue": "workq"},
            queues={submission.queue: {"queue_type": "Execution"} for submission in self.submissions},
            postqueuejob=postqueuejob,
        )

    def _submit(self, jobs: Sequence[CompletedJob]) -> list[CompletedJob]:
        """The jobs as those of this server, in virtual time, with ids of its own."""
        arrays: dict[tuple[str, str, Submission], int] = {}
        indices: dict[int, list[int]] = {}
        found = []
        for job in jobs:
            moved = self._moved(job)
            subjob = _SUBJOB.fullmatch(job.submission.job_id)
            if subjob is None:
                number = len(self.submissions)
                moved = replace(moved, submission=replace(moved.submission, job_id=f"{number}.{HOST}"))
                self.submissions.append(moved.submission)
            else:
                # Subjobs that were altered are no longer like the others, and count as an array of their own.
                alike = replace(moved.submission, job_id="")
                number = arrays.setdefault((job.server, subjob[1], alike), len(self.submissions))
                if number == len(self.submissions):
                    self.submissions.append(replace(alike, job_id=f"{number}[].{HOST}"))
                indices.setdefault(number, []).append(int(subjob[2]))
                moved = replace(moved, submission=replace(alike, job_id=f"{number}[{subjob[2]}].{HOST}"))
            self.of_job.append(number)
            found.append(moved)
        self.indices = {number: ",".join(map(str, sorted(members))) for number, members in indices.items()}
        return found

    def _moved(self, job: CompletedJob) -> CompletedJob:
        """The job in virtual time, with what PBS always has."""
        job = as_pbs(job, HOST)
        submission = replace(
            job.submission,
            user=job.submission.user or NOBODY,
            project=job.submission.project or DEFAULT_PROJECT,
            submitted=job.submission.submitted + self._shift,
        )
        return replace(
            job,
            submission=submission,
            start=None if job.start is None else self._later(job.start, submission.submitted),
            # As in the workload: who ends before being submitted must not teach what is then asked.
            end=self._later(job.end, submission.submitted + 1),
            qtime=submission.submitted,
            etime=submission.submitted,
            soft_walltime=None,
        )

    def _later(self, time: int, least: int) -> int:
        return max(time + self._shift, least)

    def _submissions(self) -> list[Happening]:
        return [
            Happening(submission.submitted, Kind.SUBMITTED, number)
            for number, submission in enumerate(self.submissions)
        ]

    def _starts(self) -> list[Happening]:
        return [
            Happening(job.start, Kind.STARTED, number) for number, job in enumerate(self.jobs) if job.start is not None
        ]

    def _alters(self, alters: Iterable[RecordedAlter]) -> list[Happening]:
        """The alters of jobs that were there at that time; an array's are those of what it was submitted as."""
        named: dict[str, list[int]] = {}
        for number, job in enumerate(self.workload.jobs):
            named.setdefault(job.submission.job_id, []).append(number)
            if subjob := _SUBJOB.fullmatch(job.submission.job_id):
                named.setdefault(f"{subjob[1]}[]{subjob[3]}", []).append(number)
        found = []
        for alter in alters:
            time = alter.time + self._shift
            there = [
                number
                for number in named.get(alter.job_id, ())
                if self.jobs[number].submission.submitted <= time <= self.jobs[number].end
            ]
            runs = [] if "[]" in alter.job_id else [number for number in there if self._runs(number, time)]
            waits = dict.fromkeys(self.of_job[number] for number in there if number not in runs)
            altered = [Alter(self.of_job[number], number, alter.resources) for number in runs]
            altered += [Alter(number, None, alter.resources) for number in waits]
            for each in altered:
                found.append(Happening(time, Kind.ALTERED, len(self.alters)))
                self.alters.append(each)
        return found

    def _runs(self, number: int, time: int) -> bool:
        start = self.jobs[number].start
        return start is not None and start <= time
