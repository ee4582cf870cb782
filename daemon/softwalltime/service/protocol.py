"""Protocol of hook and daemon: one JSON object per line each way (see hooks/README.md).

Requests are validated here; an invalid one is refused with a sentence that names the field.  Unknown fields are
ignored, so a newer hook works with an older daemon.
"""

import json
import socket
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from softwalltime.accounting.chunks import requested_select, totals
from softwalltime.accounting.conversions import size
from softwalltime.core.errors import SoftwalltimeError
from softwalltime.core.events import Kind
from softwalltime.core.jobs import FIELDS, MAX_WALLTIME, OF_SUBMISSION, FieldKind, Submission, submission_of

VERSION = 1
MAX_LINE_BYTES = 65536
"""Maximum bytes of a line, line end included."""
OPERATIONS = ("predict", "explain", "status", "ping")
EVENTS = {
    "queuejob": Kind.SUBMITTED, "postqueuejob": Kind.SUBMITTED, "modifyjob": Kind.ALTERED, "runjob": Kind.STARTED,
}  # fmt: skip
"""Kinds of events by PBS's names."""
_HOOKS_NUMBERS = ("now", "timeouts", "previous_us")
MAX_TEXT_CHARS = 600
"""Maximum characters of a text field: PBS allows 255 for most, and a PostgreSQL index row holds 2,704 bytes."""
_UNBOUNDED = frozenset(("select", "place"))
"""Text fields without that limit: a selection can have many chunks, and no index contains them."""
_SUBMITTED = FIELDS[:OF_SUBMISSION]
_TEXTS = tuple(field.name for field in _SUBMITTED if field.kind is FieldKind.TEXT)
_NUMBERS = tuple(field.name for field in _SUBMITTED if field.kind in (FieldKind.TIME, FieldKind.COUNT))
_WALLTIMES = (*(field.name for field in _SUBMITTED if field.kind is FieldKind.WALLTIME), "soft_walltime")
_MAX_NUMBER = 10**12
_MAX_BYTES = 2**63
MAX_SELECT_CHARS = 2048
"""Maximum characters of a request whose chunks are counted, which takes up to 5 ms."""
DIGEST_BYTES = 8
_MAX_INTEGER = 2**31 - 1
# Created once: json.dumps creates an encoder for each call with separators.
_DECODE = json.JSONDecoder().decode
_ENCODE = json.JSONEncoder(separators=(",", ":")).encode

_ENTITIES = (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&apos;", "'"), ("&amp;", "&"))
_OPTIONS_WITH_VALUE = "aACcejJklMmNopPqrRSuvW"
"""Options of qsub (OpenPBS, PBS Professional, TORQUE); the others are flags."""


def script_digest(user: str, path: str) -> str:
    """Return the digest of the path of a user's script, or of an executable with its first argument.

    Equal digests show that two jobs of a user run the same program, without its name.  The digest includes the user.
    Anyone who guesses user and path can compute it.
    """
    content = f"{user}\0{path}".encode("utf-8", "surrogatepass")
    return blake2b(content, digest_size=DIGEST_BYTES).hexdigest()


class ProtocolError(SoftwalltimeError):
    """A request is invalid; the message is the response."""


class JobValueError(ProtocolError):
    """A value that the user requested is outside the limits; the message names value and limits."""


class Request(NamedTuple):
    """A request: operation, event, time (epoch seconds) and job.

    ``now`` is 0 if the daemon is to use its own clock; ``job`` is empty for status and ping; ``soft_walltime`` is the
    current one of the job; ``timeouts`` and ``exchange_before`` come from the hook, as in
    :class:`softwalltime.core.jobs.DecisionRecord`; ``keep``: the client will send another request on this connection.
    """

    operation: str
    event: str = "queuejob"
    now: int = 0
    job: Submission = Submission("", "", 0, None)
    soft_walltime: int | None = None
    timeouts: int = 0
    exchange_before: int | None = None
    keep: bool = False


def read_request(line: bytes) -> Request:
    """Read a request line.

    :raises JobValueError: if a value of the job is outside the limits.
    :raises ProtocolError: names the field that is wrong.
    """
    if len(line) >= MAX_LINE_BYTES:
        raise ProtocolError(f"the request is longer than {MAX_LINE_BYTES} bytes")
    try:
        document = _DECODE(line.decode("utf-8"))
    except (ValueError, RecursionError):
        raise ProtocolError("the request is not JSON") from None
    if not isinstance(document, dict):
        raise ProtocolError("the request is not a JSON object")
    version = document.get("v")
    if type(version) is not int or version != VERSION:
        raise ProtocolError(f"version {version!r} of the protocol is not supported; version {VERSION} is")
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
        min(timeouts or 0, _MAX_INTEGER),
        min(exchange, _MAX_INTEGER) if exchange else exchange,
        document.get("keep") is True,
    )


def _submission(job: dict[str, Any], now: int) -> tuple[Submission, int | None]:
    job_id, user, group, project, account, job_name, queue, select, place, script = _texts(job, _TEXTS)
    submitted, ncpus, nodect, ngpus = _numbers(job, _NUMBERS)
    walltime, min_walltime, max_walltime, soft_walltime = _walltimes(job)
    if not user:
        raise ProtocolError("job.user is missing")
    memory = _memory(job)
    if ncpus is None or nodect is None:
        ncpus, nodect, ngpus, memory = _derived(job, ncpus, nodect, ngpus, memory)
    path = job.get("script_path") or executed_path(job)
    if path and isinstance(path, str):
        script = script_digest(user, path)
    interactive = job.get("interactive")
    # The constructor of the frozen class takes four times as long, and pbs_server waits.
    submission = submission_of(
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
        memory,
        select,
        place,
        interactive if isinstance(interactive, bool) else None,
        script,
    )
    return submission, soft_walltime


# One loop instead of a call per field: other programs evict the processor's caches between requests, so less code is
# faster.
def _texts(fields: dict[str, Any], names: Sequence[str]) -> list[str]:
    values = []
    for name in names:
        value = fields.get(name)
        if value is None:
            value = ""
        elif not isinstance(value, str):
            raise ProtocolError(f"{name}: a string is expected")
        elif len(value) > MAX_TEXT_CHARS and name not in _UNBOUNDED:
            raise _job_value_error(fields, f"{name}: longer than {MAX_TEXT_CHARS} characters")
        values.append(value)
    return values


def _numbers(fields: dict[str, Any], names: Sequence[str]) -> list[int | None]:
    values = []
    for name in names:
        value = fields.get(name)
        if value is not None and (type(value) is not int or value < 0):
            raise ProtocolError(f"{name}: a whole number from 0 is expected")
        if value is not None and value >= _MAX_NUMBER:
            raise _job_value_error(fields, f"{name}: {value} is not below {_MAX_NUMBER}")
        values.append(value)
    return values


def _walltimes(job: dict[str, Any]) -> list[int | None]:
    """Return the walltimes, capped instead of refused: otherwise the job would keep the value for its old walltime."""
    values = []
    for name in _WALLTIMES:
        value = job.get(name)
        if value is not None:
            if type(value) is not int or value < 0:
                raise ProtocolError(f"{name}: a whole number from 0 is expected")
            value = min(value, MAX_WALLTIME)
        values.append(value)
    return values


def _job_value_error(fields: dict[str, Any], message: str) -> ProtocolError:
    if "user" not in fields:
        return ProtocolError(message)
    job = f"job {fields.get('job_id') or '(new)'} of user {fields['user']}"
    return JobValueError(f"{message}; {job}"[:MAX_TEXT_CHARS])


def _derived(
    job: dict[str, Any], ncpus: int | None, nodect: int | None, ngpus: int | None, memory: int | None
) -> tuple[int | None, int | None, int | None, int | None]:
    """Return what PBS derives from the request after queuejob, where the request does not say it."""
    try:
        processors, chunks, gpus, size = _totals(job.get("select") or "", job.get("nodes") or "", ncpus or 1)
    # The user has written it; PBS will refuse the job, or it is too long to be read while pbs_server waits.
    except (ValueError, TypeError):
        return ncpus, nodect, ngpus, memory
    first = processors if ncpus is None else ncpus
    return first, nodect or chunks, gpus or None if ngpus is None else ngpus, size or None if memory is None else memory


@lru_cache(1024)
def _totals(select: str, nodes: str, ncpus: int) -> tuple[int, int, int, int]:
    if len(select) + len(nodes) > MAX_SELECT_CHARS:
        raise ValueError("too long")
    texts = {"select": select, "nodes": nodes, "ncpus": str(ncpus)}
    found = totals(requested_select({name: text for name, text in texts.items() if text}))
    if max(found[:3]) >= _MAX_NUMBER or found[3] >= _MAX_BYTES:
        raise ValueError("too large")
    return found


def _memory(job: dict[str, Any]) -> int | None:
    value = job.get("mem")
    if isinstance(value, str):
        try:
            return size(value)
        except ValueError:
            # No prediction depends on it, so it is no reason to refuse.
            return None
    return value if type(value) is int and value >= 0 else None


def answer_set(soft_walltime: int, basis: str, ordering: int | None = None) -> bytes:
    """Return the response that sets a soft walltime, in whole seconds, and an ordering value, if there is one."""
    given, basis = _ordered(ordering), _ENCODE(basis)
    return f'{{"v":{VERSION},"action":"set","soft_walltime":{soft_walltime},{given}"basis":{basis}}}\n'.encode("ascii")


def answer_none(basis: str, ordering: int | None = None) -> bytes:
    """Return the response that leaves the soft walltime unchanged, with the reason."""
    return f'{{"v":{VERSION},"action":"none",{_ordered(ordering)}"basis":{_ENCODE(basis)}}}\n'.encode("ascii")


def _ordered(ordering: int | None) -> str:
    return "" if ordering is None else f'"ordering":{ordering},'


def answer_error(message: str) -> bytes:
    return answer({"error": message})


def answer(fields: Mapping[str, Any]) -> bytes:
    """Return one line of JSON in ASCII."""
    return _ENCODE({"v": VERSION, **fields}).encode("ascii") + b"\n"


_BEGIN, _END = "<jsdl-hpcpa:Argument>", "</jsdl-hpcpa:Argument>"


def executed_path(job: Mapping[str, Any]) -> str:
    """Return the absolute path of a job's script, or the executable with its first argument; ``""`` if unknown."""
    command, executable, arguments, folder = (
        value if isinstance(value := job.get(name), str) else ""
        for name in ("submit_arguments", "executable", "argument_list", "workdir")
    )
    if executable:
        return " ".join([executable, *_arguments(arguments)[:1]])
    script = _operand(_arguments(command)).removeprefix("./")
    if not script or script.startswith("/"):
        return script
    # After qalter -v the variables of the submission are unknown, so a relative path cannot be resolved.
    return f"{folder}/{script}" if folder else ""


def _arguments(xml: str) -> list[str]:
    """Return the complete arguments at the start of the XML; the hook may have truncated it."""
    arguments = []
    for part in xml.split(_END)[:-1]:
        if not part.startswith(_BEGIN):
            break
        argument = part[len(_BEGIN) :]
        for entity, character in _ENTITIES if "&" in argument else ():
            argument = argument.replace(entity, character)
        arguments.append(argument)
    return arguments


def _operand(arguments: Sequence[str]) -> str:
    """Return the script argument of qsub; ``""`` if the script is read from standard input."""
    following = iter(arguments)
    for argument in following:
        if not argument.startswith("-"):
            return argument
        if argument in ("-", "--"):
            break
        # The value of an option is the rest of the argument, or the next one.
        option = next((at for at, letter in enumerate(argument) if letter in _OPTIONS_WITH_VALUE), 0)
        if option == len(argument) - 1:
            next(following, None)
    return ""


class NoAnswerError(SoftwalltimeError):
    """The daemon does not answer."""


def ask(path: Path, fields: dict[str, Any], timeout: float = 5.0) -> dict[str, Any]:
    """Send one request and return the response.

    :param timeout: seconds for each step.
    :raises NoAnswerError: says what to check.
    """
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(timeout)
            client.connect(str(path))
            client.sendall(json.dumps({"v": VERSION, **fields}).encode() + b"\n")
            received = b"".join(iter(lambda: client.recv(65536), b""))
        answer = json.loads(received)
    except TimeoutError as error:
        raise NoAnswerError(f"{path}: the daemon has not answered in {timeout:g} s") from error
    except PermissionError as error:
        raise NoAnswerError(f"{path}: {error.strerror}: only root and the daemon's user may ask it") from error
    except OSError as error:
        raise NoAnswerError(
            f"{path}: no daemon answers there: {error.strerror or error}; root: see systemctl status softwalltime"
        ) from error
    except ValueError as error:
        # Empty response: the daemon closed the connection because this user may not connect.
        raise NoAnswerError(f"{path}: the daemon talks to root and its own user only: run this as root") from error
    if "error" in answer:
        raise NoAnswerError(f"{path}: the daemon refuses: {answer['error']}")
    return dict(answer)
