"""Standard Workload Format traces (Chapin et al. 1999, version 2.2), read as completed jobs.

One line is one job in 18 numbers, -1 where unknown; header lines begin with a semicolon.  The user is ``user7``, the
project is the group, the job name is the executable, the queue is the queue number; a job ends at submission + wait +
runtime, with an unknown wait taken as none.
"""

import re
from dataclasses import dataclass
from sys import intern

from softwalltime.errors import RecordError
from softwalltime.jobs import CompletedJob, Submission

FIELDS = (
    "job number", "submit time", "wait time", "run time", "allocated processors", "average CPU time used",
    "used memory", "requested processors", "requested time", "requested memory", "status", "user ID", "group ID",
    "executable number", "queue number", "partition number", "preceding job number", "think time",
)  # fmt: skip
COMPLETED, CANCELLED = 1, 5
KILLED_BY_DELETION = 271
"""Exit_status of a job that was deleted while it ran."""
_UNIX_START = re.compile(rb";\s*UnixStartTime:\s*(\d{1,12})")
_LARGEST = 10**12


@dataclass(slots=True)
class Header:
    """What the header says that readers need; ``start`` is the epoch time of the trace's second 0."""

    start: int = 0

    def read(self, line: bytes) -> None:
        """Take in one header line."""
        match = _UNIX_START.match(line)
        if match is not None:
            self.start = int(match.group(1))


def completed_job(line: bytes, header: Header, server: str = "") -> CompletedJob:
    """The job of one line.

    :raises RecordError: names the field and its value.
    """
    parts = line.split()
    if len(parts) != 18:
        raise RecordError("not a line of 18 numbers", value=line[:60].decode("ascii", "backslashreplace"))
    try:
        values = list(map(int, parts[:15]))
    except ValueError:
        # Averages may have a fraction; anything else that is no number is an error.
        values = [_number(part, name) for part, name in zip(parts[:15], FIELDS, strict=False)]
    number, submit, wait, run, allocated, cpu, used, processors = values[:8]
    walltime, memory, status, user, group, app, queue = values[8:]
    if not (-1 <= submit < _LARGEST and wait < _LARGEST and run < _LARGEST and walltime < _LARGEST):
        raise RecordError("a time beyond belief", value=line[:60].decode("ascii", "backslashreplace"))
    if processors <= 0:
        processors = allocated
    ncpus = processors if 0 < processors < 2**31 else None
    submitted = header.start + submit
    start = submitted + wait if wait > 0 else submitted
    # A runtime of -1 is a job that never started or one that nobody timed; neither can teach anything.
    runtime = max(run, 0)
    never_ran = run < 0 or (run == 0 and status == CANCELLED)
    return CompletedJob(
        Submission(
            str(number),
            intern(f"user{user}") if user >= 0 else "",
            submitted,
            walltime if walltime > 0 else None,
            group_name := intern(f"group{group}") if group >= 0 else "",
            group_name,
            "",
            intern(f"app{app}") if app >= 0 else "",
            intern(f"queue{queue}") if queue >= 0 else "",
            ncpus=ncpus,
            mem=memory * 1024 * processors if 0 < memory < 2**40 and ncpus else None,
        ),
        server,
        None if never_ran else start,
        start + runtime,
        runtime,
        submitted,
        submitted,
        exit_status=0 if status == COMPLETED else KILLED_BY_DELETION if status == CANCELLED else 1,
        run_count=0 if never_ran else 1,
        cput=cpu * ncpus if 0 <= cpu < _LARGEST and ncpus else None,
        mem_used=used * 1024 * ncpus if 0 < used < 2**40 and ncpus else None,
    )


def _number(part: bytes, field: str) -> int:
    try:
        return int(float(part))
    except (ValueError, OverflowError):
        raise RecordError("not a number", field=field, value=part.decode("ascii", "backslashreplace")) from None
