"""Read tables of Slurm's sacct as completed jobs: ``sacct --parsable2``, with its header.

The user's limit is the walltime, the partition the queue, the QOS the project.  Steps are left out, and jobs that have
not ended.  Times are read as UTC, or as epoch seconds (``SLURM_TIME_FORMAT=%s``).
"""

import re
from calendar import timegm
from collections import Counter
from collections.abc import Mapping
from sys import intern
from time import strptime

from softwalltime.core.errors import RecordError
from softwalltime.core.jobs import MAX_WALLTIME, CompletedJob, Submission, Values, values_of

FIELDS = (
    "JobID,User,Account,Group,JobName,Partition,QOS,Submit,Eligible,Start,End,Timelimit,NCPUS,NNodes,State,ExitCode"
)
"""What to give to sacct --format."""
COMMAND = f"sacct -aXP -S 2025-01-01 --format={FIELDS}"
_NEEDED = ("JobID", "User", "Submit", "Start", "End", "Timelimit", "State")
_EXIT_STATUS = {
    "COMPLETED": 0, "TIMEOUT": -29, "CANCELLED": 271, "PREEMPTED": -14, "NODE_FAIL": -20, "BOOT_FAIL": -20,
    "OUT_OF_MEMORY": -27, "DEADLINE": -19,
}  # fmt: skip
"""Exit_status in PBS for a state in Slurm; of others the job's own, at least 1."""
_NOT_ENDED = frozenset({"RUNNING", "PENDING", "SUSPENDED", "REQUEUED", "RESIZING"})
_DURATION = re.compile(r"(?:(\d{1,5})-)?(\d{1,6}):(\d\d):(\d\d)")
_MAX_COUNT = 2**31 - 1


def begins(start: bytes) -> bool:
    """Return whether a file begins with the header of such a table."""
    return set(_NEEDED) <= set(_header(start.partition(b"\n")[0]))


def _header(line: bytes) -> list[str]:
    # JobIDRaw is a number also for a job of an array; TimelimitRaw has minutes.
    return ["JobID" if name == "JobIDRaw" else name for name in _texts(line)]


def _texts(line: bytes) -> list[str]:
    return line.rstrip(b"\r").decode("utf-8", "backslashreplace").replace("\0", "\\x00").split("|")


class SacctTable:
    """Reader of one table; sacct's option --parsable ends each line with one more separator."""

    def __init__(self) -> None:
        self.machine = 0
        self.left_out: Counter[str] = Counter()
        self._names: list[str] = []

    def values(self, line: bytes) -> Values | str:
        """Return the job of a line, or what the line is.

        :raises RecordError: names the column and its value.
        """
        texts = _texts(line)
        if "JobID" in texts or "JobIDRaw" in texts:
            names = _header(line)
            if set(_NEEDED) <= set(names):
                self._names = names
                return "header"
        if len(texts) != len(self._names):
            value = line[:60].decode("utf-8", "backslashreplace")
            raise RecordError(
                f"not a line of {len(self._names)} columns; a name may contain the separator", value=value
            )
        row = dict(zip(self._names, texts, strict=True))
        if "." in row["JobID"] or "+" in row["JobID"]:
            return "step"
        state = row["State"].partition(" ")[0]
        if state in _NOT_ENDED or row["End"] in ("Unknown", ""):
            return "not ended"
        return values_of(self._job(row, state))

    def _job(self, row: Mapping[str, str], state: str) -> CompletedJob:
        submitted, end = _time(row, "Submit"), _time(row, "End")
        # A job that was cancelled while it waited has no start, or that of its end.
        start = None if row["Start"] in ("None", "Unknown", "") else _time(row, "Start")
        never = start is None or (state == "CANCELLED" and end <= start)
        ncpus, nodes = (self._count(row, name) for name in ("NCPUS", "NNodes"))
        submission = Submission(
            row["JobID"], intern(row["User"]), submitted, _limit(row), intern(row.get("Group", "")),
            intern(row.get("QOS", "")), intern(row.get("Account", "")), intern(row.get("JobName", "")),
            intern(row.get("Partition", "")), ncpus=ncpus, nodect=nodes,
        )  # fmt: skip
        etime = submitted if row.get("Eligible", "Unknown") in ("Unknown", "") else _time(row, "Eligible")
        status = _EXIT_STATUS.get(state)
        if status is None:
            code = row.get("ExitCode", "").partition(":")[0]
            status = max(int(code), 1) if code.isdecimal() and len(code) < 5 else 1
        runtime = 0 if never or start is None else max(end - start, 0)
        return CompletedJob(
            submission, "", None if never else start, end, runtime, submitted, max(etime, submitted), exit_status=status
        )

    def _count(self, row: Mapping[str, str], column: str) -> int | None:
        text = row.get(column, "")
        if text.isdecimal() and len(text) < 11 and 0 < int(text) <= _MAX_COUNT:
            return int(text)
        if text not in ("", "0", "Unknown"):
            self.left_out[column] += 1
        return None


def _time(row: Mapping[str, str], column: str) -> int:
    text = row[column]
    if text.isdecimal() and len(text) < 13:
        return int(text)
    try:
        return timegm(strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        raise RecordError("neither YYYY-MM-DDTHH:MM:SS nor epoch seconds", field=column, value=text) from None


def _limit(row: Mapping[str, str]) -> int | None:
    """Return Timelimit, [D-]HH:MM:SS, in seconds; ``None`` where there is no limit."""
    text = row["Timelimit"]
    if text in ("UNLIMITED", "Partition_Limit", "INVALID", ""):
        return None
    if not (match := _DURATION.fullmatch(text)):
        raise RecordError("not a duration of the form D-HH:MM:SS", field="Timelimit", value=text)
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return min(days * 86400 + hours * 3600 + minutes * 60 + seconds, MAX_WALLTIME) or None
