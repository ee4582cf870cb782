"""A synthetic workload: jobs of a published model, submitted in sessions of users.

Sizes, runtimes of sessions given their sizes, the daily cycle and the times between submissions follow the model of
Lublin and Feitelson (:mod:`.lublin`), requests that of Tsafrir (:mod:`.estimates`).  Differences to the model:

- The model's jobs are independent.  History-based predictors need users who repeat jobs, so jobs come in sessions of
  one user and application with one size, one request and similar runtimes, up to log-normal noise.  Preferences of
  users and applications decide which session gets which of the model's draws; they do not change the draws.
- Some jobs fail early, are deleted, or are killed at their walltime; some applications always are.
- All times between submissions are scaled by one factor, so that the offered load is :data:`LOAD`, not about 0.36.
- After each :data:`BLOCK` jobs no job is submitted until all have ended, as before a maintenance of the machine.
- An array job is one arrival.  Weekends are like weekdays, hours are in UTC, and nodes are ignored for job starts.

Parameters outside the model were set by hand.  The statistics of the result lie within or near the range of five logs
of the Parallel Workloads Archive: KTH-SP2, SDSC-SP2, HPC2N, LLNL-Atlas and CEA-Curie.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from softwalltime.core.errors import UsageError
from softwalltime.core.jobs import CompletedJob, Submission
from softwalltime.measure.simulation.engine import simulate
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.simulated_jobs import UNLIMITED_WALLTIME_S, Floats, Integers, jobs_of
from softwalltime.measure.workloads import estimates, lublin

Flags = NDArray[np.bool_]

LOAD = 0.7
"""Offered load.  The model's many wide jobs cause waits of hours to days at this load; a much higher one saturates."""
START = 1_704_067_200
"""2024-01-01T00:00Z, a Monday."""
SERVER = "pbs1"
BLOCK = 100_000
"""Jobs that are generated together, at most: they need 1.2 kB of memory each."""
LATEST = 253_370_764_800
"""9999-01-01T00:00Z: submissions begin earlier, because calendars have no year 10,000."""
CORES = 8
"""Processors of one node, the size of the chunks in a select statement."""

ACTIVITY = 0.8
"""Zipf exponent of the users' activity: of 100 users the first submits 12%, the first five 33%."""
OWN = 1.0
"""Similarity of one user's applications, relative to their differences."""
SCATTER = 0.25
"""Deviation of a session from its application's preferences, on the same scale."""
REPETITION = 1.2
"""Pareto exponent of the number of jobs in a session: most have 1, some 100, the mean is 3.6."""
MAX_SESSION_JOBS = 100
BUDGET = lublin.DAY // 2
"""Time (s) for which a session may fill the machine; a larger session is split."""
BURST_SHARE = 0.6
"""Share of a session's jobs that follow at once; about 10 other jobs come before each of the others."""
ARRAY = 0.1
"""Share of sessions of four jobs or more that are one array job."""

UNLIMITED = 0.003
"""Share of submissions without a walltime."""
MAXIMISTS = 0.07
"""Share of applications that always request the greatest walltime."""
ENDLESS = 0.05
"""Share of applications that run until they are killed and continue from a checkpoint."""
DELETED = 0.012
"""Share of jobs deleted by their user while running."""
WRONG = 0.02
"""Share of jobs that end with an error after their full runtime."""
STILLBORN = 0.06
"""Mean share of an application's jobs that fail within seconds."""

DONE, FAILED, QDEL, KILLED = 0, 1, 271, -29
"""Exit_status: success, error, deleted while running (256 + SIGTERM), killed by PBS at its walltime."""

JOB_NAMES = (
    "relax", "scf", "bands", "phonon", "md_prod", "equil", "minimize", "docking", "fep", "cfd_steady", "cfd_les",
    "mesh", "train", "finetune", "blast", "align", "assembly", "variant_call", "wrf", "ocean", "lattice", "montecarlo",
    "render", "post", "STDIN", "run.sh", "job", "test",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Applications:
    """Applications: one entry of each array per application of a user."""

    user: Integers
    group: Integers
    project: Integers
    name: Integers
    weight: Floats  # relative frequency
    size: Floats  # preference: the greater, the more processors
    runtime: Floats  # preference: the greater, the longer
    spread: Floats  # standard deviation of ln(runtime) within a session
    margin: Floats  # preferred ratio of request to expected runtime
    stillborn: Floats
    maximist: Flags
    endless: Flags
    busy: Floats  # cput / (ncpus x runtime)
    gigabytes: Integers  # memory per processor
    filled: Floats  # share of that memory used


@dataclass(frozen=True, slots=True)
class _Sessions:
    """Sessions of jobs of one application, ordered by their first job; one entry per session."""

    begin: Floats  # position of the first job in the order of submissions
    application: Integers
    jobs: Integers
    size: Integers
    runtime: Integers
    request: Integers
    array: Flags


@dataclass(frozen=True, slots=True)
class _Jobs:
    """The jobs in the order of submission; one entry per job."""

    session: Integers
    number: Integers  # of the submission, from 1; the subjobs of an array share it
    index: Integers  # of a subjob, from 0
    unlimited: Flags
    runtime: Integers
    exit_status: Integers


def generate(
    jobs: int, *, seed: int = 1, users: int = 100, processors: int = 128, start: int = START, scripts: bool = False
) -> list[CompletedJob]:
    """Generate ``jobs`` completed jobs in order of submission: by ``ctime``, job number and array index.

    The same arguments always give the same jobs; a smaller workload is not a prefix of a larger one.  Submissions begin
    at ``start`` (epoch seconds).  Subjobs count as jobs.  With ``scripts`` each application is a script of its user.

        >>> [(job.submission.job_id, job.submission.user, job.submission.walltime, job.runtime) for job in generate(2)]
        [('1.pbs1', 'user069', 600, 17), ('2.pbs1', 'user014', 300, 244)]
    """
    blocks = generate_blocks(jobs, seed=seed, users=users, processors=processors, start=start, scripts=scripts)
    return [job for block in blocks for job in block]


def generate_blocks(
    jobs: int, *, seed: int = 1, users: int = 100, processors: int = 128, start: int = START, scripts: bool = False
) -> Iterator[list[CompletedJob]]:
    """Yield the jobs of :func:`generate` in blocks; all jobs of a block end before those of the next are submitted.

    :raises UsageError: if an argument is out of range, also later: if the jobs take longer than calendars go.
    """
    if jobs < 0 or users < 1 or processors < 1 or not 0 <= seed < 2**32:
        raise UsageError(
            "a workload needs jobs >= 0, users >= 1, processors >= 1 and 0 <= seed < 2^32, "
            f"not {jobs}, {users}, {processors} and {seed}"
        )
    random = np.random.RandomState(seed)
    applications = _applications(random, users)
    submissions = 0
    for first in range(0, jobs, BLOCK):
        if start >= LATEST:
            raise UsageError(f"{first:,} jobs on {processors:,} processors last until 9999: use more processors")
        count = min(BLOCK, jobs - first)
        block, submissions = _block(random, applications, count, submissions, processors, start, scripts)
        yield block
        start = max(job.end for job in block)


def _block(
    random: np.random.RandomState, applications: _Applications, jobs: int, before: int, processors: int, start: int,
    scripts: bool,
) -> tuple[list[CompletedJob], int]:  # fmt: skip
    """Return the next jobs, and the number of the last submission; ``before``: of the last one of earlier blocks."""
    sessions = _sessions(random, applications, jobs, processors)
    drawn = _draw_jobs(random, applications, sessions)
    submitted = _submission_times(random, sessions, drawn, processors, start)
    requests = np.where(drawn.unlimited, UNLIMITED_WALLTIME_S, sessions.request[drawn.session])
    starts = start_times(
        submitted, sessions.size[drawn.session].tolist(), drawn.runtime.tolist(), requests.tolist(), processors
    )
    numbered = replace(drawn, number=drawn.number + before)
    return _records(random, applications, sessions, numbered, submitted, starts, scripts), int(numbered.number[-1])


def _applications(random: np.random.RandomState, users: int) -> _Applications:
    """The population: groups of about six users, one to three projects a group, two to five applications a user."""
    activity = random.permutation(np.arange(1, users + 1) ** -ACTIVITY)
    groups = math.ceil(users / 6)
    group_of_user = random.randint(groups, size=users, dtype=np.int64)
    projects = random.randint(1, 4, size=groups, dtype=np.int64)
    first_project = np.cumsum(projects) - projects + 1

    user = np.repeat(np.arange(users), random.randint(2, 6, size=users, dtype=np.int64))
    group = group_of_user[user]
    count = len(user)
    share = random.standard_exponential(count) ** 2
    share /= np.bincount(user, weights=share)[user]
    return _Applications(
        user=user,
        group=group,
        project=first_project[group] + (random.random_sample(count) * projects[group]).astype(np.int64),
        name=random.randint(len(JOB_NAMES), size=count, dtype=np.int64),
        weight=activity[user] * share,
        size=OWN * random.standard_normal(users)[user] + random.standard_normal(count),
        runtime=OWN * random.standard_normal(users)[user] + random.standard_normal(count),
        spread=np.minimum(0.15 * np.exp(random.standard_normal(count)), 0.8),
        margin=np.exp(0.6 * random.standard_normal(count)),
        stillborn=STILLBORN * random.standard_exponential(count).clip(max=5),
        maximist=random.random_sample(count) < MAXIMISTS,
        endless=random.random_sample(count) < ENDLESS,
        busy=random.uniform(0.7, 0.99, size=count),
        gigabytes=2 ** random.randint(4, size=count, dtype=np.int64),
        filled=random.uniform(0.1, 0.9, size=count),
    )


def _sessions(random: np.random.RandomState, applications: _Applications, jobs: int, processors: int) -> _Sessions:
    """Sessions of ``jobs`` jobs in all: who submits what, how many of it, and with which request."""
    # In a small workload a session has at most 2% of the jobs.
    longest = min(MAX_SESSION_JOBS, max(1, jobs // 50))
    lengths = np.minimum((1.0 - random.random_sample(jobs)) ** (-1 / REPETITION), longest).astype(np.int64)
    total = np.cumsum(lengths)
    count = int(np.searchsorted(total, jobs)) + 1
    lengths = lengths[:count]
    lengths[-1] -= total[count - 1] - jobs

    weight = np.cumsum(applications.weight)
    application = np.searchsorted(weight, random.random_sample(count) * weight[-1], side="right")
    taste = applications.size[application] + SCATTER * random.standard_normal(count)
    size = _deal(taste, lengths, lublin.draw_sizes(random, jobs, processors))
    taste = applications.runtime[application] + SCATTER * random.standard_normal(count)
    runtime = np.zeros(count, dtype=np.int64)
    for value in np.unique(size):
        same = np.flatnonzero(size == value)
        draws = lublin.draw_runtimes(random, np.full(lengths[same].sum(), value))
        runtime[same] = _deal(taste[same], lengths[same], draws)

    which, lengths = _split(lengths, np.ceil(lengths * size * runtime / (BUDGET * processors)).astype(np.int64))
    begin = random.random_sample(len(which)) * jobs
    order = np.argsort(begin, kind="stable")
    which, lengths = which[order], lengths[order]
    application, size, runtime = application[which], size[which], runtime[which]

    fresh = estimates.draw_requests(random, runtime, applications.margin[application])
    fresh[applications.maximist[application]] = estimates.MAXIMUM
    request = estimates.repeat_requests(application, runtime, fresh)
    # Applications that run until they are killed request no margin.
    request = np.where(applications.endless[application], estimates.shortest_requests(runtime), request)
    array = (lengths >= 4) & (random.random_sample(len(lengths)) < ARRAY)
    return _Sessions(begin[order], application, lengths, size, runtime, request, array)


def _deal(taste: Floats, lengths: Integers, draws: Integers) -> Integers:
    """Assign the model's ``draws``, one per job, to sessions in ascending order of ``taste``.

    Each session gets the median of the sorted draws of its jobs, which preserves the model's distribution over jobs.
    """
    order = np.argsort(taste, kind="stable")
    filled = np.cumsum(lengths[order])
    values = np.empty(len(taste), dtype=np.int64)
    values[order] = np.sort(draws)[filled - (lengths[order] + 1) // 2]
    return values


def _split(lengths: Integers, parts: Integers) -> tuple[Integers, Integers]:
    """Split lengths into nearly equal ``parts`` of at least 1; return the source index and length of each part."""
    parts = np.minimum(parts, lengths)
    which = np.repeat(np.arange(len(lengths)), parts)
    part = np.arange(len(which)) - (np.cumsum(parts) - parts)[which]
    return which, lengths[which] // parts[which] + (part < lengths[which] % parts[which])


def _draw_jobs(random: np.random.RandomState, applications: _Applications, sessions: _Sessions) -> _Jobs:
    """Draw the jobs of the sessions, in order of submission, and their outcomes."""
    session = np.repeat(np.arange(len(sessions.jobs)), sessions.jobs)
    count = len(session)
    first = np.cumsum(sessions.jobs) - sessions.jobs

    # Positions in the order of submissions: jobs of a session follow at once or some jobs later, subjobs together.
    steps = np.where(random.random_sample(count) < BURST_SHARE, 0.1, 10.0) * random.standard_exponential(count)
    steps[sessions.array[session]] = 0.0
    walked = np.cumsum(steps)
    order = np.argsort(sessions.begin[session] + (walked - walked[first][session]), kind="stable")
    session, index = session[order], (np.arange(count) - first[session])[order]
    number = np.cumsum(~sessions.array[session] | (index == 0))
    unlimited = (random.random_sample(count) < UNLIMITED)[number - 1]

    application = sessions.application[session]
    request = sessions.request[session]
    runtime = sessions.runtime[session] * np.exp(applications.spread[application] * random.standard_normal(count))
    runtime = np.where(applications.endless[application], request + 1.0, runtime)
    fate = random.random_sample(count)
    exit_status = np.where(fate < WRONG, FAILED, DONE)
    deleted = (fate >= WRONG) & (fate < WRONG + DELETED)
    exit_status[deleted] = QDEL
    runtime = np.where(deleted, np.minimum(runtime, request) * random.random_sample(count), runtime)
    stillborn = random.random_sample(count) < applications.stillborn[application]
    exit_status[stillborn] = FAILED
    runtime = np.where(stillborn, np.minimum(runtime, 15.0 * random.standard_exponential(count)), runtime)

    killed = ~unlimited & (runtime > request)
    exit_status[killed] = KILLED
    late = random.randint(1, 10, size=count, dtype=np.int64)  # PBS checks every few seconds
    seconds = np.where(killed, request + late, np.floor(runtime)).astype(np.int64)
    return _Jobs(session, number, index, unlimited, seconds, exit_status)


def _submission_times(
    random: np.random.RandomState, sessions: _Sessions, drawn: _Jobs, processors: int, start: int
) -> list[int]:
    """Return submission times (epoch seconds) with an offered load of :data:`LOAD`."""
    used = int((sessions.size[drawn.session] * drawn.runtime).sum())
    elapsed = np.cumsum(lublin.draw_gaps(random, int(drawn.number[-1])))
    elapsed *= used / (LOAD * processors) / elapsed[-1]
    arrivals = np.floor(lublin.apply_daily_cycle(elapsed, start % lublin.DAY)).astype(np.int64)
    result: list[int] = (start + arrivals[drawn.number - 1]).tolist()
    return result


def start_times(
    submitted: list[int], sizes: list[int], runtimes: list[int], requests: list[int], processors: int
) -> list[int]:
    """Return start times (epoch seconds) of rigid jobs in order of submission, by arrival and EASY backfilling.

    None may exceed the machine.  A job past its walltime counts as about to end.
    """
    jobs = replace(jobs_of(()), submitted=submitted, processors=sizes, walltime=requests, runtime=runtimes)
    outcome = simulate(jobs, processors, SchedulerPolicy(kill_at_walltime=False, correction="none"))
    starts: list[int] = outcome.start.tolist()
    return starts


def _records(
    random: np.random.RandomState, applications: _Applications, sessions: _Sessions, drawn: _Jobs,
    submitted: list[int], starts: list[int], scripts: bool,
) -> list[CompletedJob]:  # fmt: skip
    application = sessions.application[drawn.session]
    busy = applications.busy[application] * random.uniform(0.95, 1.0, size=len(application))
    cput = np.floor(sessions.size[drawn.session] * drawn.runtime * busy).astype(np.int64)
    requests = [_request(applications, sessions, session) for session in range(len(sessions.jobs))]
    # Memory use grows during the first minute; PBS counts kilobytes.
    filled = applications.filled[application] * (1.0 - np.exp(-(drawn.runtime + 1) / 20.0))
    filled *= random.uniform(0.9, 1.0, size=len(application))
    memory = np.array([request.mem or 0 for request in requests], dtype=np.int64)[drawn.session]
    used = np.floor(filled * memory / 1024).astype(np.int64) * 1024

    records = []
    columns = (drawn.session, drawn.number, drawn.index, drawn.unlimited, drawn.runtime, drawn.exit_status, cput, used)
    rows = zip(*(column.tolist() for column in columns), submitted, starts, strict=True)
    for session, number, index, unlimited, runtime, exit_status, cpu_seconds, mem_used, ctime, begin in rows:
        asked = requests[session]
        walltime = None if unlimited else asked.walltime
        submission = replace(
            asked, job_id=f"{number}[{index}].{SERVER}" if sessions.array[session] else f"{number}.{SERVER}",
            submitted=ctime, walltime=walltime, queue=_queue(walltime),
            script=f"script{sessions.application[session]}" if scripts else "",
        )  # fmt: skip
        record = CompletedJob(
            submission=submission, server=SERVER, start=begin, end=begin + runtime, runtime=runtime, qtime=ctime,
            etime=ctime, exit_status=exit_status, run_count=1, cput=cpu_seconds, mem_used=mem_used,
        )  # fmt: skip
        records.append(record)
    return records


def _request(applications: _Applications, sessions: _Sessions, session: int) -> Submission:
    """Return the submission of every job of a session, without job id, time and queue."""
    application = int(sessions.application[session])
    size = int(sessions.size[session])
    gigabytes = int(applications.gigabytes[application])
    nodes, rest = divmod(size, CORES)
    chunks = [(nodes, CORES)] * (nodes > 0) + [(1, rest)] * (rest > 0)
    return Submission(
        job_id="",
        user=f"user{applications.user[application] + 1:03}",
        submitted=0,
        walltime=int(sessions.request[session]),
        group=f"group{applications.group[application] + 1:02}",
        project=f"project{applications.project[application]:02}",
        job_name=JOB_NAMES[applications.name[application]],
        ncpus=size,
        nodect=sum(count for count, _ in chunks),
        mem=size * gigabytes << 30,
        select="+".join(f"{count}:ncpus={cores}:mem={cores * gigabytes}gb" for count, cores in chunks),
        place="scatter" if nodes > 1 else "pack",
    )


def _queue(walltime: int | None) -> str:
    """Return the queue that a routing queue would select by walltime (s)."""
    if walltime is None or walltime > 24 * estimates.HOUR:
        return "long"
    return "short" if walltime <= 2 * estimates.HOUR else "medium"
