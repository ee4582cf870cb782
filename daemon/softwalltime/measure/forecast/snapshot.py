"""Snapshot: the state of a PBS server at one time, which can be saved and loaded."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from softwalltime.accounting.queue_limits import OTHERS
from softwalltime.core.errors import SourceError
from softwalltime.core.jobs import Submission
from softwalltime.core.validation import plain
from softwalltime.measure.simulation.shares import FairShareSettings

FORMAT: Literal[1] = 1
"""Number of the file format; another version of this program with another number refuses the file."""
QUEUED, HELD, DELAYED, RUNNING, EXITING, SUSPENDED = "Q", "H", "W", "R", "E", "S"
"""PBS's letters for the states that matter; a delayed job has an Execution_Time that has not come."""
SCHED_CONFIG_UNREAD = "sched_config: not read, strict_ordering is assumed"
"""Remark of a snapshot without the scheduler's file."""
OCCUPYING = frozenset({RUNNING, EXITING})
"""States in which a job holds its resources."""


def _possible(submission: Submission) -> Submission:
    """Refuse a job of a file that was changed by hand: predictors take no negative numbers."""
    for name in ("ncpus", "nodect", "ngpus", "mem", "walltime"):
        if (getattr(submission, name) or 0) < 0:
            raise ValueError(f"{name} is negative")
    return submission


@dataclass(frozen=True, slots=True)
class LiveJob:
    """A job that waits or runs; an array is in the snapshot as its subjobs.

    ``rank`` orders jobs as PBS received them.  ``start`` is ``None`` while the job waits.  ``used`` is its
    ``resources_used.walltime``.  ``estimated_start`` is PBS's promise.  ``holds`` are the letters of Hold_Types
    without n; ``depends`` is the attribute ``depend``.  ``predicted`` is the custom resource of that name, by which the
    preset ``order`` sorts.  ``lacks`` is why PBS did not start it in the last cycle, if the model does not have it.
    Times are in epoch seconds, durations in seconds.
    """

    submission: Annotated[Submission, AfterValidator(_possible)]
    state: str
    rank: int
    start: int | None = None
    qtime: int | None = None
    etime: int | None = None
    used: int | None = None
    soft_walltime: int | None = None
    estimated_start: int | None = None
    eligible_time: int | None = None
    execution_time: int | None = None
    exec_vnode: str = ""
    holds: str = ""
    depends: str = ""
    priority: int = 0
    predicted: float | None = None
    lacks: str = ""

    @property
    def occupies(self) -> bool:
        return self.state in OCCUPYING and self.start is not None

    @property
    def held(self) -> bool:
        """Whether it is held by a user or manager, or by dependencies on other jobs."""
        return not self.occupies and (self.state == HELD or bool(self.holds))

    @property
    def waits_for_scheduler(self) -> bool:
        """Whether the scheduler may start it, now or from its ``execution_time`` on."""
        return self.state in (QUEUED, DELAYED) and not self.held


@dataclass(frozen=True, slots=True)
class VnodeState:
    """A vnode: what it has (0 where unknown; memory in bytes), and its state as PBS writes it (``free,offline``).

    ``sharing`` says whether jobs get it as a whole.
    """

    name: str
    host: str
    state: str
    ncpus: Annotated[int, Field(ge=0)]
    ngpus: Annotated[int, Field(ge=0)] = 0
    queue: str = ""
    sharing: str = ""
    mem: Annotated[int, Field(ge=0)] = 0


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """A queue; ``limits`` are its attributes that limit jobs, as (name, value) in PBS's notation.

    ``restricted``: a list says which users or groups may use it.
    """

    name: str
    execution: bool
    enabled: bool
    started: bool
    priority: int = 0
    default_walltime: int | None = None
    min_walltime: int | None = None
    max_walltime: int | None = None
    destinations: tuple[str, ...] = ()
    limits: tuple[tuple[str, str], ...] = ()
    backfill_depth: int | None = None
    from_route_only: bool = False
    restricted: bool = False


DEDICATED = "dedicated time"
"""Name of a dedicated time among the reservations."""


@dataclass(frozen=True, slots=True)
class AdvanceReservation:
    """An advance or standing reservation, and the processors that it takes from ``start`` to ``end``.

    A dedicated time takes all of them.
    """

    name: str
    start: int
    end: int
    ncpus: int
    state: str = ""

    @property
    def title(self) -> str:
        return DEDICATED if self.name == DEDICATED else f"reservation {self.name}"


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """The scheduler's relevant settings; ``None``: could not be read.

    ``limits`` are the server's, as (name, value).  ``resources`` is that line of sched_config.  ``unmodelled`` are
    settings that the model does not have, each as text.  ``shares``: of fair share; ``None`` where an entity or a value
    of its options cannot be read.  Jobs of queues with ``dedicated_prefix`` run in dedicated time only.
    """

    scheduling: bool = True
    strict_ordering: bool | None = None
    backfill_depth: int | None = None
    formula: str = ""
    eligible_time: bool = False
    by_queue: bool | None = None
    round_robin: bool | None = None
    fair_share: bool | None = None
    preemption: bool | None = None
    resources: tuple[str, ...] = ()
    default_queue: str = ""
    default_walltime: int | None = None
    limits: tuple[tuple[str, str], ...] = ()
    unmodelled: tuple[str, ...] = ()
    shares: FairShareSettings | None = None
    dedicated_prefix: str = "ded"


@dataclass(frozen=True, slots=True)
class ServerSnapshot:
    """The state of a server when it was ``taken`` (epoch seconds).

    ``jobs`` are in PBS's order of arrival.  ``remarks`` say what could not be read and was dropped.
    """

    taken: int
    server: str
    version: str
    jobs: tuple[LiveJob, ...]
    vnodes: tuple[VnodeState, ...]
    queues: tuple[QueueSettings, ...]
    reservations: tuple[AdvanceReservation, ...]
    scheduler: SchedulerSettings
    remarks: tuple[str, ...] = ()
    format: Literal[1] = FORMAT

    def to_json(self) -> str:
        """Return the snapshot as one JSON document, with a line for each job."""
        document = asdict(self)
        jobs = document.pop("jobs")
        head = json.dumps(document, indent=1)
        return head[:-2] + ',\n "jobs": [\n' + ",\n".join(map(json.dumps, jobs)) + "\n ]\n}\n"


def default_walltimes(snapshot: ServerSnapshot) -> dict[str, int]:
    """Return the default walltime of each execution queue in seconds, ``*`` for other queues.

    In PBS's order: the queue's resources_default, the server's, then the queue's resources_max.  A queue without any of
    them is not in the result: its jobs have no walltime.
    """
    server = snapshot.scheduler.default_walltime
    walltimes = {
        queue.name: walltime
        for queue in snapshot.queues
        if queue.execution and (walltime := queue.default_walltime or server or queue.max_walltime)
    }
    return walltimes | ({OTHERS: server} if server else {})


_ADAPTER = TypeAdapter(ServerSnapshot)


def load_snapshot(path: Path) -> ServerSnapshot:
    """Return a snapshot that ``softwalltime snapshot`` wrote.

    :raises SourceError: if the file cannot be read or is no snapshot; says what is wrong where.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror}") from error
    try:
        return _ADAPTER.validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        where = f"{place}: " if place else ""
        raise SourceError(
            f"{path}: not a snapshot: {where}{plain(first['msg'])}: write one with softwalltime snapshot > {path.name}"
        ) from error
