"""What hook and daemon say to each other: one JSON object on one line each way, version 1 (see hooks/README.md).

A request is read into typed values here, at the edge; what does not fit is refused with a sentence that names the
field.  Unknown fields are ignored, so that a newer hook can talk to an older daemon.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from softwalltime.accounting.values import size
from softwalltime.errors import SoftwalltimeError
from softwalltime.jobs import Submission

VERSION = 1
LONGEST = 65536
"""Bytes of one line, its line end included."""
OPERATIONS = ("predict", "explain", "status", "ping")
EVENTS = ("queuejob", "postqueuejob", "modifyjob", "runjob")
_HOOKS_NUMBERS = ("now", "timeouts", "previous_us")
LONGEST_TEXT = 600
"""Characters of a job's text: PBS allows 255 or less for most, and a row of a PostgreSQL index has 2,704 bytes."""
_UNBOUNDED = frozenset(("select", "place"))
"""Texts that may be as long as the line: a selection of many chunks is, and no index holds them."""
_TEXTS = ("job_id", "user", "group", "project", "account", "job_name", "queue", "select", "place")
_NUMBERS = (
    "submitted", "walltime", "soft_walltime", "min_walltime", "max_walltime", "ncpus", "nodect", "ngpus",
)  # fmt: skip
_LARGEST = 10**12
_MOST = 2**31 - 1
# Made once: json.dumps makes an encoder for every call that wants no blanks.
_DECODE = json.JSONDecoder().decode
_ENCODE = json.JSONEncoder(separators=(",", ":")).encode


class ProtocolError(SoftwalltimeError):
    """A request that cannot be answered; the message is sent back."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request: what is asked, on which event, at what time (epoch seconds), for which job.

    ``now`` is 0 where the client leaves the time to the daemon; ``job`` is ``None`` for status and ping;
    ``soft_walltime`` is the one that the job has already; ``timeouts`` and ``exchange_before`` are the hook's, as in
    :class:`softwalltime.jobs.DecisionRecord`.
    """

    operation: str
    event: str = "queuejob"
    now: int = 0
    job: Submission | None = None
    soft_walltime: int | None = None
    timeouts: int = 0
    exchange_before: int | None = None


def read_request(line: bytes) -> Request:
    """A request from the line that came in.

    :raises ProtocolError: says which field is wrong.
    """
    if len(line) >= LONGEST:
        raise ProtocolError(f"the request is longer than {LONGEST} bytes")
    try:
        document = _DECODE(line.decode("utf-8"))
    except (ValueError, RecursionError):
        raise ProtocolError("the request is not JSON") from None
    if not isinstance(document, dict):
        raise ProtocolError("the request is not a JSON object")
    version = document.get("v")
    if version != VERSION:
        raise ProtocolError(f"version {version!r} of the protocol is not spoken here; version {VERSION} is")
    operation = document.get("op")
    if operation not in OPERATIONS:
        raise ProtocolError(f"op: one of {', '.join(OPERATIONS)} is expected")
    if operation in ("status", "ping"):
        return Request(operation)
    event = document.get("event", "queuejob")
    if event not in EVENTS:
        raise ProtocolError(f"event: one of {', '.join(EVENTS)} is expected")
    job = document.get("job")
    if not isinstance(job, dict):
        raise ProtocolError("job: an object is expected")
    now, timeouts, exchange = _numbers(document, _HOOKS_NUMBERS)
    submission, soft_walltime = _submission(job, now or 0)
    return Request(
        operation,
        event,
        now or 0,
        submission,
        soft_walltime,
        min(timeouts or 0, _MOST),
        min(exchange, _MOST) if exchange else exchange,
    )


def _submission(job: dict[str, Any], now: int) -> tuple[Submission, int | None]:
    """The job, and the soft walltime that it has."""
    job_id, user, group, project, account, job_name, queue, select, place = _texts(job, _TEXTS)
    submitted, walltime, soft_walltime, min_walltime, max_walltime, ncpus, nodect, ngpus = _numbers(job, _NUMBERS)
    if not user:
        raise ProtocolError("job.user is missing")
    interactive = job.get("interactive")
    submission = Submission(
        job_id,
        user,
        submitted or now,
        walltime,
        group,
        project,
        account,
        job_name,
        queue,
        min_walltime,
        max_walltime,
        ncpus,
        nodect,
        ngpus,
        _size(job, "mem"),
        select,
        place,
        interactive if isinstance(interactive, bool) else None,
    )
    return submission, soft_walltime


# One loop each, not a call for each field: between two questions other programs have the processor's caches, and what
# counts then is how much code there is to fetch again.
def _texts(fields: dict[str, Any], names: Sequence[str]) -> list[str]:
    values = []
    for name in names:
        value = fields.get(name)
        if value is None:
            value = ""
        elif not isinstance(value, str):
            raise ProtocolError(f"{name}: a text is expected")
        elif len(value) > LONGEST_TEXT and name not in _UNBOUNDED:
            raise ProtocolError(f"{name}: longer than {LONGEST_TEXT} characters")
        values.append(value)
    return values


def _numbers(fields: dict[str, Any], names: Sequence[str]) -> list[int | None]:
    values = []
    for name in names:
        value = fields.get(name)
        if value is not None and (type(value) is not int or not 0 <= value < _LARGEST):
            raise ProtocolError(f"{name}: a whole number from 0 is expected")
        values.append(value)
    return values


def _size(job: dict[str, Any], name: str) -> int | None:
    value = job.get(name)
    if isinstance(value, str):
        try:
            return size(value)
        except ValueError:
            # Nothing that is predicted today rests on it, so it is no reason to refuse.
            return None
    return value if type(value) is int and value >= 0 else None


def answer_set(soft_walltime: int, basis: str) -> bytes:
    """The answer that sets a soft walltime, in whole seconds."""
    return f'{{"v":{VERSION},"action":"set","soft_walltime":{soft_walltime},"basis":{_ENCODE(basis)}}}\n'.encode(
        "ascii"
    )


def answer_none(basis: str) -> bytes:
    """The answer that leaves the job as it is, and why."""
    return f'{{"v":{VERSION},"action":"none","basis":{_ENCODE(basis)}}}\n'.encode("ascii")


def answer_error(message: str) -> bytes:
    """The answer to what cannot be answered."""
    return answer({"error": message})


def answer(fields: Mapping[str, Any]) -> bytes:
    """One line of JSON in ASCII, whatever texts users chose."""
    return _ENCODE({"v": VERSION, **fields}).encode("ascii") + b"\n"
