"""Convert a snapshot to jobs, machine and policy of the simulator."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from softwalltime.core.compiling import why_not_executable
from softwalltime.core.jobs import CompletedJob, Submission
from softwalltime.measure.forecast.defaults import FEWER_RUNS, RUNS
from softwalltime.measure.forecast.pooling import Pooling
from softwalltime.measure.forecast.server_vnodes import ServerVnodes
from softwalltime.measure.forecast.site_scheduler import (
    considered_resources,
    knows_usage,
    plans_ahead,
    queue_depths,
    queues_in_turn,
    scheduler_policy,
    unsupported,
    usable_formula,
    usable_shares,
)
from softwalltime.measure.forecast.snapshot import (
    DEDICATED,
    DELAYED,
    QUEUED,
    SUSPENDED,
    LiveJob,
    ServerSnapshot,
)
from softwalltime.measure.replay.job_columns import JobColumns
from softwalltime.measure.simulation.engine import Engine, ScheduleOutcome
from softwalltime.measure.simulation.machine import Machine, Processors
from softwalltime.measure.simulation.placement import Placement, VnodeLayout, VnodeMachine, VnodeRequests
from softwalltime.measure.simulation.planned_values import Values
from softwalltime.measure.simulation.policies import SOFT_WALLTIME, SchedulerPolicy
from softwalltime.measure.simulation.pools import Pools, Shares
from softwalltime.measure.simulation.resources import Vnodes
from softwalltime.measure.simulation.simulated_jobs import UNLIMITED_WALLTIME_S, Jobs
from softwalltime.predict.policy.site import WALLTIME, SitePolicy

MAX_JOBS_OFTEN = 300
"""Number of jobs from which several reservations are too expensive for hundreds of runs."""
EXPENSIVE_RUN_JOBS = 1000
"""Number of jobs from which a run with limits or a formula is expensive."""
_HOLDERS = {"u": "its user", "o": "an operator", "s": "an administrator or PBS", "p": "PBS, for a wrong password"}
"""Who holds a job, by the letter of Hold_Types."""
_CROSSES = "Job would cross dedicated time boundary"
"""What the scheduler says of a job that would not end before a dedicated time."""
MAX_JOBS_ONCE = 3000
"""Number of jobs from which a single run is too expensive with several reservations, or with each vnode."""


@dataclass(frozen=True, slots=True)
class QueueModel:
    """Jobs of a live server on a machine, at the moment ``now`` (epoch seconds).

    The first jobs run: ``starts`` says since when, ``planned`` what the scheduler takes for the runtime of each, in
    seconds.  The others wait, in the scheduler's order; those with a later ``submitted`` are delayed until then.
    ``shares`` is what each job takes of the pools in ``pooling``, which is ``None`` where there are only processors.
    ``ordering`` are the values that the scheduler's formula knows as ``predicted``; empty if it has none.
    ``vnodes`` are the vnodes on which jobs are placed, empty if there is only one or all are ``one_pool``; ``placed``
    is what running jobs hold of them.
    """

    jobs: Jobs
    starts: tuple[int, ...]
    planned: Sequence[int]
    now: int
    processors: int
    policy: SchedulerPolicy
    pooling: Pooling | None = None
    shares: tuple[Shares, ...] = ()
    ordering: tuple[float, ...] = ()
    vnodes: tuple[Vnodes, ...] = ()
    placed: Mapping[int, Placement] = field(default_factory=dict)
    one_pool: bool = False

    @property
    def running(self) -> int:
        return len(self.starts)

    def elapsed(self, job: int) -> int:
        return self.now - self.starts[job] if job < len(self.starts) else 0

    def affordable_runs(self) -> int:
        """Runs with drawn runtimes that take some seconds."""
        count, placed = len(self.jobs), self.pooling is not None or bool(self.vnodes)
        if count < (MAX_JOBS_OFTEN if placed else EXPENSIVE_RUN_JOBS) or (self.policy.order == "fcfs" and not placed):
            return RUNS
        # Each start changes the order, or what is left of pools and vnodes.
        expensive = count >= EXPENSIVE_RUN_JOBS and (placed or self.policy.order == "fairshare")
        return FEWER_RUNS // 3 if expensive else FEWER_RUNS

    def as_one_pool(self) -> "QueueModel":
        """Return the model with all vnodes as one pool."""
        return replace(self, vnodes=(), one_pool=True)

    def quick(self, jobs: int = 0) -> "QueueModel":
        """Return the model for hundreds of runs: with many jobs, only the first reservation is planned.

        :param jobs: number of jobs of another model, which must be simplified alike.
        """
        return self._with_one_reservation(MAX_JOBS_OFTEN, jobs)

    def feasible(self) -> "QueueModel":
        """Return the model for a single run, simplified only for very many jobs."""
        plain = self.pooling is None and not self.vnodes
        return self._with_one_reservation(MAX_JOBS_ONCE if plain else MAX_JOBS_OFTEN)

    def _with_one_reservation(self, least: int, jobs: int = 0) -> "QueueModel":
        policy = self.policy
        if (
            max(len(self.jobs), jobs) < least
            or policy.backfill != "pbs"
            or not policy.strict_ordering
            or (policy.depth is None and not policy.queue_depths)
        ):
            return self
        plain = self.pooling is None and not self.vnodes and policy.order != "fairshare"
        backfill = "easy" if plain else "pbs"
        return replace(self, policy=replace(policy, backfill=backfill, depth=None, queue_depths=()))

    def run(self, runtimes: Sequence[int], until: Sequence[int] = ()) -> ScheduleOutcome:
        """Simulate the scheduler with these runtimes in seconds until all waiting jobs have started."""
        return next(self.runs([runtimes], until))

    def runs(self, drawn: Iterable[Sequence[int]], until: Sequence[int] = ()) -> Iterator[ScheduleOutcome]:
        """Yield the schedule of :meth:`run` for each draw of the runtimes of all jobs."""
        values: Values | None = None
        windows = self.pooling.windows if self.pooling is not None else ()
        requests = VnodeRequests(VnodeLayout(self.vnodes), self.jobs) if self.vnodes else None
        for runtimes in drawn:
            jobs = replace(self.jobs, runtime=tuple(runtimes))
            machine = self._pools() if requests is None else VnodeMachine(self._pools(), requests, self.placed)
            engine = Engine(jobs, machine, self.policy, values=values)
            # The scheduler does not know runtimes, so all runs have the same values.
            values = engine.system.values
            if self.ordering:
                values.ordering[:] = self.ordering
            engine.resume(self.starts, self.planned, self.now, [window.end for window in windows])
            yield engine.run(until=until or range(len(self.starts), len(jobs)))

    def _pools(self) -> Machine:
        if self.pooling is None:
            return Processors(self.processors, self.jobs.processors)
        ends = [start + walltime for start, walltime in zip(self.starts, self.jobs.walltime, strict=False)]
        # More processors may be held than vnodes are up.
        capacities = [self.processors, *self.pooling.capacities[1:]]
        return Pools(capacities, self.shares, self.jobs.walltime, self.pooling.windows, ends)


@dataclass(frozen=True, slots=True)
class Impossible:
    """A job for which there is no forecast, and why, in one sentence."""

    job: LiveJob
    reason: str


@dataclass(frozen=True, slots=True)
class ModelledQueue:
    """A snapshot and its model; ``live`` are its jobs by position, ``impossible`` those that it cannot forecast.

    ``remarks``: features of the server that are not modelled.
    """

    snapshot: ServerSnapshot
    model: QueueModel
    live: tuple[LiveJob, ...]
    impossible: tuple[Impossible, ...]
    remarks: tuple[str, ...]

    @property
    def ids(self) -> list[str]:
        return [job.submission.job_id for job in self.live]


def model_of(snapshot: ServerSnapshot, probes: Sequence[LiveJob] = (), running: str = SOFT_WALLTIME) -> ModelledQueue:
    """Return the model of a server.

    :param probes: jobs that wait behind all others of their queue, as if they had just been submitted.
    :param running: value with which running jobs are planned: their soft walltime, or ``walltime`` if the site's hook
        raises it at start.
    """
    pooling = Pooling(snapshot)
    size = pooling.processors
    # Jobs inside a reservation use its processors, which are taken as a whole.
    occupied = [job for job in snapshot.jobs if job.occupies and not pooling.inside_queue(job.submission.queue)]
    used = sum(pooling.held(job) for job in occupied)
    remarks = unsupported(snapshot, pooling)
    vnodes = ServerVnodes(snapshot.vnodes, considered_resources(snapshot.scheduler))
    several = len(vnodes.kinds) > 1
    if pooled := _one_pool(snapshot, len(probes)) if several else "":
        remarks.append(f"{len(vnodes.kinds):,} vnodes are one pool, which has room for more jobs: {pooled}")
    one_by_one = several and not pooled
    if used > size:
        remarks.append(f"running jobs hold {used:,} processors, vnodes that are up have {size:,}: {used:,} are assumed")
        size = used
    waiting = [job for job in (*snapshot.jobs, *probes) if not job.occupies]
    reasons = [_why_not(job, size, snapshot, pooling, vnodes if one_by_one else None) for job in waiting]
    impossible = tuple(Impossible(job, reason) for job, reason in zip(waiting, reasons, strict=True) if reason)
    formula = usable_formula(snapshot.scheduler, with_usage=knows_usage(snapshot.scheduler))
    waiting = [job for job, reason in zip(waiting, reasons, strict=True) if not reason]
    waiting.sort(key=_place(snapshot))
    live = (*occupied, *waiting)
    now = snapshot.taken
    policy = _policy(snapshot, formula, waiting, running, pooled=pooling.needed or one_by_one)
    if policy.order != "fcfs":
        policy = replace(policy, queues=queues_in_turn(snapshot))
    processors = tuple(pooling.held(job) for job in live)
    shares = tuple(pooling.shares(job.submission, count) for job, count in zip(live, processors, strict=True))
    model = QueueModel(
        _columns(live, processors, snapshot),
        tuple(min(job.start or now, now) for job in occupied),
        tuple(job.soft_walltime or limit(job.submission) for job in occupied),
        now,
        size,
        policy,
        pooling if pooling.needed else None,
        shares,
        tuple(job.predicted or float(limit(job.submission)) for job in live) if formula else (),
        vnodes.kinds if one_by_one else (),
        {place: held for place, job in enumerate(occupied) if (held := vnodes.held(job)) is not None},
        bool(pooled),
    )
    if model.feasible() is not model:
        remarks.append("one reservation in place of several, as there are very many jobs")
    elif model.quick() is not model:
        remarks.append("ranges are those of one reservation in place of several, as there are many jobs")
    return ModelledQueue(snapshot, model, live, impossible, tuple(remarks))


def planned_running(policy: SitePolicy) -> str:
    """Return the value with which a site plans running jobs, for :func:`model_of`."""
    return WALLTIME if policy.mode == "on" and policy.running == WALLTIME else SOFT_WALLTIME


def limit(submission: Submission) -> int:
    """The walltime as the scheduler takes it, in seconds."""
    return submission.walltime or submission.max_walltime or UNLIMITED_WALLTIME_S


def _one_pool(snapshot: ServerSnapshot, probes: int) -> str:
    """Why the model has several vnodes as one pool, a few words; empty where it has each.

    :param probes: number of jobs besides those of the snapshot.
    """
    if not plans_ahead(snapshot.scheduler):
        return "backfill_depth is 0"
    if (count := len(snapshot.jobs) + probes) >= MAX_JOBS_ONCE:
        return f"there are {count:,} jobs"
    return why_not_executable()


def _why_not(job: LiveJob, size: int, snapshot: ServerSnapshot, pooling: Pooling, vnodes: ServerVnodes | None) -> str:
    """Why there is no forecast for a waiting job, one sentence; empty if there is one.

    :param vnodes: ``None`` where all are one pool: the search for room is compiled code, which may be forbidden.
    """
    if job.state == SUSPENDED:
        return "it is suspended: when it resumes is not predicted"
    if job.depends and job.holds:
        return f"it waits for other jobs ({job.depends}) and cannot start before they end"
    if job.holds:
        holders = " and ".join(_HOLDERS[kind] for kind in job.holds if kind in _HOLDERS) or "PBS"
        return f"it is held by {holders} (Hold_Types = {job.holds}) and cannot start before it is released"
    if job.state == DELAYED and job.execution_time is None:
        return "it is delayed, and until when cannot be read"
    if job.state not in (QUEUED, DELAYED):
        return f"its state is {job.state or 'unknown'}"
    if job.lacks and not (job.lacks.startswith(_CROSSES) and any(r.name == DEDICATED for r in snapshot.reservations)):
        return f"PBS says: {job.lacks}; when that ends is not predicted"
    needed = pooling.held(job)
    if needed > size:
        return f"it needs {needed:,} processors, the vnodes that are up have {size:,}"
    queue = next((candidate for candidate in snapshot.queues if candidate.name == job.submission.queue), None)
    if queue is not None and not queue.started:
        return f"queue {queue.name} is stopped"
    if job.submission.queue.startswith(snapshot.scheduler.dedicated_prefix):
        return f"queue {job.submission.queue} runs jobs in dedicated time only"
    if not snapshot.scheduler.scheduling:
        return "the server's scheduling is off"
    if never := pooling.why_never(job.submission, pooling.shares(job.submission, needed)):
        return never
    has_room = vnodes is None or vnodes.have_room(job.submission)
    return "" if has_room else "the vnodes that are up are too small for its chunks"


def _place(snapshot: ServerSnapshot) -> Callable[[LiveJob], tuple[int, int]]:
    """Return a sort key for jobs in order of arrival: queue by queue where the scheduler goes so; delayed ones last."""
    places = {name: index for index, name in enumerate(queues_in_turn(snapshot))}

    def key(job: LiveJob) -> tuple[int, int]:
        later = job.execution_time if job.state == DELAYED and job.execution_time is not None else 0
        return max(later - snapshot.taken, 0), places.get(job.submission.queue, len(places))

    return key


def _columns(live: Sequence[LiveJob], processors: tuple[int, ...], snapshot: ServerSnapshot) -> Jobs:
    records = []
    now = snapshot.taken
    priorities = {queue.name: queue.priority for queue in snapshot.queues}
    for job in live:
        since = now - job.eligible_time if job.eligible_time is not None else job.etime or job.qtime
        submitted = min(job.submission.submitted if since is None else since, now)
        if job.state == DELAYED and job.execution_time is not None:
            submitted = max(job.execution_time, now)
        submission = replace(job.submission, submitted=submitted)
        soft = job.soft_walltime
        records.append(CompletedJob(submission, "", None, now, 1, soft_walltime=soft))
    return Jobs(
        JobColumns.of(records),
        tuple(record.submission.submitted for record in records),
        processors,
        tuple(limit(job.submission) for job in live),
        (1,) * len(live),
        (False,) * len(live),
        {},
        tuple((priorities.get(job.submission.queue, 0), job.priority) for job in live),
    )


def _policy(
    snapshot: ServerSnapshot, formula: str, waiting: Sequence[LiveJob], running: str, *, pooled: bool
) -> SchedulerPolicy:
    scheduler = snapshot.scheduler
    shares, _ = usable_shares(scheduler)
    policy = replace(
        scheduler_policy(scheduler, formula), waiting=SOFT_WALLTIME, running=running, minimum=1, fair_share=shares,
        queue_depths=queue_depths(snapshot),
    )  # fmt: skip
    if scheduler.fair_share and not formula and knows_usage(scheduler):
        return replace(policy, order="fairshare")
    values = {(limit(job.submission), job.submission.ncpus, job.soft_walltime) for job in waiting}
    classes = {(walltime, ncpus) for walltime, ncpus, _ in values}
    one_value = policy.classes_by_value or len(values) == len(classes)
    one_depth = policy.depth is None and not policy.queue_depths
    if policy.backfill == "pbs" and one_depth and policy.strict_ordering and one_value and not pooled:
        # With one reservation and classes of jobs that have one value, EASY makes the same decisions, faster.
        return replace(policy, backfill="easy")
    return policy


MAX_PLANNED_JOBS: Final = 1000
"""Maximum waiting jobs to plan, the first ones by arrival."""


def planned_starts(snapshot: ServerSnapshot, arrived: Mapping[str, int], jobs: Collection[str]) -> dict[str, int]:
    """Return the planned start of these jobs by id, in epoch seconds, at least the time of the snapshot.

    All jobs run for their walltime, in order of arrival with EASY backfilling.  Limits on running jobs, reservations
    and vnodes count as in forecasts.  Jobs that are held, can never run, or are behind the first
    :data:`MAX_PLANNED_JOBS` have none.

    :param arrived: when jobs took their place in that order, epoch seconds; others, when PBS let them wait.
    """

    def arrival(job: LiveJob) -> int:
        known = arrived.get(job.submission.job_id)
        return known if known is not None else job.etime or job.qtime or job.submission.submitted

    waiting = sorted((job for job in snapshot.jobs if job.state == QUEUED and not job.held), key=arrival)
    occupying = [job for job in snapshot.jobs if job.occupies]
    scheduler = replace(snapshot.scheduler, formula="", by_queue=False, scheduling=True)
    queue = model_of(replace(snapshot, jobs=(*occupying, *waiting[:MAX_PLANNED_JOBS]), scheduler=scheduler))
    walltimes, first = queue.model.jobs.walltime, queue.model.running
    backfill = "easy" if queue.model.pooling is None and not queue.model.vnodes else "pbs"
    model = replace(queue.model, policy=SchedulerPolicy(minimum=1, backfill=backfill), planned=walltimes[:first])
    ids = queue.ids
    wanted = [index for index in range(first, len(ids)) if ids[index] in jobs]
    if not wanted:
        return {}
    starts = model.run(walltimes, wanted).start
    return {ids[index]: int(starts[index]) for index in wanted}
