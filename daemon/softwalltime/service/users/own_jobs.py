"""A user's own jobs: waiting, running, ended, and requested walltimes that are too long; the client."""

import json
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, time, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Self

from softwalltime.core.errors import SoftwalltimeError

VERSION = 2
"""Version of the response; a client of another version refuses it."""

Range = tuple[int, int]

SOCKET = Path("/run/softwalltime-me.sock")
"""The socket of softwalltime-me.socket; only root can put another one there."""
TIMEOUT = 5.0
"""Timeout in seconds for connecting and for each read."""
MAX_RESPONSE_BYTES = 64 << 20
"""Maximum bytes of a response, far more than the jobs of one user need."""
_ROOT = "ask your administrators (root: systemctl status softwalltime-me.socket softwalltime-me)"
_WEB = "ask your administrators (root: SOFTWALLTIME_WEB_ACCOUNT of softwalltime-me, see STARTS.md)"
SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Probabilities that the job starts by: 90% range begin, 50% range begin, expected start, 50% and 90% range end."""


@dataclass(frozen=True, slots=True)
class OwnJob:
    """A job; times in epoch seconds, durations in seconds."""

    job: str
    """Job id; of a waiting array without a forecast that of the whole."""
    name: str
    """Job name."""
    queue: str
    """Queue of the job."""
    ncpus: int | None
    """Number of processors requested."""
    ngpus: int | None
    """Number of GPUs requested."""
    mem: int | None
    """Memory requested, bytes; null: not recorded."""
    walltime: int | None
    """Requested walltime; null: no limit."""


@dataclass(frozen=True, slots=True)
class WaitingJob(OwnJob):
    """A waiting job; times in epoch seconds, durations in seconds."""

    submitted: int
    """Submission time."""
    expected: int | None
    """Expected start; null: no forecast, see waits_for."""
    range50: Range | None
    """Range that holds the start with a probability of 50%."""
    range90: Range | None
    """Range that holds the start with a probability of 90%."""
    runtime: int | None
    """Predicted runtime, the median; null: not predicted."""
    runtime90: Range | None
    """Range that holds the runtime with a probability of 90%."""
    waits_for: str
    """What the job waits for, or why there is no forecast."""
    forecast_at: int | None
    """Time of the forecast; null: no forecast."""
    suggested: int | None
    """Shorter walltime for which its start was forecast too; null: none."""
    sooner: int | None
    """Forecast gain in start time with the suggested walltime; null: not known."""
    today: float | None = None
    """Probability that it starts before midnight, local time, from 0.05 to 0.95; null: not known."""


@dataclass(frozen=True, slots=True)
class RunningJob(OwnJob):
    """A running job; times in epoch seconds, durations in seconds."""

    started: int
    """Start time."""
    expected_end: int | None
    """Expected end; null: not predicted."""
    range90: Range | None
    """Range that holds the end with a probability of 90%."""
    latest_end: int | None
    """Start plus walltime; null: no limit."""


@dataclass(frozen=True, slots=True)
class EndedJob(OwnJob):
    """A job that ended; times in epoch seconds, durations in seconds."""

    state: str
    """End state."""
    mem_used: int | None
    """Memory used, bytes; null: not recorded."""
    cput: int | None
    """Processor time used; null: not recorded."""
    runtime: int
    """Runtime."""
    submitted: int
    """Submission time."""
    wait: int | None
    """Wait from eligibility to start; null: never started."""
    started: int | None
    """Start time; null: never started."""
    ended: int
    """End time."""


@dataclass(frozen=True, slots=True)
class LongRequest:
    """A requested walltime that could be shorter; durations in seconds."""

    walltime: int
    """The requested walltime."""
    jobs: int
    """Number of jobs with it that ended."""
    suggested: int
    """Walltime to request instead."""
    longer: int
    """Number of these jobs that ran longer than the suggested walltime."""


@dataclass(frozen=True, slots=True)
class ServerForecast:
    """The newest forecast of a server's jobs."""

    server: str
    """Name of the server."""
    forecast_at: int
    """Time of the forecast, epoch seconds."""


@dataclass(frozen=True, slots=True)
class ProbeStart:
    """When a job would start that is submitted now by a user without other jobs; times in epoch seconds."""

    server: str
    """Name of the server."""
    queue: str
    """Queue in which it runs."""
    ncpus: int
    """Number of processors."""
    walltime: int
    """Walltime, seconds."""
    submit_to: tuple[str, ...]
    """Names for qsub -q with which it runs in this queue; an empty name: without -q."""
    expected: int
    """Expected start."""
    range90: Range | None
    """Range that holds the start with a probability of 90%; null: not known."""
    forecast_at: int
    """Time of the forecast, for which the job is submitted."""


@dataclass(frozen=True, slots=True)
class OwnJobs:
    """The jobs of one user."""

    COLUMNS: ClassVar = (
        "kind", "job", "name", "queue", "ncpus", "ngpus", "mem", "walltime", "submitted", "started", "expected",
        "range90_from", "range90_to", "today", "waits_for", "latest_end", "ended", "runtime", "mem_used", "cput",
        "wait", "state",
    )  # fmt: skip

    user: str
    """The user; empty: he has no known job."""
    read_at: int
    """Time at which the store was read, epoch seconds; 0: never."""
    problem: str
    """Current problem; empty: none."""
    forecasts: tuple[ServerForecast, ...]
    """The newest forecasts; none: the site publishes none, or no job waits or runs."""
    days: int
    """Number of past days whose ended jobs are counted."""
    waiting_jobs: int
    """Number of waiting jobs."""
    waiting: tuple[WaitingJob, ...]
    """The waiting jobs, earliest expected start first, at most 5,000."""
    running_jobs: int
    """Number of running jobs."""
    running: tuple[RunningJob, ...]
    """The running jobs, earliest expected end first, at most 5,000."""
    ended_jobs: int
    """Number of jobs that ended in these days."""
    ended: tuple[EndedJob, ...]
    """The last 20 ended jobs, newest first."""
    requests: tuple[LongRequest, ...]
    """Requested walltimes that are too long, judged by the jobs of these days."""
    probes: tuple[ProbeStart, ...]
    """Expected starts of jobs that are not submitted yet, by queue, size and walltime."""

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row for each job; ``expected`` is the start of a waiting job and the end of a running one."""
        jobs: Iterable[WaitingJob | RunningJob | EndedJob] = (*self.waiting, *self.running, *self.ended)
        for job in jobs:
            values = asdict(job)
            begin, end = values.get("range90") or (None, None)
            kind = {WaitingJob: "waits", RunningJob: "runs", EndedJob: "ended"}[type(job)]
            yield {"expected": values.get("expected_end")} | values | {
                "kind": kind, "range90_from": begin, "range90_to": end,
            }  # fmt: skip

    @classmethod
    def from_json(cls, text: bytes | bytearray) -> Self:
        """Parse a response, or raise a ValueError for one that is not of this version."""
        try:
            values: dict[str, Any] = json.loads(text)
            if values.pop("v") != VERSION:
                raise ValueError("another version")
            kinds = {
                "forecasts": ServerForecast, "waiting": WaitingJob, "running": RunningJob, "ended": EndedJob,
                "requests": LongRequest, "probes": ProbeStart,
            }  # fmt: skip
            rows: dict[str, Any] = {
                name: tuple(kind(**_ranges(row)) for row in values.pop(name)) for name, kind in kinds.items()
            }
            return cls(**values, **rows)
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(str(error)) from error


def _ranges(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}


def chance_by(job: WaitingJob, moment: int) -> float | None:
    """Return the probability that a job starts by a moment, interpolated linearly between the known quantiles.

    It is limited to 0.05 and 0.95, the outermost known quantiles.  ``None``: there is no range.

    :param moment: epoch seconds.
    """
    if job.expected is None or job.range50 is None or job.range90 is None or job.range90[0] == job.range90[1]:
        return None
    ends = (job.range90[0], job.range50[0], job.expected, job.range50[1], job.range90[1])
    chance = SHARES[0]
    for (begin, low), (end, high) in pairwise(zip(ends, SHARES, strict=True)):
        if moment >= end:
            chance = high
        elif moment > begin:
            return low + (high - low) * (moment - begin) / (end - begin)
    return chance


def next_midnight(now: int) -> int:
    """Return the end of the day of ``now``, local time (both epoch seconds)."""
    tomorrow = datetime.fromtimestamp(now).astimezone().date() + timedelta(days=1)
    return int(datetime.combine(tomorrow, time()).astimezone().timestamp())


class NoOwnJobsError(SoftwalltimeError):
    """Own jobs cannot be read; the message says who must fix it."""


def ask_own_jobs(path: Path = SOCKET, user: str = "") -> OwnJobs:
    """Return the jobs of this process's user.

    :param user: another user instead; only the account of ``softwalltime web`` may name one.
    :raises NoOwnJobsError: says what must be done, and by whom.
    """
    received = bytearray()
    try:
        with socket.socket(socket.AF_UNIX) as client:
            # After settimeout, connect fails at once if the backlog is full; with SO_SNDTIMEO it waits.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", int(TIMEOUT), 0))
            client.connect(str(path))
            client.settimeout(TIMEOUT)
            if user:
                client.sendall(f"{user}\n".encode())
            while len(received) < MAX_RESPONSE_BYTES and (part := client.recv(1 << 20)):
                received += part
    except FileNotFoundError as error:
        raise NoOwnJobsError(f"{path}: not there: this host does not offer it, or it is stopped; {_ROOT}") from error
    except (TimeoutError, BlockingIOError) as error:
        raise NoOwnJobsError(f"{path}: no answer within {TIMEOUT:g} s: ask again; then {_ROOT}") from error
    except OSError as error:
        if user and isinstance(error, BrokenPipeError | ConnectionResetError):
            raise NoOwnJobsError(f"{path}: takes no names from this account: {_WEB}") from error
        raise NoOwnJobsError(f"{path}: nobody answers: {error.strerror or error}; {_ROOT}") from error
    if not received.endswith(b"\n"):
        raise NoOwnJobsError(f"{path}: the answer was cut off: ask again in some seconds; then {_ROOT}")
    try:
        own_jobs = OwnJobs.from_json(received)
    except ValueError as error:
        raise NoOwnJobsError(
            f"{path}: the answer is of another version than this command: {_ROOT.replace('status', 'restart')}"
        ) from error
    if not own_jobs.read_at:
        raise NoOwnJobsError(own_jobs.problem)
    if user and own_jobs.user not in ("", user):
        raise NoOwnJobsError(f"{path}: answers for another user: {_WEB}")
    return own_jobs
