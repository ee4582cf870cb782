"""Write completed jobs as the accounting records of a PBS server."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime, tzinfo
from functools import lru_cache
from itertools import groupby
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any

from softwalltime.accounting.conversions import clock
from softwalltime.core.errors import SourceError
from softwalltime.core.jobs import FIELDS, CompletedJob, FieldKind, Submission


def as_pbs(job: CompletedJob, server: str) -> CompletedJob:
    """Return a trace's job with the fields that PBS always sets: server in the id, name, queue, select, place."""
    submission = job.submission
    ncpus = submission.ncpus or 1
    return replace(
        job,
        server=server,
        submission=replace(
            submission,
            job_id=f"{submission.job_id}.{server}",
            ncpus=ncpus,
            nodect=submission.nodect or 1,
            job_name=submission.job_name or "job",
            queue=submission.queue or "workq",
            select=submission.select or f"1:ncpus={ncpus}",
            place=submission.place or "free",
        ),
    )


def queue_record(job: CompletedJob) -> str:
    """Return the message of the Q record, which PBS writes at submission."""
    return f"{_identity(job)} {_requested(job)} "


def start_record(job: CompletedJob) -> str:
    """Return the message of the S record, which PBS writes at job start."""
    return f"{_identity(job)} start={job.start or 0} {_placed(job)} {_requested(job)} "


def end_record(job: CompletedJob) -> str:
    """Return the message of the E record, with all fields of a :class:`CompletedJob`."""
    used = [f"resources_used.cput={clock(job.cput)}"] if job.cput is not None else []
    if job.mem_used is not None:
        used.append(f"resources_used.mem={_kilobytes(job.mem_used)}")
    used.append(f"resources_used.walltime={clock(job.runtime)}")
    status = "" if job.exit_status is None else f" Exit_status={job.exit_status}"
    runs = "" if job.run_count is None else f"run_count={job.run_count}"
    interactive = "" if job.submission.interactive is None else f" interactive={job.submission.interactive}"
    return (
        f"{_identity(job)} start={job.start or 0} {_placed(job)} {_requested(job)}"
        f"{interactive} session=1 end={job.end}{status} {' '.join(used)} {runs}"
    )


def _identity(job: CompletedJob) -> str:
    submission = job.submission
    account = f' account="{submission.account}"' if submission.account else ""
    project = f" project={_quoted(submission.project)}" if submission.project else ""
    return (
        f"user={submission.user} group={submission.group}{account}{project} jobname={submission.job_name} "
        f"queue={submission.queue} ctime={submission.submitted} qtime={job.qtime or 0} etime={job.etime or 0}"
    )


def _placed(job: CompletedJob) -> str:
    host, ncpus = job.server.partition(".")[0] or "node1", job.submission.ncpus or 1
    return f"exec_host={host}/0*{ncpus} exec_vnode=({host}:ncpus={ncpus})"


def _requested(job: CompletedJob) -> str:
    texts = requested(job.submission, job.soft_walltime)
    return " ".join(f"Resource_List.{name}={_quoted(text)}" for name, text in texts.items())


def requested(submission: Submission, soft_walltime: int | None) -> dict[str, str]:
    """Return the texts of ``Resource_List``, in alphabetical order as PBS writes it."""
    values = {field: getattr(submission, field.name, soft_walltime) for field in _REQUESTED}
    return {
        field.pbs.removeprefix(_RESOURCES): _FORMATS[field.kind](value)
        for field, value in values.items()
        if value not in (None, "")
    }


def _bytes(size: int) -> str:
    for unit, factor in (("gb", 2**30), ("mb", 2**20)):
        if size and size % factor == 0:
            return f"{size // factor}{unit}"
    return _kilobytes(size)


def _kilobytes(size: int) -> str:
    return f"{size}b" if size % 1024 else f"{size // 1024}kb"


def _quoted(text: str) -> str:
    """Quote a value as PBS does: only if it contains a blank, without escaping."""
    if " " not in text:
        return text
    return f"'{text}'" if '"' in text else f'"{text}"'


_FORMATS: dict[FieldKind, Callable[[Any], str]] = {
    FieldKind.TEXT: str,
    FieldKind.WALLTIME: clock,
    FieldKind.COUNT: str,
    FieldKind.SIZE: _bytes,
}
_RESOURCES = "Resource_List."
_REQUESTED = sorted((field for field in FIELDS if field.pbs.startswith(_RESOURCES)), key=attrgetter("pbs"))


def records(jobs: Iterable[CompletedJob], zone: tzinfo) -> Iterator[tuple[str, str]]:
    """Yield all records of these jobs in the order of a log, each with the local day (YYYYMMDD) of its file.

    A job that ran has Q, S and E records, other jobs have Q and D.  At the same second, ends precede submissions, and
    the records of one job are in the order of PBS's actions.
    """
    kept = list(jobs)
    events: list[tuple[int, int, int, str]] = []
    for index, job in enumerate(kept):
        submitted = job.submission.submitted
        events.append((submitted, 1, index, "Q"))
        if job.start is None:
            events.append((max(job.end, submitted), 4, index, "D"))
        else:
            events.append((job.start, 2, index, "S"))
            events.append((job.end, 0 if job.end > job.start else 3, index, "E"))
    events.sort()
    for time, _, index, kind in events:
        yield record(kept[index], kind, time, zone)


_MESSAGES: dict[str, Callable[[CompletedJob], str]] = {
    "Q": queue_record,
    "S": start_record,
    "E": end_record,
    "D": lambda job: f"requestor={job.submission.user}@{job.server or 'localhost'}",
}


def record(job: CompletedJob, kind: str, time: int, zone: tzinfo) -> tuple[str, str]:
    """Return the local day (YYYYMMDD) of a time in epoch seconds, and the line of a record that is written then."""
    day, hour, minute = _quarter(time // 900, zone)
    minutes, seconds = divmod(time % 900, 60)
    stamp = f"{hour}:{minute + minutes:02}:{seconds:02}"
    return day, f"{stamp};{kind};{job.submission.job_id};{_MESSAGES[kind](job)}\n"


def write_logs(jobs: Iterable[CompletedJob], folder: Path, zone: tzinfo) -> tuple[int, int]:
    """Write an accounting folder of these jobs; otherwise as :func:`write_records`."""
    return write_records(records(jobs, zone), folder)


def write_records(written: Iterable[tuple[str, str]], folder: Path) -> tuple[int, int]:
    """Write an accounting folder, one file for each day of :func:`records`; return the number of files and records.

    :raises SourceError: if the folder is not empty, or cannot be written.
    """
    files = count = 0
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise SourceError(f"{folder}: the folder is not empty; name a new one")
        # At the end of summer time an hour occurs twice, but no day: records stay in day order.
        for day, lines in groupby(written, itemgetter(0)):
            with (folder / day).open("x", encoding="utf-8", newline="\n") as stream:
                files += 1
                for _, line in lines:
                    stream.write(line)
                    count += 1
    except OSError as error:
        raise SourceError(f"{folder}: cannot be written: {error.strerror or error}") from error
    return files, count


# Cached by quarter of an hour: offsets of time zones are multiples of it, and records are ordered by time.
@lru_cache(maxsize=64)
def _quarter(quarter: int, zone: tzinfo) -> tuple[str, str, int]:
    local = datetime.fromtimestamp(quarter * 900, zone)
    return f"{local:%Y%m%d}", f"{local:%m/%d/%Y %H}", local.minute
