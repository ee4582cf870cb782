"""Poll the jobs of a server; read details only of jobs modified since the last poll."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Generic, NamedTuple, TypeVar

from softwalltime.accounting.attributes import NAMES, converted, submission_of
from softwalltime.accounting.conversions import epoch, walltime, whole
from softwalltime.core.jobs import Submission
from softwalltime.service.live.agent import ORDERING_RESOURCE
from softwalltime.service.live.connection import PbsConnection
from softwalltime.service.live.ifl import Attributes

T = TypeVar("T")

QUEUED = "Q"
"""State of a job that waits."""
RECHECK_S = 2
"""Seconds after a modification during which a job's details are read at every poll."""
STATES_AT_ONCE, DETAILS_AT_ONCE = 300, 100
"""Jobs per request for state or details: the server needs about 1 ms, then serves other clients."""
UNKNOWN_ARRAY = STATES_AT_ONCE
"""Assumed number of jobs of an array that was not read before: a request of its own, as it may have thousands."""
MAX_EXPANDED = 50_000
"""Jobs after which an array that has not begun is read without subjobs: any user can submit millions of them."""


class Extra(NamedTuple):
    """Attributes that are read only of jobs for which ``needed(attributes)`` is true."""

    names: tuple[str, ...]
    needed: Callable[[Attributes], bool]


@dataclass(eq=False)
class JobWatcher(Generic[T]):
    """Poll a server's jobs and convert each to an object with ``make``.

    The server answers one client at a time, and each attribute of a job costs it about half a microsecond.  So a poll
    reads few attributes, in requests of about 1 ms: the ids, the state of known jobs, all attributes of new jobs, and
    the details of modified jobs.
    """

    source: PbsConnection
    state: Sequence[str]
    """Attributes that are read of all jobs at each poll, ``mtime`` included."""
    details: Sequence[str]
    """Attributes that change only together with ``mtime``."""
    wanted: Callable[[str, Attributes], bool]
    """Filter by job id and state attributes."""
    make: Callable[[str, Attributes], T]
    """Creates the object from job id and all attributes."""
    update: Callable[[T, Attributes], T]
    """Returns the object with new state attributes."""
    extras: Sequence[Extra] = ()
    """Further details of some jobs."""
    subjobs: bool = False
    """Whether subjobs of arrays are read too."""
    whole: frozenset[str] = frozenset()
    """Arrays whose subjobs the last poll did not read."""

    def __post_init__(self) -> None:
        self._known: dict[str, tuple[int, T]] = {}
        self._listed: frozenset[str] = frozenset()
        self._sizes: dict[str, int] = {}
        self._whole: set[str] = set()
        self._read_at = 0

    def look(self, now: int) -> list[T]:
        """Return the wanted jobs in the server's order.

        :param now: epoch seconds.
        :raises IflError: if PBS cannot be read.
        """
        listed = self.source.ids()
        # mtime has whole seconds: a job may be modified again in the second in which it was read.
        settled = self._read_at - RECHECK_S
        old, known_ids = self._known, self._listed
        states: dict[str, Attributes] = {}
        details: dict[str, Attributes] = {}
        for known, ids in groupby(listed, key=known_ids.__contains__):
            if known:
                states |= self._read(self.state, ids, STATES_AT_ONCE)
                continue
            # At the first poll, read state and details in one request.
            read = self._with_extras(self._read((*self.state, *self.details), ids, DETAILS_AT_ONCE))
            states |= read
            details |= read
        # Their number of subjobs stays unknown.
        self.whole, self._whole = frozenset(self._whole), set()
        sizes = {job_id: size for job_id, size in _array_sizes(states).items() if job_id not in self.whole}
        states = {job_id: state for job_id, state in states.items() if self.wanted(job_id, state)}
        times = {job_id: converted(state.get("mtime"), epoch) or 0 for job_id, state in states.items()}
        stale = [
            job_id
            for job_id, modified in times.items()
            if job_id not in details and (job_id not in old or old[job_id][0] != modified or modified >= settled)
        ]
        details |= self._with_extras(self._read(("job_state", *self.details), stale, DETAILS_AT_ONCE))
        known_jobs: dict[str, tuple[int, T]] = {}
        ended = set(stale) - details.keys()
        for job_id, state in states.items():
            if job_id in details:
                known_jobs[job_id] = times[job_id], self.make(job_id, details[job_id] | state)
            elif job_id not in ended:
                known_jobs[job_id] = times[job_id], self.update(old[job_id][1], state)
        # Update the state only after a complete poll: after a failure the next poll reads the same changes.
        self._known, self._listed, self._read_at = known_jobs, frozenset(listed), now
        self._sizes = sizes
        return [job for _, job in known_jobs.values()]

    def _read(self, names: Sequence[str], ids: Iterable[str], at_once: int) -> dict[str, Attributes]:
        """Read attributes in requests of at most ``at_once`` jobs; a larger array is a request of its own."""
        parts: list[list[str]] = []
        total = 0
        for job_id in ids:
            weight = self._sizes.get(job_id, UNKNOWN_ARRAY) if self.subjobs and "[]" in job_id else 1
            total += weight
            if not parts or total > at_once:
                parts.append([])
                total = weight
            parts[-1].append(job_id)
        jobs: dict[str, Attributes] = {}
        for part in parts:
            expands = self.subjobs and len(jobs) < MAX_EXPANDED
            found = self.source.jobs(names, part, subjobs=expands)
            if self.subjobs and not expands:
                arrays = {job_id: job.get("job_state") for job_id, job in found.items() if "[]" in job_id}
                # Their subjobs run, and occupy processors.
                if begun := [job_id for job_id, state in arrays.items() if state == BEGUN]:
                    found |= self.source.jobs(names, begun, subjobs=True)
                self._whole |= arrays.keys() - set(begun)
            jobs |= found
        return jobs

    def _with_extras(self, jobs: dict[str, Attributes]) -> dict[str, Attributes]:
        for names, needed in self.extras:
            wanting = [job_id for job_id, attributes in jobs.items() if needed(attributes)]
            for job_id, more in self._read(names, wanting, DETAILS_AT_ONCE).items():
                if job_id in jobs:
                    jobs[job_id] |= more
        return jobs


def _array_sizes(states: Mapping[str, Attributes]) -> dict[str, int]:
    """Return the number of jobs that the server returns for each array: itself and its subjobs that no longer wait.

    PBS's library adds waiting subjobs itself.  Ended subjobs remain as long as the array.

    >>> queued, ended = {"job_state": "Q"}, {"job_state": "X"}
    >>> _array_sizes({"5[].srv": queued, "5[1].srv": ended, "5[2].srv": queued, "6.srv": queued})
    {'5[].srv': 2}
    """
    sizes: Counter[str] = Counter()
    for job_id, state in states.items():
        number, bracket, rest = job_id.partition("[")
        index, _, server = rest.partition("]")
        if bracket and not (index and state.get("job_state") == QUEUED):
            sizes[f"{number}[]{server}"] += 1
    return dict(sizes)


STATE = ("job_state", "mtime", "estimated")
"""Attributes that change while a job waits and runs: reading them costs the server 2 to 3 microseconds a job."""
DETAILS = (*(name for name in NAMES if name != "Job_Owner"), "ctime", "Resource_List")
"""Attributes that change only when the job is altered, moved or started, and ``mtime`` with them."""
PENDING = "QHWT"
"""States, one letter each, of jobs that have not started (H: held, W: delayed, T: on the way to another queue)."""
OWNER = Extra(("Job_Owner",), lambda job: "euser" not in job)
"""Owner, read while the job has no euser: PBS sets euser when an execution queue accepts the job."""
START = Extra(("stime",), lambda job: job.get("job_state", "") not in PENDING)
"""Start time of started jobs; it changes only together with ``mtime``."""
BEGUN = "B"
"""State of an array with started subjobs; its other subjobs wait."""
WAITING, RUNNING, HELD = "QB", "RS", "HW"
"""States, one letter each: jobs that may start (B: array with started subjobs), running jobs (S: suspended, its
walltime still counts), and jobs that may not start now (W: delayed until its execution time)."""


@dataclass(frozen=True, slots=True)
class ServerJob:
    """A job that waits, is held, or runs.

    ``soft_walltime`` is in seconds, ``None`` for none.  ``started`` and ``promised`` (``estimated.start_time``, which
    the scheduler gives to its top jobs) are epoch seconds, ``None`` for a job that waits or has no promise.
    ``ordering`` is the value by which ``job_sort_formula`` may order it, in seconds;
    ``None``: never set; 0: removed.
    """

    submission: Submission
    state: str
    soft_walltime: int | None
    started: int | None
    promised: int | None
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


def server_jobs(source: PbsConnection) -> JobWatcher[ServerJob]:
    """Return a watcher of the jobs that wait, are held, or run; subjobs of arrays are left out."""
    return JobWatcher(
        source,
        STATE,
        DETAILS,
        wanted=lambda _, state: state.get("job_state", "") in WAITING + RUNNING + HELD,
        make=live_job,
        update=lambda job, state: replace(job, state=state["job_state"], promised=_promise(state)),
        extras=[OWNER, START],
    )


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
        converted(resources.get(ORDERING_RESOURCE), whole),
    )


def _promise(attributes: Mapping[str, str]) -> int | None:
    waits = attributes.get("job_state", "") in WAITING
    return converted(attributes.get("estimated.start_time"), epoch) if waits else None
