"""Waiting, running and ended jobs, from the records of an accounting log.

Nearly all jobs in a part of a log have ended by the end of that part.  Records are therefore only grouped by job;
those of the few remaining jobs are parsed at the end of the part.

The result does not depend on how a log is divided into parts.
"""

from collections.abc import Set
from dataclasses import dataclass, field
from typing import NamedTuple

from softwalltime.accounting import pbs
from softwalltime.accounting.values import duration
from softwalltime.errors import RecordError
from softwalltime.jobs import UNSET, Alter, CurrentJob

COMES = frozenset({b";Q;", b";S;", b";R;"})
"""Records of a job that now waits (Q, and R after an interrupted run) or runs (S)."""
ALTERED = b";a;"
"""A record of an alter."""
GOES = frozenset({b";D;", b";A;", b";M;"})
"""Records after which a job is no longer there, beside E: it was deleted, was aborted or moved to another server.

A job that is deleted while it runs has some seconds left then, but not always a record of its end: it has none where
its host is gone.
"""
_ALTERABLE = ("Resource_List.walltime", "Resource_List.soft_walltime")


class Record(NamedTuple):
    """A line of a log: its type between semicolons, its place (``offset`` in bytes, ``number`` from 1), and itself."""

    kind: bytes
    path: str
    number: int
    offset: int
    line: bytes


@dataclass(slots=True)
class ChangedJobs:
    """Result of a part of a log: jobs that wait or run at its end (``there``), and jobs that are ``gone`` (id, server).

    Completed jobs are not among them: they are stored as such.
    Of jobs from earlier parts: ``requeued`` wait again after an interrupted run, ``altered`` were altered.
    ``malformed`` are records that were needed for it and cannot be read, each with its error.
    """

    there: list[CurrentJob] = field(default_factory=list)
    gone: list[tuple[str, str]] = field(default_factory=list)
    requeued: list[tuple[str, str]] = field(default_factory=list)
    altered: list[Alter] = field(default_factory=list)
    malformed: list[tuple[Record, RecordError]] = field(default_factory=list)


@dataclass(slots=True)
class Changes:
    """The relevant records of each job in a part of a log, by the id in the log; ``None``: the job is gone.

    These are the last complete record, if there is one, and those after it.
    """

    records: dict[bytes, list[Record] | None] = field(default_factory=dict)
    completed: set[bytes] = field(default_factory=set)
    """Jobs that completed in this part; their earlier records are not needed."""

    def note(self, job_id: bytes, record: Record) -> None:
        """Add a record of ``COMES`` or ``ALTERED``."""
        # TORQUE's Q names only the queue: nothing is known of a job before its S.
        if record.kind != b";Q;" or _is_complete(record):
            self._follow(job_id, [record])

    def gone(self, job_id: bytes) -> None:
        """Add a record of ``GOES``, or an E that is not of a completed job, such as a whole array's."""
        self.records[job_id] = None

    def complete(self, job_ids: Set[bytes]) -> None:
        """Add the E records of completed jobs, which may be many thousands."""
        for job_id in self.records.keys() & job_ids:
            del self.records[job_id]
        self.completed |= job_ids

    def add(self, later: "Changes") -> None:
        """Take in the piece that follows."""
        self.complete(later.completed)
        for job_id, records in later.records.items():
            if records is None:
                self.records[job_id] = None
            else:
                self._follow(job_id, records)

    def _follow(self, job_id: bytes, records: list[Record]) -> None:
        if _is_complete(records[0]) or job_id not in self.records:
            self.records[job_id] = records
        elif known := self.records[job_id]:
            known += records

    def outcome(self, server: str = "") -> ChangedJobs:
        """What all this comes to.

        :param server: the server's name where the host parts of the ids shall not count.
        """
        outcome = ChangedJobs()
        for job_id, records in self.records.items():
            name = pbs.decoded(job_id)
            key = name, server or name.partition(".")[2]
            if records is None:
                outcome.gone.append(key)
            else:
                _settle(key, records, server, outcome)
        return outcome


def _is_complete(record: Record) -> bool:
    """Whether the record has all fields of the job: TORQUE's R has only its id, and an alter only the change."""
    return record.kind == b";S;" or (record.kind != ALTERED and b"user=" in record.line)


def _settle(key: tuple[str, str], records: list[Record], server: str, outcome: ChangedJobs) -> None:
    """Add the result of one job's records."""
    base = records[0] if _is_complete(records[0]) else None
    waits = any(record.kind != b";S;" for record in records if record.kind != ALTERED)
    altered: dict[str, str] = {}
    for record in records:
        if record.kind == ALTERED:
            try:
                altered |= _alters(record)
            except RecordError as error:
                outcome.malformed.append((record, error))
    if base is None:
        if waits:
            outcome.requeued.append(key)
        if altered:
            outcome.altered.append(Alter(*key, *(_seconds(altered.get(name)) for name in _ALTERABLE)))
        return
    try:
        _, job_id, message = pbs.split(base.line)
        fields = {**pbs.attributes(message), **altered}
        fields = {name: text for name, text in fields.items() if name not in _ALTERABLE or text != "UNSET"}
        outcome.there.append(pbs.current_job(job_id, fields, server, waits=waits))
    except RecordError as error:
        # Who reads the completed jobs has said what is wrong with an R.
        if base.kind != b";R;":
            outcome.malformed.append((base, error))


def _alters(record: Record) -> dict[str, str]:
    """What the record alters of what is kept of a job.

    :raises RecordError: if that is no duration.
    """
    fields = pbs.attributes(pbs.split(record.line)[2])
    altered = {name: fields[name] for name in _ALTERABLE if name in fields}
    for name, text in altered.items():
        try:
            _seconds(text)
        except ValueError as error:
            raise RecordError(str(error), field=name, value=text) from None
    return altered


def _seconds(text: str | None) -> int | None:
    if text is None:
        return None
    return UNSET if text == "UNSET" else duration(text)
