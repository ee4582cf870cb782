"""A job as the PBS server reports it, and the server's jobs as of the last look."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from softwalltime.accounting.attributes import NAMES, converted, submission_of
from softwalltime.accounting.values import duration, epoch
from softwalltime.jobs import Submission
from softwalltime.live.ifl import Attributes

STATE = ("job_state", "mtime", "stime", "estimated")
"""Attributes that change while a job waits and runs: reading them costs the server about 1 microsecond a job."""
DETAILS = (*NAMES, "ctime", "Resource_List")
"""Attributes that change only when the job is altered, moved or started, and ``mtime`` with them."""
WAITING, RUNNING = "QB", "RS"
"""States, one letter each, of jobs that may start (B: an array of which a part has started) and of jobs that hold
their processors (S: suspended, its time goes on)."""


@dataclass(frozen=True, slots=True)
class ServerJob:
    """A job that waits or runs.

    ``soft_walltime`` is in seconds, ``None`` for none.  ``started`` and ``promised`` (``estimated.start_time``, which
    the scheduler gives to its top jobs) are epoch seconds, ``None`` for a job that waits or has no promise.
    ``modified`` is PBS's ``mtime``.
    """

    submission: Submission
    state: str
    soft_walltime: int | None
    started: int | None
    promised: int | None
    modified: int

    @property
    def job_id(self) -> str:
        """The job id; of an array that of the whole, such as ``5[].srv``."""
        return self.submission.job_id

    @property
    def waits(self) -> bool:
        """Whether the scheduler may start it; a held job does not."""
        return self.state in WAITING

    @property
    def runs(self) -> bool:
        """Whether it holds its processors."""
        return self.state in RUNNING


class JobSource(Protocol):
    """Reads attributes of jobs, as :class:`softwalltime.live.connection.PbsConnection` does."""

    def jobs(self, names: "tuple[str, ...]", ids: "tuple[str, ...]" = ()) -> dict[str, Attributes]:
        """Return attributes of jobs by job id."""


SETTLING = 2
"""Seconds after a modification in which a job's details are read again at the next look."""
DETAILS_AT_ONCE = 500
"""Jobs whose details are read in one request."""


class QueueWatch:
    """The server's jobs; a look reads the state of all jobs, and the details of those that were modified since.

    With 10,000 waiting jobs a look costs the server some 10 ms; reading all details each time would cost 250 ms.
    """

    def __init__(self, source: JobSource) -> None:
        self._source = source
        self._known: dict[str, ServerJob] = {}
        self._read_at = 0

    def look(self, now: int) -> list[ServerJob]:
        """Return the jobs that wait or run, in the server's order, which is that of submission.

        :param now: epoch seconds.
        :raises IflError: if PBS cannot be read.
        """
        states = {
            job_id: state
            for job_id, state in self._source.jobs(STATE).items()
            if state.get("job_state", "") in WAITING + RUNNING
        }
        old = self._known
        # PBS's times are whole seconds: a job may have been modified again in the second in which it was read.
        settled = self._read_at - SETTLING
        stale = [
            job_id
            for job_id, state in states.items()
            if job_id not in old or old[job_id].modified != _modified(state) or _modified(state) >= settled
        ]
        self._read_at = now
        details: dict[str, Attributes] = {}
        for begin in range(0, len(stale), DETAILS_AT_ONCE):
            details |= self._source.jobs(DETAILS, tuple(stale[begin : begin + DETAILS_AT_ONCE]))
        self._known = {}
        ended = set(stale) - details.keys()
        for job_id, state in states.items():
            if job_id in ended:
                continue
            self._known[job_id] = (
                live_job(job_id, details[job_id] | state)
                if job_id in details
                else replace(old[job_id], state=state["job_state"], promised=_promise(state))
            )
        return list(self._known.values())


def live_job(job_id: str, attributes: Mapping[str, str]) -> ServerJob:
    """Return a job from its attributes; a value that cannot be read counts as missing."""
    resources = {
        name.removeprefix("Resource_List."): value
        for name, value in attributes.items()
        if name.startswith("Resource_List.")
    }
    state = attributes.get("job_state", "")
    return ServerJob(
        submission_of(job_id, converted(attributes.get("ctime"), epoch) or 0, attributes, resources),
        state,
        converted(resources.get("soft_walltime"), duration),
        converted(attributes.get("stime"), epoch) if state in RUNNING else None,
        _promise(attributes),
        _modified(attributes),
    )


def _promise(attributes: Mapping[str, str]) -> int | None:
    waits = attributes.get("job_state", "") in WAITING
    return converted(attributes.get("estimated.start_time"), epoch) if waits else None


def _modified(attributes: Mapping[str, str]) -> int:
    return converted(attributes.get("mtime"), epoch) or 0
