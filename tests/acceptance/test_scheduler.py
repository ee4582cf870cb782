"""The simulator's PBS cycle against the real pbs_sched, decision by decision, with the same sleeping jobs."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softwalltime.measure.forecast.site_scheduler import site_scheduler
from softwalltime.measure.forecast.snapshot import load_snapshot
from softwalltime.measure.simulation.engine import simulate
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.resources import Vnodes
from softwalltime.measure.simulation.shares import ShareGroup
from softwalltime.measure.simulation.simulated_jobs import jobs_of
from tests.acceptance.conftest import DEFAULTS, ServedDaemon
from tests.acceptance.cycles import compare
from tests.acceptance.lab import Lab
from tests.acceptance.presets import FORMULAS, preset, recorded_waits, softwalltime
from tests.acceptance.sleeping import Sleeper, recorded, run, workload

JOBS = 40
FORMULA = "-(soft_walltime or walltime)"
"""Shortest first."""


@pytest.fixture
def processors(lab: Lab, strict: None) -> int:
    """Processors of the server's only node, which only this test uses; the queue is in strict order."""
    found = re.findall(r"resources_available\.ncpus = (\d+)", lab.must("pbsnodes", "-a"))
    assert len(found) == 1, "the comparison needs a server with one node"
    assert not lab.must("qselect", "-s", "EHQRTW"), "the comparison needs a server without jobs"
    return int(found[0])


@pytest.fixture(autouse=True)
def exact(lab: Lab) -> Iterator[None]:
    """The scheduler plans top jobs to the second; by default it takes together what ends within one minute."""
    lab.qmgr("set sched opt_backfill_fuzzy = off")
    yield
    lab.qmgr("unset sched opt_backfill_fuzzy")


@pytest.fixture
def half(lab: Lab, tmp_path: Path, database: str) -> Iterator[None]:
    """Our hook and daemon set half the walltime while a job waits, and the walltime at its start."""
    daemon = ServedDaemon(tmp_path, database, "factor:0.5")
    daemon.start()
    lab.install({**DEFAULTS, "socket": str(daemon.socket), "deadline_ms": 500}, tmp_path)
    yield
    daemon.kill()


@pytest.fixture
def by_formula(lab: Lab) -> Iterator[None]:
    """The scheduler sorts jobs by FORMULA."""
    lab.qmgr(f"set server job_sort_formula = '{FORMULA}'")
    yield
    lab.qmgr("unset server job_sort_formula")


SHARES = {"alice": "10 root 20", "guests": "11 root 40", "bob": "12 guests 10"}
"""carol is unknown."""


@pytest.fixture
def by_fair_share(lab: Lab) -> Iterator[None]:
    """The scheduler sorts jobs by fair share, nobody has used anything, and it learns each second what jobs use."""
    path = lab.home / "mom_priv" / "config"
    before = path.read_text()

    def write(text: str) -> None:
        path.write_text(text)
        lab.must("kill", "-HUP", (lab.home / "mom_priv" / "mom.lock").read_text().strip())

    write(f"{before}\n$min_check_poll 1\n$max_check_poll 1\n")
    # One unit is what PBS begins with.
    with lab.fair_share(SHARES, {"alice": 1, "bob": 1}):
        yield
    write(before)


def policy_of_the_site(lab: Lab, folder: Path) -> SchedulerPolicy:
    """Return what the server runs, as ``--site`` reads it; memory, of which jobs ask for none, is left out."""
    file = folder / "snapshot.json"
    file.write_text(softwalltime(lab, "snapshot"))
    policy = site_scheduler(load_snapshot(file)).policy
    return replace(policy, limits=tuple(limit for limit in policy.limits if limit.resource != "mem"))


def of_three_users(count: int, processors: int, load: float, seed: int) -> list[Sleeper]:
    """A workload of which alice submits half, and bob and carol the others."""
    users = np.random.default_rng(seed).choice(["alice", "bob", "carol"], count, p=[0.5, 0.3, 0.2])
    sleepers = workload(count, processors, load, seed)
    return [replace(sleeper, user=user) for sleeper, user in zip(sleepers, users.tolist(), strict=True)]


def of_two_queues(count: int, processors: int, load: float, seed: int) -> list[Sleeper]:
    """A workload of which a third is in the queue nodefault."""
    chosen = np.random.default_rng(seed).random(count) < 1 / 3
    sleepers = workload(count, processors, load, seed)
    return [replace(each, queue="nodefault" if one else "workq") for each, one in zip(sleepers, chosen, strict=True)]


def agree(
    lab: Lab, processors: int, policy: SchedulerPolicy, seed: int, make: Callable[..., list[Sleeper]] = workload
) -> None:
    """Run a workload on the server, and hold the simulator to every decision of its scheduler.

    A difference is explained where jobs were exiting while the scheduler read the state of the server.  Mean waits may
    differ by 10%, because one such difference changes the rest of the schedule.
    """
    sleepers = make(JOBS, processors, 1.2, seed)
    ids = run(lab, sleepers, timeout=600)
    completed, records = recorded(lab, ids)
    jobs = jobs_of(completed, vnodes=policy.vnodes)
    cycles = compare(jobs, records, processors, policy)
    unexplained = [cycle for cycle in cycles if not cycle.explained]
    assert not unexplained
    assert sum(cycle.same for cycle in cycles) >= 0.8 * len(cycles)
    assert {job for cycle in cycles for job in cycle.started} == set(range(JOBS)), "every start was compared"
    waits = simulate(jobs, processors, policy).start - np.array(jobs.submitted)
    assert waits.mean() == pytest.approx(recorded_waits(completed).wait, rel=0.1, abs=2)


def test_walltimes(lab: Lab, processors: int) -> None:
    agree(lab, processors, SchedulerPolicy(backfill="pbs"), seed=1)


@pytest.mark.usefixtures("by_fair_share")
def test_fair_share(lab: Lab, processors: int, tmp_path: Path) -> None:
    policy = policy_of_the_site(lab, tmp_path)
    assert policy.fair_share is not None
    assert policy.fair_share.groups == (
        ShareGroup("alice", "root", 20), ShareGroup("guests", "root", 40), ShareGroup("bob", "guests", 10),
    )  # fmt: skip
    agree(lab, processors, policy, seed=5, make=of_three_users)


@pytest.mark.usefixtures("by_formula")
def test_queue_by_queue(lab: Lab, processors: int, sched_config: Callable[[str, str], Any], tmp_path: Path) -> None:
    # A formula with soft walltimes would not be taken for the site's own.
    lab.qmgr("set server job_sort_formula = -walltime")
    sched_config(r"^by_queue:.*$", "by_queue: true ALL")
    lab.qmgr("set queue nodefault Priority = 100")
    try:
        policy = policy_of_the_site(lab, tmp_path)
        assert (policy.queues[0], policy.formula) == ("nodefault", "-walltime")
        agree(lab, processors, policy, seed=6, make=of_two_queues)
    finally:
        lab.qmgr("unset queue nodefault Priority")


def test_limits_on_running_jobs(lab: Lab, processors: int, tmp_path: Path) -> None:
    limits = ("max_run = [u:PBS_GENERIC=4]", f"max_run_res.ncpus = [u:alice={processors // 2}]")
    for limit in limits:
        lab.qmgr(f"set queue workq {limit}")
    try:
        policy = policy_of_the_site(lab, tmp_path)
        assert len(policy.limits) == 2
        agree(lab, processors, policy, seed=7, make=of_three_users)
    finally:
        for limit in limits:
            lab.qmgr(f"unset queue workq {limit.split()[0]}")


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("depth", [0, 3])
def test_a_queue_with_a_backfill_depth_of_its_own(lab: Lab, processors: int, depth: int, tmp_path: Path) -> None:
    lab.qmgr(f"set queue nodefault backfill_depth = {depth}")
    try:
        policy = policy_of_the_site(lab, tmp_path)
        assert policy.queue_depths == (("nodefault", depth),)
        agree(lab, processors, policy, seed=9, make=of_two_queues)
    finally:
        lab.qmgr("unset queue nodefault backfill_depth")


@pytest.mark.usefixtures("strict")
def test_whole_vnodes_and_vnodes_of_a_queue(lab: Lab, tmp_path: Path) -> None:
    def on_vnodes(*values: Any) -> list[Sleeper]:
        return [
            replace(each, ncpus=min(each.ncpus, 8) if each.queue == "nodefault" else each.ncpus, chunk=1)
            for each in of_two_queues(*values)
        ]

    with lab.vnodes(4, ["", "", "", "", "nodefault", "nodefault"], "force_excl"):
        policy = policy_of_the_site(lab, tmp_path)
        assert policy.vnodes == (Vnodes(4, 4, "", "force_excl"), Vnodes(2, 4, "nodefault", "force_excl"))
        agree(lab, 24, policy, seed=8, make=lambda count, _, *rest: on_vnodes(count, 16, *rest))


@pytest.mark.usefixtures("strict")
def test_parts_of_vnodes(lab: Lab, tmp_path: Path) -> None:
    def in_chunks(count: int, _: int, load: float, seed: int) -> list[Sleeper]:
        random = np.random.default_rng(seed)
        chunks, counts = random.integers(1, 5, count).tolist(), random.choice([1, 1, 2, 3, 6], count).tolist()
        sleepers = zip(workload(count, 12, load, seed), chunks, counts, strict=True)
        return [replace(each, ncpus=chunk * number, chunk=chunk) for each, chunk, number in sleepers]

    with lab.vnodes(4, [""] * 6, "default_shared"):
        policy = policy_of_the_site(lab, tmp_path)
        assert policy.vnodes == (Vnodes(6, 4, "", "default_shared"),)
        agree(lab, 24, policy, seed=9, make=in_chunks)


@pytest.mark.usefixtures("half")
def test_half_the_walltime_while_waiting(lab: Lab, processors: int) -> None:
    agree(lab, processors, SchedulerPolicy(backfill="pbs", waiting="factor:0.5"), seed=2)


@pytest.mark.usefixtures("half", "by_formula")
def test_half_the_walltime_in_classes_and_order(
    lab: Lab, processors: int, sched_config: Callable[[str, str], Any]
) -> None:
    sched_config(r'^resources: "', 'resources: "soft_walltime, ')
    policy = SchedulerPolicy(
        order="formula", formula=FORMULA, backfill="pbs", waiting="factor:0.5", classes_by_value=True
    )
    agree(lab, processors, policy, seed=3)


@pytest.mark.parametrize("name", FORMULAS)
def test_a_preset_with_an_order(name: str, lab: Lab, processors: int, database: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    policy = SchedulerPolicy(
        backfill="pbs", waiting="factor:0.5", classes_by_value=True, order="formula", formula=FORMULAS[name],
        ordering="factor:0.2",
    )  # fmt: skip
    with preset(lab, name, tmp_path, database):
        agree(lab, processors, policy, seed=4)
