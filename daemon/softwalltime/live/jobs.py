"""A job as the PBS server reports it, and the server's jobs as of the last look."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from softwalltime.accounting.attributes import NAMES, converted, submission_of
from softwalltime.accounting.values import epoch, walltime, whole
from softwalltime.jobs import Submission
from softwalltime.live.agent import ORDERING_RESOURCE
from softwalltime.live.ifl import Attributes
from softwalltime.live.watch import Extra, JobSource, JobWatcher, modified

STATE = ("job_state", "mtime", "estimated")
"""Attributes that change while a job waits and runs: reading them costs the server 2 to 3 microseconds a job."""
DETAILS = (*(name for name in NAMES if name != "Job_Owner"), "ctime", "Resource_List")
"""Attributes that change only when the job is altered, moved or started, and ``mtime`` with them."""
PENDING = "QHWT"
"""States, one letter each, of jobs that have not started (H: held, W: delayed, T: on the way to another queue)."""
OWNER = Extra(("Job_Owner",), lambda job: "euser" not in job)
"""Until an execution queue has accepted a job it has no euser, and its owner is its user."""
START = Extra(("stime",), lambda job: job.get("job_state", "") not in PENDING)
"""A job that has started has a start, which changes only together with ``mtime``."""
BEGUN = "B"
"""State of an array of which a part has started; it waits too."""
WAITING, RUNNING, HELD = "QB", "RS", "HW"
"""States, one letter each, of jobs that may start (B: an array of which a part has started), of jobs that hold their
processors (S: suspended, its time goes on), and of jobs that may not start now (W: before its time)."""


@dataclass(frozen=True, slots=True)
class ServerJob:
    """A job that waits, is held, or runs.

    ``soft_walltime`` is in seconds, ``None`` for none.  ``started`` and ``promised`` (``estimated.start_time``, which
    the scheduler gives to its top jobs) are epoch seconds, ``None`` for a job that waits or has no promise.
    ``modified`` is PBS's ``mtime``.  ``ordering`` is the value by which ``job_sort_formula`` may order it, in seconds,
    ``None`` for none; 0 for one that was taken away.
    """

    submission: Submission
    state: str
    soft_walltime: int | None
    started: int | None
    promised: int | None
    modified: int
    ordering: int | None = None

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
        return self.state in RUNNING


class ServerJobs(JobWatcher[ServerJob]):
    """The jobs of a server that wait, are held, or run; subjobs of arrays are left out."""

    def __init__(self, source: JobSource) -> None:
        super().__init__(source, STATE, DETAILS, _is_wanted, live_job, _with_state, extras=[OWNER, START])


def _is_wanted(_job_id: str, state: Attributes) -> bool:
    return state.get("job_state", "") in WAITING + RUNNING + HELD


def _with_state(job: ServerJob, state: Attributes) -> ServerJob:
    return replace(job, state=state["job_state"], promised=_promise(state))


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
        converted(resources.get("soft_walltime"), walltime),
        converted(attributes.get("stime"), epoch) if state in RUNNING + BEGUN else None,
        _promise(attributes),
        modified(attributes),
        converted(resources.get(ORDERING_RESOURCE), whole),
    )


def _promise(attributes: Mapping[str, str]) -> int | None:
    waits = attributes.get("job_state", "") in WAITING
    return converted(attributes.get("estimated.start_time"), epoch) if waits else None
