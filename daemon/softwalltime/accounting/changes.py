"""Find the jobs that wait or run, and the jobs that left the server, from the records of an accounting log.

Nearly every job in a part of a log has left the server at the end of that part.  So the records are only grouped by job
first.  Only the records of the few jobs that remain are parsed, at the end of the part.

The result does not depend on how a log is divided into parts.
"""

from collections.abc import Set
from dataclasses import dataclass, field
from typing import NamedTuple

from softwalltime.accounting import pbs
from softwalltime.accounting.fields import attributes
from softwalltime.accounting.values import walltime
from softwalltime.errors import RecordError
from softwalltime.jobs import UNSET, Alter, CurrentJob

COMES = frozenset({b";Q;", b";S;", b";R;"})
"""Records of a job that now waits (Q, and R after an interrupted run) or runs (S)."""
ALTERED = b";a;"
"""Record of an alter (qalter)."""
GOES = frozenset({b";D;", b";A;", b";M;"})
"""Records after which a job is not on the server any more, besides E: deleted, aborted, or moved to another server.

A job that is deleted while it runs continues for some seconds.  It has no E record if its host is down.
"""
_ALTERABLE = ("Resource_List.walltime", "Resource_List.soft_walltime")


class Record(NamedTuple):
    """A line of a log, its type between semicolons, and its position (``offset`` in bytes, ``number`` from 1)."""

    kind: bytes
    path: str
    number: int
    offset: int
    line: bytes


@dataclass(slots=True)
class ChangedJobs:
    """Changes in a part of a log: jobs on the server at its end, and jobs that left it (id and server).

    Completed jobs are in neither list: their E records already show that they ended.
    For jobs from earlier parts: ``requeued`` wait again after an interrupted run, ``altered`` were altered.
    ``malformed`` are the required records that cannot be read, each with its error.
    """

    current: list[CurrentJob] = field(default_factory=list)
    removed: list[tuple[str, str]] = field(default_factory=list)
    requeued: list[tuple[str, str]] = field(default_factory=list)
    altered: list[Alter] = field(default_factory=list)
    malformed: list[tuple[Record, RecordError]] = field(default_factory=list)


@dataclass(slots=True)
class Changes:
    """The relevant records of each job in a part of a log, by the id in the log; ``None``: the job left the server.

    They are the last complete record, if there is one, and the records after it.
    """

    records: dict[bytes, list[Record] | None] = field(default_factory=dict)
    completed: set[bytes] = field(default_factory=set)
    """Jobs that completed in this part; their earlier records are not needed."""

    def note(self, job_id: bytes, record: Record) -> None:
        """Add a record of a type in ``COMES`` or ``ALTERED``."""
        # TORQUE's Q record has only the queue: a job is unknown until its S record.
        if record.kind != b";Q;" or _is_complete(record):
            self._follow(job_id, [record])

    def remove(self, job_id: bytes) -> None:
        """Add a record of a type in ``GOES``, or an E record without a completed job, such as that of a job array."""
        self.records[job_id] = None

    def complete(self, job_ids: Set[bytes]) -> None:
        """Add the E records of completed jobs."""
        for job_id in self.records.keys() & job_ids:
            del self.records[job_id]
        self.completed |= job_ids

    def add(self, later: "Changes") -> None:
        """Add the next part of the log."""
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
        """Return the changes of all parts.

        :param server: the PBS server's name; empty for the host part of the job ids.
        """
        outcome = ChangedJobs()
        for job_id, records in self.records.items():
            name = pbs.decoded(job_id)
            key = name, server or name.partition(".")[2]
            if records is None:
                outcome.removed.append(key)
            else:
                _parse(key, records, server, outcome)
        return outcome


def _is_complete(record: Record) -> bool:
    """Return whether the record has all fields of the job: an alter has not, nor has TORQUE's R record."""
    return record.kind == b";S;" or (record.kind != ALTERED and b"user=" in record.line)


def _parse(key: tuple[str, str], records: list[Record], server: str, outcome: ChangedJobs) -> None:
    """Parse the records of one job and add the result to ``outcome``."""
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
        fields = {**attributes(message), **altered}
        fields = {name: text for name, text in fields.items() if name not in _ALTERABLE or text != "UNSET"}
        outcome.current.append(pbs.current_job(job_id, fields, server, waits=waits))
    except RecordError as error:
        # The reader of completed jobs has reported a malformed R record already.
        if base.kind != b";R;":
            outcome.malformed.append((base, error))


def _alters(record: Record) -> dict[str, str]:
    """Return the stored fields that the record alters.

    :raises RecordError: if a value is not a duration.
    """
    fields = attributes(pbs.split(record.line)[2])
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
    return UNSET if text == "UNSET" else walltime(text)
