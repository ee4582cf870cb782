"""Derive the waiting and running jobs, and the jobs that left the server, from records of an accounting log.

Nearly every job in a part of a log has left the server by its end.  So records are first grouped by job, and only those
of the few remaining jobs are parsed.

The result does not depend on the division of a log into parts.  Of two records in the wrong order the one with the
later time counts.
"""

from collections.abc import Set
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from softwalltime.accounting import pbs_records
from softwalltime.accounting.conversions import epoch, walltime
from softwalltime.accounting.fields import attributes
from softwalltime.core.errors import RecordError
from softwalltime.core.jobs import UNSET, Alter, CurrentJob

COMES = frozenset({b";Q;", b";S;", b";R;"})
"""Records of a job that now waits (Q, and R after an interrupted run) or runs (S)."""
ALTERED = b";a;"
"""Record of an alter (qalter)."""
GOES = frozenset({b";D;", b";A;", b";M;"})
"""Records, besides E, after which a job has left the server: deleted, aborted, or moved to another server.

A job deleted while it runs ends some seconds later; it has no E record if its host is down.
"""
_EVENT_TIMES = {b";Q;": "qtime", b";S;": "start", b";R;": "end"}
"""Fields with the event's epoch time, by record type; the time stamp is local time, which is ambiguous."""
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
    Jobs from earlier parts: ``requeued`` wait again after an interrupted run, ``altered`` have new values; jobs in
    ``current`` have them already.  ``malformed``: required records that cannot be parsed, with their errors.
    """

    current: list[CurrentJob] = field(default_factory=list)
    removed: list[tuple[str, str]] = field(default_factory=list)
    requeued: list[tuple[str, str]] = field(default_factory=list)
    altered: list[Alter] = field(default_factory=list)
    malformed: list[tuple[Record, RecordError]] = field(default_factory=list)


@dataclass(slots=True)
class Changes:
    """The relevant records of each job in a part of a log, by the id in the log.

    They are the last complete record, or the one after which the job has left, and the records after it.
    """

    records: dict[bytes, list[Record]] = field(default_factory=dict)
    completed: set[bytes] = field(default_factory=set)
    """Jobs that completed in this part; their earlier records are not needed."""

    def note(self, job_id: bytes, record: Record) -> None:
        """Add a record that changes a job, or an E record without a completed job, such as that of a job array."""
        # TORQUE's Q record has only the queue: skip it, and wait for the S record.
        if record.kind != b";Q;" or _is_complete(record):
            self._follow(job_id, [record])

    def complete(self, job_ids: Set[bytes]) -> None:
        for job_id in self.records.keys() & job_ids:
            del self.records[job_id]
        self.completed |= job_ids

    def add(self, later: "Changes") -> None:
        self.complete(later.completed)
        for job_id, records in later.records.items():
            self._follow(job_id, records)

    def _follow(self, job_id: bytes, records: list[Record]) -> None:
        known = self.records.get(job_id)
        if known is None:
            self.records[job_id] = records
        elif _is_gone(records[0]) or _is_complete(records[0]):
            if _is_overtaken(records[0], known[0]):
                known += records[1:]
            else:
                self.records[job_id] = records
        elif not _is_gone(known[0]):
            known += records

    def outcome(self, server: str = "") -> ChangedJobs:
        """Return the changes of all parts.

        :param server: the PBS server's name; empty for the host part of the job ids.
        """
        outcome = ChangedJobs()
        for job_id, records in self.records.items():
            name = pbs_records.decoded(job_id)
            key = name, server or name.partition(".")[2]
            if _is_gone(records[0]):
                outcome.removed.append(key)
            else:
                _parse(key, records, server, outcome)
        return outcome


def _is_complete(record: Record) -> bool:
    """Return whether the record has all fields of the job, unlike an alter or TORQUE's R record."""
    return record.kind == b";S;" or (record.kind != ALTERED and b"user=" in record.line)


def _is_gone(record: Record) -> bool:
    return record.kind not in COMES and record.kind != ALTERED


def _is_overtaken(record: Record, known: Record) -> bool:
    """Return whether the record was written before the known one, although it is read after it.

    Records with equal times keep their order, except that a job is queued before it starts.
    """
    if known.kind == ALTERED or _is_gone(record):
        return False
    if _is_gone(known):
        return _by_year(record.line) < _by_year(known.line)
    written, before = event_time(record), event_time(known)
    if written is None or before is None:
        return False
    return written < before or (written == before and (record.kind, known.kind) == (b";Q;", b";S;"))


def event_time(record: Record) -> int | None:
    """Return when a job was queued, started or requeued by this record, epoch seconds; ``None``: unknown."""
    try:
        fields = attributes(pbs_records.split(record.line)[2])
        # ctime distinguishes a later job with the same number.
        return max(epoch(fields[_EVENT_TIMES[record.kind]]), epoch(fields.get("ctime", "0"))) or None
    except (RecordError, ValueError, KeyError):
        return None


def _by_year(line: bytes) -> bytes:
    """Return the time stamp ``MM/DD/YYYY HH:MM:SS`` as a sortable text."""
    return line[6:10] + line[:6] + line[10:19]


def _parse(key: tuple[str, str], records: list[Record], server: str, outcome: ChangedJobs) -> None:
    base = records[0] if _is_complete(records[0]) else None
    waits = any(record.kind != b";S;" for record in records if record.kind != ALTERED)
    altered: dict[str, str] = {}
    for record in records:
        if record.kind == ALTERED:
            try:
                altered |= _alters(record)
            except RecordError as error:
                outcome.malformed.append((record, error))
    if altered:
        # Also after a complete record: a stored record may be newer than it, and is then altered.
        outcome.altered.append(Alter(*key, *(_seconds(altered.get(name)) for name in _ALTERABLE)))
    if base is None:
        if waits:
            outcome.requeued.append(key)
        return
    try:
        _, job_id, message = pbs_records.split(base.line)
        fields = {**attributes(message), **altered}
        fields = {name: text for name, text in fields.items() if name not in _ALTERABLE or text != "UNSET"}
        current = pbs_records.current_job(job_id, fields, server, waits=waits)
        outcome.current.append(replace(current, recorded_at=event_time(base)))
    except RecordError as error:
        # The reader of completed jobs has reported a malformed R record already.
        if base.kind != b";R;":
            outcome.malformed.append((base, error))


def _alters(record: Record) -> dict[str, str]:
    """Return the stored fields that the record alters.

    :raises RecordError: if a value is not a duration.
    """
    fields = attributes(pbs_records.split(record.line)[2])
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
