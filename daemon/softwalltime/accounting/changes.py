"""Which jobs came to wait or to run, and which are gone, by the records of an accounting log.

Nearly every job that a piece of a log tells of is also gone at its end.  So the records are only put together by job
here, as they are; those of the few that are still there are read when the piece is over.

What comes out does not depend on where a log is cut into pieces.
"""

from collections.abc import Set
from dataclasses import dataclass, field
from typing import NamedTuple

from softwalltime.accounting import pbs
from softwalltime.accounting.values import duration
from softwalltime.errors import RecordError
from softwalltime.jobs import UNSET, Alter, CurrentJob

COMES = frozenset({b";Q;", b";S;", b";R;"})
"""Records of a job that now waits (Q, and R after a run in vain) or runs (S)."""
ALTERED = b";a;"
"""A record that tells what was altered."""
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
    """What a piece of a log comes to: jobs that are there at its end, and those that are gone (id and server).

    Those that completed are not among them, because completed jobs tell it themselves.
    Of jobs that came before it: ``requeued`` wait again after a run in vain, ``altered`` were altered.
    ``malformed`` are records that were needed for it and cannot be read, each with its error.
    """

    there: list[CurrentJob] = field(default_factory=list)
    gone: list[tuple[str, str]] = field(default_factory=list)
    requeued: list[tuple[str, str]] = field(default_factory=list)
    altered: list[Alter] = field(default_factory=list)
    malformed: list[tuple[Record, RecordError]] = field(default_factory=list)


@dataclass(slots=True)
class Changes:
    """The records that count of each job in a piece of a log, by its id as it stands there; ``None``: it is gone.

    They are the last one that tells all of it, if there is one, and those that followed.
    """

    records: dict[bytes, list[Record] | None] = field(default_factory=dict)
    completed: set[bytes] = field(default_factory=set)
    """Jobs of which nothing before is of any use, since they completed in it."""

    def note(self, job_id: bytes, record: Record) -> None:
        """Take in one of ``COMES`` or ``ALTERED``."""
        # TORQUE's Q names only the queue: nothing is known of a job before its S.
        if record.kind != b";Q;" or _tells_all(record):
            self._follow(job_id, [record])

    def gone(self, job_id: bytes) -> None:
        """Take in one of ``GOES``, or an E that tells of no completed job, such as a whole array's."""
        self.records[job_id] = None

    def complete(self, job_ids: Set[bytes]) -> None:
        """Take in the E records of completed jobs, which may be many thousands."""
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
        if _tells_all(records[0]) or job_id not in self.records:
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


def _tells_all(record: Record) -> bool:
    """Whether it tells all of the job: TORQUE's R tells only that there was one, no alter does."""
    return record.kind == b";S;" or (record.kind != ALTERED and b"user=" in record.line)


def _settle(key: tuple[str, str], records: list[Record], server: str, outcome: ChangedJobs) -> None:
    """What these records of one job come to."""
    base = records[0] if _tells_all(records[0]) else None
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
