"""Machines of vnodes: which of them a job takes, and whom that makes wait."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softwalltime.measure.simulation.engine import Engine, machine_of, simulate
from softwalltime.measure.simulation.placement import (
    MAX_CHUNK_KINDS,
    Placement,
    VnodeCalendar,
    VnodeMachine,
    VnodeRequests,
)
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.resources import RunLimit, Vnodes
from softwalltime.measure.simulation.simulated_jobs import Jobs, jobs_of
from tests.samples import job

GB = 1 << 30
PBS = SchedulerPolicy(backfill="pbs")
FOUR = (Vnodes(2, 4),)


def starts(*selects: str, vnodes: tuple[Vnodes, ...] = FOUR, place: str = "", queue: str = "q") -> list[int]:
    """Submit jobs of 100 s with these selects at once, the last one with place and queue; return when they start."""
    records = [
        job(
            user="a", submitted=0, runtime=100, walltime=100, job_id=str(number), select=select,
            ncpus=sum(int(count) * int(size) for count, size in (part.split(":")[:2] for part in plain(select))),
            place=place if number == len(selects) - 1 else "", queue=queue if number == len(selects) - 1 else "q",
        )
        for number, select in enumerate(selects)
    ]  # fmt: skip
    policy = replace(PBS, vnodes=vnodes)
    processors = sum(kind.count * kind.ncpus for kind in vnodes)
    return simulate(jobs_of(records, vnodes=vnodes), processors, policy).start.tolist()


def plain(select: str) -> list[str]:
    return select.replace("ncpus=", "").split("+")


def test_a_chunk_is_on_one_vnode() -> None:
    assert starts("1:ncpus=3", "1:ncpus=3", "1:ncpus=2") == [0, 0, 100]
    assert starts("1:ncpus=3", "1:ncpus=3", "2:ncpus=1") == [0, 0, 0]
    assert starts("2:ncpus=3", "1:ncpus=1+1:ncpus=1") == [0, 0]
    assert starts("2:ncpus=3", "1:ncpus=1+1:ncpus=2") == [0, 100]


def test_vnodes_are_filled_in_their_order() -> None:
    # The first job is on the first vnode, so the third finds the second one empty.
    assert starts("1:ncpus=1", "1:ncpus=3", "1:ncpus=4") == [0, 0, 0]


@pytest.mark.parametrize(
    ("select", "place", "start"),
    [
        ("2:ncpus=2", "free", 0),
        ("2:ncpus=2", "pack", 0),
        ("2:ncpus=2", "scatter", 100),
        ("2:ncpus=1", "scatter", 0),
        ("1:ncpus=1+1:ncpus=1", "vscatter", 0),
        ("1:ncpus=2+1:ncpus=1", "scatter", 0),
        ("1:ncpus=2+1:ncpus=2", "scatter", 100),
        ("2:ncpus=1", "excl", 0),
        ("1:ncpus=4+1:ncpus=1", "excl", 100),
    ],
)
def test_arrangements(select: str, place: str, start: int) -> None:
    """One vnode has one free processor, the other one four."""
    assert starts("1:ncpus=3", select, place=place)[-1] == start


def test_vnodes_of_a_queue_memory_and_gpus() -> None:
    vnodes = (Vnodes(1, 4, mem=8 * GB), Vnodes(1, 4, "own", mem=8 * GB), Vnodes(1, 4, mem=8 * GB, ngpus=1))
    assert starts("2:ncpus=3", "1:ncpus=3", vnodes=vnodes) == [0, 100]
    assert starts("2:ncpus=3", "1:ncpus=3", vnodes=vnodes, queue="own") == [0, 0]
    assert starts("1:ncpus=1:mem=6gb", "1:ncpus=1:mem=6gb", "1:ncpus=1:mem=6gb", vnodes=vnodes) == [0, 0, 100]
    assert starts("1:ncpus=1:ngpus=1", "1:ncpus=1:ngpus=1", vnodes=vnodes) == [0, 100]


@pytest.mark.parametrize("select", ["1:ncpus=5", "+".join(f"1:ncpus={1 + n % 2}" for n in range(MAX_CHUNK_KINDS + 1))])
def test_a_request_beyond_the_vnodes_counts_as_single_processors(select: str) -> None:
    vnodes = (Vnodes(20, 4),)
    # Each vnode has one processor left.
    assert starts("20:ncpus=3", select, vnodes=vnodes) == [0, 0]


@pytest.mark.parametrize(
    "select",
    [
        "1:ncpus=1+9223372036854775807:ncpus=0", f"{'9' * 30}:ncpus=1+1:ncpus=1", f"1:ncpus=1:mem={'9' * 30}tb",
        "1:ncpus=1:mem=1tb:ngpus=9223372036854775807", "1:ncpus=-1", "0:ncpus=4",
        "2147483647:ncpus=2147483647:mem=8388607tb", ":", "1:ncpus=1:mem=8e9", f"{1 << 59}:mem=1b",
    ],
)  # fmt: skip
@pytest.mark.parametrize("place", ["", "pack", "scatter", "excl"])
def test_a_hostile_request_ends_no_simulation(select: str, place: str) -> None:
    records = [
        job(user="a", submitted=0, runtime=9, walltime=9, ncpus=1, select=each, place=place, job_id=each)
        for each in (select, "1:ncpus=1")
    ]
    jobs, refused = jobs_of(records, vnodes=FOUR).that_fit(8)
    assert simulate(jobs, 8, replace(PBS, vnodes=FOUR)).start.tolist() == [0] * (2 - refused)


def starts_of(vnodes: int, *wanted: tuple[int, int, int]) -> list[int]:
    """Submit jobs of 100 s with these chunks, processors of each and walltimes to vnodes of 4; return their starts."""
    records = [
        job(
            user="a", submitted=0, runtime=100, walltime=walltime, ncpus=count * size, job_id=str(number),
            select=f"{count}:ncpus={size}",
        )
        for number, (count, size, walltime) in enumerate(wanted)
    ]  # fmt: skip
    return simulate(jobs_of(records), 4 * vnodes, replace(PBS, vnodes=(Vnodes(vnodes, 4),))).start.tolist()


@pytest.mark.parametrize(("walltime", "start"), [(100, 0), (101, 200)])
def test_a_job_on_a_vnode_of_the_top_job_must_end_before_its_start(walltime: int, start: int) -> None:
    assert starts_of(2, (1, 4, 100), (2, 4, 100), (1, 4, walltime)) == [0, 100, start]


def test_jobs_may_run_on_beside_the_top_job_where_it_leaves_processors() -> None:
    # One processor of each vnode is left; the third job has gone by then, so both others may run on.
    assert starts_of(3, (1, 4, 100), (3, 3, 100), (1, 1, 100), (1, 1, 200), (1, 1, 200)) == [0, 100, 0, 0, 0]


def test_a_start_may_be_planned_that_was_not_searched_for() -> None:
    jobs = jobs_of(
        [
            job(user="a", submitted=0, runtime=60, walltime=60, ncpus=size, select=f"1:ncpus={size}", job_id=f"{size}")
            for size in (3, 2)
        ]
    )
    policy = replace(PBS, vnodes=FOUR)
    calendar = machine_of(jobs, 8, policy).calendar(0, [])
    calendar.occupy(0, 50, 110)
    calendar.occupy(0, 50, 110)
    assert not calendar.fits(1, 0, 60)
    assert calendar.fits(1, 0, 50)
    assert calendar.earliest(1, 60) == 110


def test_limits_hold_beside_vnodes() -> None:
    records = [
        job(user="a", submitted=0, runtime=100, walltime=100, ncpus=1, select="1:ncpus=1", job_id=str(number))
        for number in range(3)
    ]
    limits = (RunLimit("", "u", "PBS_GENERIC", "", 2),)
    policy = replace(PBS, vnodes=FOUR, limits=limits)
    assert simulate(jobs_of(records), 8, policy).start.tolist() == [0, 0, 100]


def test_a_machine_of_another_size_or_jobs_without_select_are_a_pool() -> None:
    some = jobs_of([job(user="a", submitted=0, runtime=9, walltime=9, ncpus=1, select="1:ncpus=1")])
    none = jobs_of([job(user="a", submitted=0, runtime=9, walltime=9, ncpus=1)])
    policy = replace(PBS, vnodes=FOUR)
    machines = [machine_of(some, 8, policy), machine_of(some, 9, policy), machine_of(none, 8, policy)]
    assert [isinstance(machine, VnodeMachine) for machine in machines] == [True, False, False]


CASES = st.lists(
    st.tuples(
        st.integers(0, 40), st.integers(1, 4), st.integers(1, 5), st.integers(1, 30), st.integers(1, 30),
        st.sampled_from(["free", "scatter", "pack"]),
    ),
    min_size=1, max_size=14,
)  # fmt: skip
VNODES = (Vnodes(3, 4), Vnodes(2, 3))
CAPACITY = [4, 4, 4, 3, 3]


def jobs_in(cases: list[tuple[int, int, int, int, int, str]]) -> Jobs:
    records = [
        job(
            user="a", submitted=submitted, runtime=min(runtime, walltime), walltime=walltime, ncpus=count * size,
            select=f"{count}:ncpus={size}", place=place, job_id=f"{number:03}",
        )
        for number, (submitted, size, count, runtime, walltime, place) in enumerate(cases)
        if place == "free" or count * size <= 4
    ]  # fmt: skip
    return jobs_of(records).that_fit(sum(CAPACITY))[0]


@dataclass
class Reference:
    """PBS's cycle on vnodes, second by second: what is planned is a table of processors by vnode and second."""

    jobs: Jobs
    depth: int
    start: list[int] = field(default_factory=list)

    def run(self) -> list[int]:
        jobs, horizon = self.jobs, 2000
        requests = [(select, place) for select, place in jobs.completed.rows("select", "place")]
        self.start = [-1] * len(jobs)
        held: dict[int, list[int]] = {}
        ended: set[int] = set()
        for now in range(horizon):
            ended |= {number for number in held if now == self.start[number] + jobs.runtime[number]}
            new = any(time == now for time in jobs.submitted)
            if not new and not any(now == self.start[number] + jobs.runtime[number] for number in held):
                continue
            used = np.zeros((len(CAPACITY), 2 * horizon), np.int64)
            for number in held.keys() - ended:
                end = max(self.start[number] + jobs.walltime[number], now + 1)
                used[:, now:end] += np.array(held[number])[:, None]
            ends = {max(self.start[number] + jobs.walltime[number], now + 1) for number in held.keys() - ended}
            tops = 0
            for number in range(len(jobs)):
                if jobs.submitted[number] > now or self.start[number] >= 0:
                    continue
                found = self.find(requests[number], used[:, now : now + jobs.walltime[number]])
                if found is not None:
                    self.start[number], held[number] = now, found
                    used[:, now : now + jobs.walltime[number]] += np.array(found)[:, None]
                    ends.add(now + jobs.walltime[number])
                elif tops < self.depth:
                    tops += 1
                    for time in sorted(ends):
                        found = self.find(requests[number], used[:, time : time + jobs.walltime[number]])
                        if found is not None:
                            used[:, time : time + jobs.walltime[number]] += np.array(found)[:, None]
                            ends.add(time + jobs.walltime[number])
                            break
        return self.start

    def find(self, request: tuple[str, str], used: np.ndarray) -> list[int] | None:
        free = [capacity - most for capacity, most in zip(CAPACITY, used.max(axis=1).tolist(), strict=True)]
        select, place = request
        count, size = (int(part) for part in select.replace("ncpus=", "").split(":"))
        room = [each // size for each in CAPACITY]
        if place == "scatter":
            room = [min(each, 1) for each in room]
        if place != "pack" and sum(room) < count:
            count, size, place = count * size, 1, "free"
        if place == "pack":
            count, size = 1, count * size
        taken = [0] * len(free)
        for _ in range(count):
            for vnode in range(len(free)):
                if free[vnode] - taken[vnode] >= size and not (place == "scatter" and taken[vnode]):
                    taken[vnode] += size
                    break
            else:
                return None
        return taken


@settings(max_examples=150, deadline=None)
@given(CASES, st.integers(1, 3))
def test_schedules_equal_a_plain_implementation(cases: list[tuple[int, int, int, int, int, str]], depth: int) -> None:
    jobs = jobs_in(cases)
    # Each job has a walltime of its own, so that no job marks another one of its class as not runnable.
    jobs = replace(jobs, walltime=tuple(100 + 30 * number + walltime for number, walltime in enumerate(jobs.walltime)))
    policy = replace(PBS, depth=depth if depth > 1 else None, vnodes=VNODES)
    assert simulate(jobs, sum(CAPACITY), policy).start.tolist() == Reference(jobs, depth).run()


@settings(max_examples=100, deadline=None)
@given(CASES)
def test_no_top_job_is_delayed_and_no_vnode_overcommitted(cases: list[tuple[int, int, int, int, int, str]]) -> None:
    jobs = jobs_in([(*case[:3], case[4], *case[4:]) for case in cases])
    policy = replace(PBS, vnodes=VNODES)
    machine = machine_of(jobs, sum(CAPACITY), policy)
    if not isinstance(machine, VnodeMachine):
        return
    allocate = machine.allocate

    def checked(number: int) -> None:
        allocate(number)
        assert machine.free.min() >= 0
        assert machine.placed[number].amounts[0].sum() == jobs.processors[number]

    machine.allocate = checked  # type: ignore[method-assign]  # the test looks at each start
    outcome = Engine(jobs, machine, policy).run()
    promised = outcome.promise >= 0
    assert (outcome.start[promised] <= outcome.promise[promised]).all()


@pytest.mark.parametrize(("kind", "name"), [(VnodeRequests, "may_fit"), (VnodeCalendar, "candidates")])
def test_a_long_queue_gives_the_schedule_of_testing_each_job(
    kind: type, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(1)
    records = [
        job(
            user="a", submitted=int(submitted), runtime=int(runtime), walltime=300, ncpus=int(count * size),
            select=f"{count}:ncpus={size}:mem={mem}gb", job_id=f"{number:03}",
        )
        for number, (submitted, runtime, count, size, mem) in enumerate(
            zip(
                np.sort(random.integers(0, 600, 400)), random.integers(10, 300, 400), random.integers(1, 4, 400),
                random.integers(1, 5, 400), random.integers(1, 9, 400), strict=True,
            )
        )
    ]  # fmt: skip
    jobs, policy = jobs_of(records), replace(PBS, vnodes=(Vnodes(8, 4, mem=8 * GB),))
    starts = simulate(jobs, 32, policy).start
    asked: list[int] = []

    def all_may(_: VnodeRequests | VnodeCalendar, some: np.ndarray, *values: np.ndarray) -> np.ndarray:
        asked.append(len(some))
        return np.ones(len(some), np.bool_)

    monkeypatch.setattr(kind, name, all_may)
    assert simulate(jobs, 32, policy).start.tolist() == starts.tolist()
    assert max(asked) > 10


def test_requests_that_no_vnode_has_room_for_are_not_searched_for_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user may send thousands of requests, no two alike: each search would cost the report time in each cycle."""
    held = [
        job(
            user="a", submitted=number, runtime=9000, walltime=9000, ncpus=1, select="1:ncpus=1:mem=5gb",
            job_id=f"a{number}",
        )
        for number in range(8)
    ]  # fmt: skip
    waiting = [
        job(
            user="b", submitted=100 + number, runtime=60, walltime=600 + number, ncpus=1, job_id=f"b{number:03}",
            select=f"1:ncpus=1:mem={4000 + number}mb",
        )
        for number in range(300)
    ]  # fmt: skip
    policy = replace(PBS, vnodes=(Vnodes(8, 4, mem=8 * GB),))
    machine = machine_of(jobs_of(held + waiting), 32, policy)
    assert isinstance(machine, VnodeMachine)
    searches = 0
    find = machine.requests.find

    def counted(number: int, free: np.ndarray) -> Placement | None:
        nonlocal searches
        searches += 1
        return find(number, free)

    monkeypatch.setattr(machine.requests, "find", counted)
    outcome = Engine(jobs_of(held + waiting), machine, policy).run()
    assert outcome.start[-1] >= 9000
    # Some ten for each job.  One by one, each arrival would search for all jobs that wait.
    assert searches < 20 * len(outcome.start)
