"""The simulator's PBS cycle against the real pbs_sched, decision by decision, with the same sleeping jobs."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softwalltime.measure.simulation.engine import simulate
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.simulated_jobs import jobs_of
from tests.acceptance.conftest import DEFAULTS, ServedDaemon
from tests.acceptance.cycles import compare
from tests.acceptance.lab import Lab
from tests.acceptance.presets import FORMULAS, preset, recorded_waits
from tests.acceptance.sleeping import recorded, run, workload

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


def agree(lab: Lab, processors: int, policy: SchedulerPolicy, seed: int) -> None:
    """Run a workload on the server, and hold the simulator to every decision of its scheduler.

    A difference is explained where jobs were exiting while the scheduler read the state of the server.  Mean waits may
    differ by 10%, because one such difference changes the rest of the schedule.
    """
    sleepers = workload(JOBS, processors, 1.2, seed)
    ids = run(lab, sleepers, timeout=600)
    completed, records = recorded(lab, ids)
    jobs = jobs_of(completed)
    cycles = compare(jobs, records, processors, policy)
    unexplained = [cycle for cycle in cycles if not cycle.explained]
    assert not unexplained
    assert sum(cycle.same for cycle in cycles) >= 0.8 * len(cycles)
    assert {job for cycle in cycles for job in cycle.started} == set(range(JOBS)), "every start was compared"
    waits = simulate(jobs, processors, policy).start - np.array(jobs.submitted)
    assert waits.mean() == pytest.approx(recorded_waits(completed).wait, rel=0.1, abs=2)


def test_walltimes(lab: Lab, processors: int) -> None:
    agree(lab, processors, SchedulerPolicy(backfill="pbs"), seed=1)


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
