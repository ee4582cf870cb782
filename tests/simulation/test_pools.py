"""Machines of several pools: limits on running jobs, GPUs and reserved windows."""

from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np
import pytest

from softwalltime.core.errors import UsageError
from softwalltime.measure.simulation.engine import Engine, ScheduleOutcome, check, simulate
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.pools import Pools, Shares, Window
from softwalltime.measure.simulation.resources import RunLimit, Vnodes
from softwalltime.measure.simulation.simulated_jobs import Jobs, jobs_of
from tests.samples import job


def limited(jobs: Jobs, processors: int, most: int) -> Pools:
    """Processors, and at most so many processors for each user at one time."""
    users = {user: number for number, user in enumerate(dict.fromkeys(jobs.completed.values("user")), 1)}
    shares: list[Shares] = [
        ((0, need), (users[user], need))
        for need, user in zip(jobs.processors, jobs.completed.values("user"), strict=True)
    ]
    return Pools([processors, *(most for _ in users)], shares, jobs.walltime)


def reserved(jobs: Jobs, processors: int, *windows: Window) -> ScheduleOutcome:
    """The schedule on a machine of processors with these windows."""
    machine = Pools([processors], [((0, need),) for need in jobs.processors], jobs.walltime, windows)
    engine = Engine(jobs, machine, SchedulerPolicy(backfill="pbs"))
    engine.resume((), (), 0, [window.end for window in windows])
    return engine.run()


@pytest.mark.parametrize(
    "policy",
    [
        SchedulerPolicy(backfill="none", order="sjf"),
        SchedulerPolicy(backfill="none"),
        SchedulerPolicy(backfill="pbs"),
        SchedulerPolicy(backfill="pbs", waiting="factor:0.5", order="sjf"),
        SchedulerPolicy(backfill="pbs", depth=3),
    ],
)
def test_pools_of_processors_alone_are_plain_processors(jobs: Jobs, policy: SchedulerPolicy) -> None:
    shares: list[Shares] = [((0, need),) for need in jobs.processors]
    plain, pooled = simulate(jobs, 64, policy), Engine(jobs, Pools([64], shares, jobs.walltime), policy).run()
    assert np.array_equal(plain.start, pooled.start)


EACH, ALL = ("u", "PBS_GENERIC"), ("o", "PBS_ALL")


@pytest.mark.parametrize(
    ("limits", "starts"),
    [
        ((), [0, 0, 0, 0, 0]),
        ([RunLimit("", *EACH, "", 1)], [0, 100, 0, 0, 200]),
        ([RunLimit("", *EACH, "ncpus", 4)], [0, 0, 0, 0, 100]),
        ([RunLimit("", *EACH, "ncpus", 1)], [0, 100, 0, 0, 200]),
        ([RunLimit("gpu", *ALL, "", 1)], [0, 0, 0, 100, 0]),
        ([RunLimit("", *EACH, "", 1), RunLimit("", "u", "a", "", 3)], [0, 0, 0, 0, 0]),
        ([RunLimit("", *ALL, "ngpus", 3)], [0, 0, 0, 100, 0]),
        ([RunLimit("", *ALL, "ngpus", 9), RunLimit("", *ALL, "ngpus", 3)], [0, 0, 0, 100, 0]),
        ([RunLimit("", *ALL, "mem", 10)], [0, 0, 0, 0, 0]),
        ([RunLimit("", *EACH, "", 0)], [0, 0, 0, 0, 0]),
    ],
)
def test_limits_of_a_policy(limits: list[RunLimit], starts: list[int]) -> None:
    records = [
        job(user, submitted=0, runtime=100, walltime=100, ncpus=2, job_id=str(number), queue=queue, ngpus=gpus)
        for number, (user, queue, gpus) in enumerate(
            (("a", "q", 0), ("a", "q", 0), ("b", "gpu", 2), ("c", "gpu", 2), ("a", "q", 0))
        )
    ]
    policy = SchedulerPolicy(backfill="pbs", limits=tuple(limits), strict_ordering=False)
    check(policy)
    assert simulate(jobs_of(records), 16, policy).start.tolist() == starts


@pytest.mark.parametrize(
    ("vnodes", "starts"),
    [
        ((), [0, 0, 0, 0, 100]),
        ((Vnodes(5, 4),), [0, 0, 0, 0, 100]),
        ((Vnodes(4, 4), Vnodes(1, 4, "gpu")), [0, 0, 0, 100, 200]),
        ((Vnodes(2, 4), Vnodes(2, 4, "gpu"), Vnodes(1, 4, "other")), [0, 100, 0, 0, 100]),
        ((Vnodes(5, 4, "gpu"),), [0, 0, 0, 0, 100]),
    ],
)
def test_vnodes_of_queues(vnodes: tuple[Vnodes, ...], starts: list[int]) -> None:
    asked = (("q", 6), ("q", 4), ("gpu", 4), ("gpu", 2), ("gpu", 12))
    records = [
        job(submitted=0, runtime=100, walltime=100, ncpus=ncpus, job_id=str(number), queue=queue)
        for number, (queue, ncpus) in enumerate(asked)
    ]
    policy = SchedulerPolicy(backfill="pbs", vnodes=vnodes, strict_ordering=False)
    check(policy)
    assert simulate(jobs_of(records, vnodes=vnodes), 20, policy).start.tolist() == starts


PLAIN, WHOLE = (Vnodes(4, 8),), (Vnodes(4, 8, "", "force_excl"), Vnodes(2, 6, "", "force_exclhost"))


@pytest.mark.parametrize(
    ("vnodes", "request_", "processors"),
    [
        (PLAIN, (2, 1, "2:ncpus=1", "free"), 2),
        (PLAIN, (2, 1, "2:ncpus=1", "free:excl"), 8),
        (PLAIN, (2, 2, "2:ncpus=1", "scatter:exclhost"), 16),
        (PLAIN, (10, 5, "5:ncpus=2", "pack:excl"), 16),
        (PLAIN, (18, None, "", "excl"), 24),
        (PLAIN, (18, None, "what:ncpus=is", "excl"), 24),
        (PLAIN, (9, 1, "1:ncpus=9", "excl"), 9),
        (WHOLE, (2, 1, "2:ncpus=1", "free"), 8),
        (WHOLE, (2, 1, "2:ncpus=1", "shared"), 8),
        ((Vnodes(4, 8, "", "default_excl"),), (2, 1, "2:ncpus=1", "free"), 8),
        ((Vnodes(4, 8, "", "default_excl"),), (2, 1, "2:ncpus=1", "free:shared"), 2),
        ((Vnodes(4, 8, "", "ignore_excl"),), (2, 1, "2:ncpus=1", "free:excl"), 2),
        ((*PLAIN, *WHOLE), (2, 1, "2:ncpus=1", "free"), 2),
        ((*PLAIN, Vnodes(1, 12, "gpu", "force_excl")), (2, 1, "2:ncpus=1", "free"), 2),
        ((*WHOLE, Vnodes(1, 12, "q", "default_shared")), (2, 1, "2:ncpus=1", "free"), 2),
    ],
)
def test_a_job_takes_whole_vnodes(
    vnodes: tuple[Vnodes, ...], request_: tuple[int, int | None, str, str], processors: int
) -> None:
    ncpus, nodect, select, place = request_
    records = [job(ncpus=ncpus, nodect=nodect, select=select, place=place, queue="q")]
    found = jobs_of(records, vnodes=vnodes)
    assert (found.processors, found.requested.tolist()) == ((processors,), [ncpus])
    assert jobs_of(records).processors == (ncpus,)


def test_limits_do_not_suit_every_backfilling() -> None:
    for policy in ({"backfill": "slack"}, {"backfill": "conservative"}, {"backfill": "sjbf"}, {}):
        with pytest.raises(UsageError):
            check(SchedulerPolicy(limits=(RunLimit("", *EACH, "", 1),), **policy))  # type: ignore[arg-type]


def plain_easy(jobs: Jobs, processors: int, most: int, key: Callable[[int], float]) -> list[int]:
    """Starts under EASY with walltimes where each user holds at most so many processors, job by job.

    :param key: the least comes first in the queue.
    """
    users = list(jobs.completed.values("user"))
    start = [-1] * len(jobs)
    ends: list[tuple[int, int, int]] = []
    """Of the running jobs: end, planned end, job."""

    def free(used: Iterable[int]) -> tuple[int, Counter[str]]:
        held = Counter[str]()
        for each in used:
            held[users[each]] += jobs.processors[each]
        return processors - held.total(), held

    def fits(job: int, used: Iterable[int]) -> bool:
        left, held = free(used)
        return jobs.processors[job] <= min(left, most - held[users[job]])

    def run(job: int, now: int) -> None:
        start[job] = now
        ends.append((now + min(jobs.runtime[job], jobs.walltime[job]), now + jobs.walltime[job], job))

    submitted = 0
    while submitted < len(jobs) or ends:
        now = min([end for end, _, _ in ends] + list(jobs.submitted[submitted : submitted + 1]))
        ends = [each for each in ends if each[0] > now]
        while submitted < len(jobs) and jobs.submitted[submitted] <= now:
            submitted += 1
        queue = sorted((job for job in range(submitted) if start[job] < 0), key=lambda job: (key(job), job))
        while queue and fits(queue[0], [job for *_, job in ends]):
            run(queue.pop(0), now)
        if not queue:
            continue
        head, *others = queue
        shadow = min(
            planned for _, planned, _ in ends if fits(head, [job for _, later, job in ends if later > planned])
        )
        for other in others:
            then = [head, *(each for _, planned, each in ends if planned > shadow)]
            left, held = free(then)
            late = now + jobs.walltime[other] > shadow
            harmless = jobs.processors[other] <= left and (
                users[other] != users[head] or jobs.processors[other] <= most - held[users[other]]
            )
            if fits(other, [each for *_, each in ends]) and (not late or harmless):
                run(other, now)
    return start


@pytest.mark.parametrize(
    ("order", "key"), [("fcfs", lambda jobs, job: 0.0), ("sjf", lambda jobs, job: jobs.walltime[job])]
)
def test_the_cycle_of_pbs_with_one_top_job_decides_as_plain_easy_does(
    jobs: Jobs, order: str, key: Callable[[Jobs, int], float]
) -> None:
    some = jobs.that_fit(24)[0].chosen(range(500))
    cycle = Engine(some, limited(some, 64, 24), SchedulerPolicy(order=order, backfill="pbs")).run()
    assert cycle.start.tolist() == plain_easy(some, 64, 24, lambda job: key(some, job))
    free = simulate(some, 64, SchedulerPolicy(order=order))
    assert (cycle.start - free.start).mean() > 60, "the limit matters"


def test_no_user_ever_holds_more_than_the_limit(jobs: Jobs) -> None:
    some = jobs.that_fit(24)[0]
    found = Engine(some, limited(some, 64, 24), SchedulerPolicy(backfill="pbs")).run()
    users = list(some.completed.values("user"))
    held: Counter[str] = Counter()
    most = 0
    changes = [(end, 0, index) for index, end in enumerate((found.start + found.duration).tolist())]
    changes += [(start, 1, index) for index, start in enumerate(found.start.tolist())]
    for _, starts, index in sorted(changes):
        held[users[index]] += some.processors[index] if starts else -some.processors[index]
        most = max(most, *held.values())
    assert most == 24


def test_jobs_keep_clear_of_a_reserved_window_by_their_walltime() -> None:
    jobs = jobs_of(
        [
            job("a", submitted=0, walltime=200, runtime=50, ncpus=4, job_id="long"),
            job("b", submitted=1, walltime=100, runtime=50, ncpus=4, job_id="fits"),
            job("c", submitted=2, walltime=900, runtime=90, ncpus=2, job_id="beside"),
        ]
    )
    # Of 6 processors 4 are reserved from 150 to 400.
    found = reserved(jobs, 6, Window(150, 400, 4))
    assert dict(zip(jobs.completed.values("job_id"), found.start.tolist(), strict=True)) == {
        "long": 400, "fits": 1, "beside": 2,
    }  # fmt: skip


@pytest.mark.parametrize("backfill", ["none", "pbs"])
def test_windows_stay_free(jobs: Jobs, backfill: str) -> None:
    begin = jobs.submitted[0]
    windows = [Window(begin + 86400 * day, begin + 86400 * day + 20_000, 40) for day in range(1, 6)]
    shares: list[Shares] = [((0, need),) for need in jobs.processors]
    engine = Engine(jobs, Pools([64], shares, jobs.walltime, windows), SchedulerPolicy(backfill=backfill))
    engine.resume((), (), begin, [window.end for window in windows])
    found = engine.run()
    end = found.start + np.minimum(found.duration, jobs.walltime)
    for window in windows:
        inside = (found.start < window.end) & (end > window.start)
        times = np.concatenate([found.start[inside], [window.start]])
        times = times[(times >= window.start) & (times < window.end)]
        used = [int((np.array(jobs.processors)[(found.start <= time) & (end > time)]).sum()) for time in times]
        assert max(used) <= 24
    assert (found.start >= 0).all()
