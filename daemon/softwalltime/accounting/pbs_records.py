"""Parse one line of a PBS Professional, OpenPBS or TORQUE accounting log.

A record is ``MM/DD/YYYY HH:MM:SS;TYPE;ID;message``; :mod:`.fields` parses the message.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import lru_cache

from softwalltime.accounting.conversions import duration, epoch, size, walltime, whole
from softwalltime.accounting.fields import attributes
from softwalltime.accounting.record_shapes import Shapes
from softwalltime.core.errors import RecordError
from softwalltime.core.jobs import FIELDS, CurrentJob, FieldKind, Values, job_of

MISSING = "is missing"
MAX_NAMES_CHARS = 300
"""Maximum characters of user, project, queue and job id together: the limit of a database index."""

_PLACEMENT = re.compile(r"(?:(\d+)|[^:+]+)((?::[^+]*)?)(?:\+|$)")
_PPN = re.compile(r":ppn=(\d+)")
_GPUS = re.compile(r":gpus=(\d+)")


def decoded(line: bytes) -> str:
    r"""Return the line as text that any database accepts: NUL and bytes that are not UTF-8 become ``\xHH``."""
    return line.decode("utf-8", "backslashreplace").replace("\0", "\\x00")


def split(line: bytes) -> tuple[str, str, str]:
    """Return a record's type, job id and message.

    :raises RecordError: if the line is not an accounting record.
    """
    parts = decoded(line).rstrip(" \r\n").split(";", 3)
    if len(parts) < 4:
        raise RecordError("not an accounting record: fewer than 3 semicolons", value=parts[0])
    stamp, kind, job_id, message = parts
    if len(stamp) != 19 or not _is_day(stamp[:11]) or stamp[13] + stamp[16] != "::":
        raise RecordError("not of the form MM/DD/YYYY HH:MM:SS", field="time stamp", value=stamp)
    if len(kind) != 1:
        raise RecordError("not one letter", field="record type", value=kind)
    # The only text of the user before the names that PBS writes; with quotation marks it may hold other names.
    if message.startswith("gridname=") and message.count(" user=") + message.count(" group=") > 2:
        raise RecordError("may name another user", field="gridname", value=message)
    return kind, job_id, message


# A log has few different days.
@lru_cache(maxsize=10_000)
def _is_day(text: str) -> bool:
    """Return whether a text is the day of a time stamp and a blank."""
    try:
        datetime.strptime(text, "%m/%d/%Y ")
    except ValueError:
        return False
    return len(text) == 11


def completed_values(job_id: str, message: str, server: str = "", left_out: Counter[str] | None = None) -> Values:
    """Return the values of the job of an E record; ``server`` replaces the host part of the id.

    :param left_out: counts malformed values of optional fields, by field; these fields are then empty.
    :raises RecordError: names the field that is missing or cannot be read, and its value.
    """
    texts = _shapes.values(message)
    if texts is None:
        fields = attributes(message)
        texts = tuple(map(fields.get, _FIELDS))
        _shapes.count(message, fields)
    return _read(job_id, texts, server, left_out)


def current_job(job_id: str, fields: dict[str, str], server: str = "", *, waits: bool) -> CurrentJob:
    """Return the waiting or running job with these fields of a Q, S or R record and of the alters after it.

    :raises RecordError: as :func:`completed_values`.
    """
    job = job_of(_read(job_id, tuple(map({**fields, "end": "0"}.get, _FIELDS)), server))
    start = None if waits else job.start
    return CurrentJob(job.submission, job.server, start, job.qtime, job.etime, job.soft_walltime)


def _read(job_id: str, texts: Sequence[str | None], server: str, left_out: Counter[str] | None = None) -> Values:
    if not job_id or " " in job_id:
        raise RecordError("is not a job id", field="job id", value=job_id)
    server = server or job_id.partition(".")[2]
    try:
        return _values(job_id, texts, server)
    except ValueError:
        return _values(job_id, _convertible(texts, left_out), server)


_FIELDS = (*(field.pbs for field in FIELDS if field.pbs), "Resource_List.nodes")
"""Fields of a record that are read: those of a job, and TORQUE's specification of nodes."""
_shapes = Shapes(_FIELDS)


def _values(job_id: str, texts: Sequence[str | None], server: str) -> Values:
    """Return the job's values from the texts of ``_FIELDS``.

    Unrolled for speed: most of the time of parsing is spent here.  A test compares it with ``FIELDS`` and
    ``CONVERTERS``.

    :raises ValueError: if a text cannot be converted.
    """
    (
        user, ctime, walltime_text, group, project, account, job_name, queue, min_walltime, max_walltime,
        ncpus_text, nodect, ngpus_text, mem, select, place, interactive,
        start_text, end_text, runtime_text, qtime_text, etime_text, soft_walltime, exit_status, run_count,
        cput, mem_used, nodes,
    ) = texts  # fmt: skip
    project = project or ""
    if not user:
        raise RecordError(MISSING, field="user")
    if len(user) + len(project) + len(queue or "") + len(job_id) > MAX_NAMES_CHARS:
        raise RecordError(f"names and job id exceed {MAX_NAMES_CHARS} characters", field="user", value=user)
    if end_text is None:
        raise RecordError(MISSING, field="end")
    end = epoch(end_text)
    # A job that never started has start=0, and one that was never eligible etime=0.
    start = None if start_text is None else epoch(start_text) or None
    qtime = None if qtime_text is None else epoch(qtime_text) or None
    etime = None if etime_text is None else epoch(etime_text) or None
    submitted = (0 if ctime is None else epoch(ctime)) or qtime or start
    if submitted is None:
        raise RecordError(MISSING, field="ctime")
    ran = max(end - start, 0) if start is not None else 0
    runtime = ran if runtime_text is None else duration(runtime_text)
    ncpus = None if ncpus_text is None else whole(ncpus_text)
    ngpus = None if ngpus_text is None else whole(ngpus_text)
    if nodes and (ncpus is None or ngpus is None):
        nodes_ncpus, nodes_ngpus = _torque_nodes(nodes)
        ncpus = nodes_ncpus if ncpus is None else ncpus
        ngpus = nodes_ngpus if ngpus is None else ngpus
    return (
        job_id, user, submitted, None if walltime_text is None else walltime(walltime_text), group or "", project,
        account or "", job_name or "", queue or "", None if min_walltime is None else walltime(min_walltime),
        None if max_walltime is None else walltime(max_walltime), ncpus, None if nodect is None else whole(nodect),
        ngpus, None if mem is None else size(mem), select or nodes or "", place or "",
        None if interactive is None else _truth(interactive), "", server, start, end, runtime, qtime, etime,
        None if soft_walltime is None else walltime(soft_walltime), None if exit_status is None else whole(exit_status),
        None if run_count is None else whole(run_count), None if cput is None else duration(cput),
        None if mem_used is None else size(mem_used),
    )  # fmt: skip


def _truth(text: str) -> bool:
    return text.lower() not in ("0", "false", "no", "")


CONVERTERS: dict[FieldKind, Callable[[str], object]] = {
    FieldKind.TEXT: str,
    FieldKind.TRUTH: _truth,
    FieldKind.TIME: epoch,
    FieldKind.DURATION: duration,
    FieldKind.WALLTIME: walltime,
    FieldKind.COUNT: whole,
    FieldKind.SIZE: size,
}
_BY_NAME = {field.pbs: field for field in FIELDS if field.pbs}


def _convertible(texts: Sequence[str | None], left_out: Counter[str] | None) -> list[str | None]:
    """Return the texts without malformed ones of optional fields.

    :raises RecordError: if a required field is malformed.
    """
    readable = list(texts)
    for index, (name, value) in enumerate(zip(_FIELDS, texts, strict=True)):
        field = _BY_NAME.get(name)
        if value is None or field is None:
            continue
        try:
            CONVERTERS[field.kind](value)
        except ValueError as error:
            if field.required:
                raise RecordError(str(error), field=name, value=value) from None
            readable[index] = None
            if left_out is not None:
                left_out[name] += 1
    return readable


def _torque_nodes(text: str) -> tuple[int, int]:
    """Return CPUs and GPUs in TORQUE's ``Resource_List.nodes``: ``2:ppn=8:gpus=1+node7:ppn=4``; default 1 CPU."""
    ncpus = ngpus = 0
    for match in _PLACEMENT.finditer(text):
        count = int((match.group(1) or "1")[:9])
        properties = match.group(2) or ""
        ppn, gpus = _PPN.search(properties), _GPUS.search(properties)
        ncpus += count * (int(ppn.group(1)[:9]) if ppn else 1)
        ngpus += count * (int(gpus.group(1)[:9]) if gpus else 0)
    return min(ncpus, 2**31 - 1), min(ngpus, 2**31 - 1)
