"""PBS's fair share: what counts as usage and when, and the order by it and by its terms in a formula."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from softwalltime.core.jobs import CompletedJob
from softwalltime.measure.replay.job_columns import JobColumns
from softwalltime.measure.simulation.engine import Engine, simulate
from softwalltime.measure.simulation.fair_share import CountedUsage, entity_names
from softwalltime.measure.simulation.machine import Processors
from softwalltime.measure.simulation.orders import FairShare, Formula, Order
from softwalltime.measure.simulation.planned_values import Values
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.shares import FairShareSettings, ShareGroup, share_groups
from softwalltime.measure.simulation.simulated_jobs import Jobs, jobs_of
from tests.samples import job


def started(workload: Jobs, processors: int, **policy: object) -> list[str]:
    """Ids of the jobs in order of their start."""
    outcome = simulate(workload, processors, SchedulerPolicy(**policy))  # type: ignore[arg-type]
    return [workload.completed[index].submission.job_id for index in np.argsort(outcome.start, kind="stable")]


def order_of(records: Sequence[CompletedJob], **settings: object) -> FairShare:
    """The order of jobs in which nobody has used anything."""
    workload = jobs_of(records)
    policy = SchedulerPolicy(order="fairshare", fair_share=FairShareSettings(**settings))  # type: ignore[arg-type]
    return FairShare(workload, Values(workload, policy, list(workload.runtime)), policy)


def counted(order: Order) -> CountedUsage:
    assert order.usage is not None
    return order.usage


def ranking(order: FairShare, jobs: int) -> list[int]:
    """Jobs by priority, ties by submission."""
    return order.ranked(np.arange(jobs), 0).tolist()


def test_the_user_who_used_less_comes_first() -> None:
    records = [job("heavy", submitted=0, runtime=1000, walltime=1000, ncpus=1, job_id="0")]
    records += [job("heavy", submitted=10, runtime=100, ncpus=1, job_id="1")]
    records += [job("light", submitted=20, runtime=100, ncpus=1, job_id="2")]
    assert started(jobs_of(records), 1, order="fairshare") == ["0", "2", "1"]
    assert started(jobs_of(records), 1, order="fcfs") == ["0", "1", "2"]


def test_a_start_counts_at_once_with_all_that_was_requested() -> None:
    # Both users are equal; the start of the first job makes the other user next, at the same instant.
    records = [
        job(user, submitted=submitted, walltime=1000, ncpus=1, job_id=name)
        for user, submitted, name in (("a", 0, "0"), ("b", 0, "x"), ("a", 5, "1"), ("a", 5, "2"), ("b", 5, "3"))
    ]
    # Runtimes are equal, so both processors are free at one instant.
    for backfill in ("none", "pbs"):
        assert started(jobs_of(records), 2, order="fairshare", backfill=backfill)[2:4] == ["1", "3"]


def test_in_the_next_cycle_a_running_job_counts_with_what_it_has_used() -> None:
    # a requests ten times as much as b, and has used as much: a's next job was submitted first.
    records = [job("a", submitted=0, runtime=100, walltime=1000, ncpus=1, job_id="0")]
    records += [job("b", submitted=0, runtime=100, walltime=100, ncpus=1, job_id="1")]
    records += [job("a", submitted=10, runtime=10, walltime=10, ncpus=1, job_id="2")]
    records += [job("b", submitted=20, runtime=10, walltime=10, ncpus=1, job_id="3")]
    order = order_of(records)
    counted(order).started(0)
    counted(order).started(1)
    assert ranking(order, 4)[0] == 1, "in the cycle of the start"
    counted(order).begin_cycle(50)
    assert ranking(order, 4) == [0, 1, 2, 3]


def test_a_top_job_counts_until_the_end_of_the_cycle() -> None:
    order = order_of([job("a", walltime=1000, ncpus=1), job("b", walltime=10, ncpus=1), job("a", ncpus=1)])
    counted(order).requested(0)
    assert ranking(order, 3) == [1, 0, 2]
    counted(order).begin_cycle(1)
    assert ranking(order, 3) == [0, 1, 2]
    # a2 is planned as the top job, so b comes before a3, which would fit too.
    records = [job("a", submitted=0, runtime=100, walltime=100, ncpus=3, job_id="a1")]
    records += [job("b", submitted=0, runtime=100, walltime=100, ncpus=1, job_id="b1")]
    records += [job("a", submitted=50, runtime=500, walltime=500, ncpus=4, job_id="a2")]
    records += [job("a", submitted=51, runtime=10, walltime=10, ncpus=1, job_id="a3")]
    records += [job("c", submitted=0, runtime=60, walltime=60, ncpus=1, job_id="c1")]
    records += [job("b", submitted=52, runtime=10, walltime=10, ncpus=1, job_id="b2")]
    assert started(jobs_of(records), 5, order="fairshare", backfill="pbs").index("b2") == 3


def test_usage_after_the_last_cycle_is_not_counted_and_usage_is_halved_every_day() -> None:
    order = order_of([job("a", submitted=0, runtime=1700, walltime=5000, ncpus=8)])
    counted(order).started(0)
    counted(order).ended(0, 1700)
    first = np.array([0])
    for now, usage in ((1700, 9601), (86400, 9601), (86401, 9601 / 2), (4 * 86400, 9601 / 8), (99 * 86400, 1)):
        counted(order).begin_cycle(now)
        assert order.priorities(first, now)[0] == -usage


TREE = """
# name  number  parent  shares
physics  50  root  30
chemistry 60  root  10
alice    51  physics  2
bob      52  physics  1
carol    61  chemistry  1
alice    62  chemistry  5
dan      xx  chemistry  5
eve      63  biology  5
"""


def test_lines_with_an_error_do_not_count() -> None:
    assert [group.name for group in share_groups(TREE)] == ["physics", "chemistry", "alice", "bob", "carol"]


def test_a_group_comes_before_the_users_in_it() -> None:
    users = ["alice", "bob", "carol", "frank"]
    order = order_of(
        [job(user, walltime=600, ncpus=1) for user in users], groups=tuple(share_groups(TREE)), unknown_shares=0
    )
    assert ranking(order, 4) == [0, 1, 2, 3], "who has no share is last"
    counted(order).requested(0)
    assert ranking(order, 4) == [2, 1, 0, 3], "bob pays for alice's usage too"
    counted(order).requested(2)
    assert ranking(order, 4) == [1, 0, 2, 3], "600 for 30 shares are less than 600 for 10"


def test_a_user_may_have_the_name_of_the_root() -> None:
    users = ["root", "alice"]
    records = [job(user, walltime=600, ncpus=1) for user in users]
    for groups in ("physics 50 root 30\nalice 51 physics 1", "root 50 root 30\nalice 51 root 1"):
        order = order_of(records, groups=tuple(share_groups(groups)), unknown_shares=10)
        counted(order).requested(0)
        assert ranking(order, 2) == [1, 0]
        counted(order).requested(1)
        assert ranking(order, 2) == ([1, 0] if "physics" in groups else [0, 1])


@pytest.mark.parametrize(
    ("entity", "names"),
    [
        ("euser", ["a", "b"]), ("egroup", ["g", "g"]), ("Account_Name", ["x", "g:b"]), ("queue", ["q", "r"]),
        ("egroup:euser", ["g:a", "g:b"]),
    ],
)  # fmt: skip
def test_whose_usage_is_counted(entity: str, names: list[str]) -> None:
    records = JobColumns.of([job("a", group="g", account="x", queue="q"), job("b", group="g", queue="r")])
    assert entity_names(records, entity) == names  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ("ncpus*walltime", 8000),
        ("cput", 500),
        ("cput/walltime*60", 30),
        ("mem", 100),
        ("-ncpus", 0),
        ("ncpus/ngpus", 0),
    ],
)
def test_the_usage_is_an_expression(usage: str, expected: float) -> None:
    order = order_of([job(runtime=1000, walltime=3000, ncpus=8, cput=500, mem=2**30, mem_used=102400)], usage=usage)
    counted(order).started(0)
    counted(order).begin_cycle(1000)
    assert order.priorities(np.array([0]), 1000)[0] == pytest.approx(-1 - expected)


def test_terms_of_fair_share_in_a_formula() -> None:
    users = ["alice", "bob", "carol", "frank"]
    workload = jobs_of([job(user, submitted=0, runtime=300, walltime=300, ncpus=1000) for user in users])
    settings = FairShareSettings(groups=tuple(share_groups(TREE)), unknown_shares=10)

    def values(formula: str) -> list[float]:
        policy = SchedulerPolicy(order="formula", formula=formula, fair_share=settings)
        order = Formula(workload, Values(workload, policy, list(workload.runtime)), policy)
        counted(order).started(0)
        counted(order).begin_cycle(200)
        counted(order).started(2)
        counted(order).begin_cycle(300)
        return order.priorities(np.arange(4), 300).tolist()

    # The values in the log of OpenPBS 23.06.06 with this file, unknown_shares: 10, pbsfs -s alice 300000 and -s carol
    # 100000.
    assert values("fairshare_perc * 1e6") == [400000, 200000, 200000, 200000]
    assert values("fair_share_perc * 1e6") == [400000, 200000, 200000, 200000]
    assert values("fairshare_tree_usage * 1e6") == pytest.approx([750000, 250002, 250002, 2], abs=1)
    assert values("fairshare_factor * 1e8") == pytest.approx([27262700, 42044500, 42044500, 99999104], abs=200)


class Node:
    """A node of a plain tree."""

    def __init__(self, name: str, shares: float, parent: "Node | None") -> None:
        self.name, self.shares, self.parent = name, shares, parent
        self.children: list[Node] = []
        self.used = 1.0
        if parent is not None:
            parent.children.append(self)

    @property
    def percentage(self) -> float:
        if self.parent is None:
            return 1.0
        whole = sum(child.shares for child in self.parent.children)
        return self.parent.percentage * (self.shares / whole) if whole else 0.0

    def path(self) -> "list[Node]":
        return [] if self.parent is None else [*self.parent.path(), self]

    def __lt__(self, other: "Node") -> bool:
        for mine, its in zip(self.path(), other.path(), strict=False):
            if mine is its:
                continue
            if mine.percentage <= 0 or its.percentage <= 0:
                return mine.percentage > its.percentage
            if mine.used / mine.percentage != its.used / its.percentage:
                return mine.used / mine.percentage < its.used / its.percentage
        return False


@given(
    st.lists(st.integers(0, 3), min_size=3, max_size=3),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=6),
    st.lists(st.integers(0, 7), max_size=12),
    st.integers(0, 2),
)
@example([2, 0, 2], [(0, 3), (2, 1), (0, 3), (2, 1)], [], 1)  # equal shares, if divided as PBS does
def test_the_order_is_that_of_a_plain_tree(
    groups: list[int], users: list[tuple[int, int]], requests: list[int], unknown_shares: int
) -> None:
    root = Node("root", 0, None)
    nodes = {"unknown": Node("unknown", unknown_shares, root)}
    tree = []
    for number, shares in enumerate(groups):
        nodes[f"g{number}"] = Node(f"g{number}", shares, root)
        tree.append(ShareGroup(f"g{number}", "root", shares))
    for number, (group, shares) in enumerate(users):
        nodes[f"u{number}"] = Node(f"u{number}", shares, nodes[f"g{group}"])
        tree.append(ShareGroup(f"u{number}", f"g{group}", shares))
    names = [f"u{number}" for number in range(8)]
    for name in names:
        if name not in nodes:
            nodes[name] = Node(name, 1, nodes["unknown"])
    records = [job(name, walltime=60 * (number + 1), ncpus=1) for number, name in enumerate(names)]
    order = order_of(records, groups=tuple(tree), unknown_shares=unknown_shares)
    for request in requests:
        counted(order).requested(request)
        for node in nodes[names[request]].path():
            node.used += 60 * (request + 1)
    found = [nodes[names[index]] for index in ranking(order, 8)]
    assert not any(later < earlier for earlier, later in pairwise(found))


def test_the_engine_counts_cycles_starts_and_ends() -> None:
    workload = jobs_of(
        [job("a", submitted=0, runtime=1000, walltime=1000, ncpus=8), job("b", submitted=600, runtime=1, ncpus=8)]
    )
    engine = Engine(workload, Processors(8, workload.processors), SchedulerPolicy(order="fairshare"))
    usage = engine.system.order
    assert usage is not None
    seen = []
    engine.run(progress=lambda _: seen.append(usage.priorities(np.array([0]), 0)[0]))
    # What a used after the cycle of b's submission is less than what it uses between two cycles.
    assert seen == [-2 * (1 + 8 * 600)]
