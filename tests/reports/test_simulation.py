"""What is simulated for a report, and that where it runs does not matter."""

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from softwalltime.cli.sources import load_columns
from softwalltime.core.settings import Settings
from softwalltime.measure.replay.workload import Workload
from softwalltime.measure.simulation import runs
from softwalltime.measure.simulation.names import CLASSES
from softwalltime.measure.simulation.resources import Vnodes
from softwalltime.reports.candidates import common_candidates
from softwalltime.reports.cautions import simulation_cautions
from softwalltime.reports.simulation import (
    SimulationInput,
    SimulationOptions,
    SimulationSkipped,
    prepare,
    simulate_candidates,
)
from softwalltime.reports.waits_by_class import MAX_CLASSES
from tests.reports.fixtures import steady_jobs
from tests.samples import job, trace

SAFE = [one for one in common_candidates() if one.name == "safe"]
OPTIONS = SimulationOptions(processors=20, seeds=(31, 32), processes=1)


def test_the_newest_jobs_are_simulated_on_a_machine_as_large_as_all_jobs_need() -> None:
    jobs = [job(submitted=n * 1000, end=n * 1000 + 900, runtime=500, ncpus=8 if n == 3 else 2) for n in range(10)]
    found = prepare(Workload(jobs), SimulationOptions(jobs=4))
    assert isinstance(found, SimulationInput)
    assert (len(found.jobs), found.of, found.processors, found.estimated) == (4, 10, 8, True)
    assert found.jobs.submitted == (6000, 7000, 8000, 9000)


def test_workloads_of_few_users_differ() -> None:
    # Moved by whole weeks together, the jobs of one user would wait for each other as recorded in every workload.
    workload = Workload(steady_jobs(200, users=1, days=2))
    options = replace(OPTIONS, processors=8, seeds=(31, 32, 33))
    recorded = prepare(workload, options)
    assert isinstance(recorded, SimulationInput)
    found = simulate_candidates(recorded, SAFE, options)
    assert found.shake == "jitter"
    assert len(set(found.settings[0].waits)) == 3


def test_the_jobs_of_two_servers_in_one_queue_are_a_caution() -> None:
    jobs = [job(submitted=n, job_id=f"{n}.x", server=f"pbs{n % 2}", ncpus=1) for n in range(40)]
    for some, servers in ((jobs[::2], 1), (jobs, 2)):
        recorded = prepare(Workload(some), OPTIONS)
        assert isinstance(recorded, SimulationInput)
        figures = simulate_candidates(recorded, [], OPTIONS)
        said = " ".join(simulation_cautions(figures, None))
        assert ("the jobs of 2 servers share one queue and machine" in said) == (servers == 2)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"queue": "R116"}, "1 job in reservations"),
        ({"queue": "R", "place": "scatter:excl"}, "1 job with whole vnodes"),
        ({"qtime": 100, "etime": 400, "end": 600}, "1 held or dependent job"),
        ({"qtime": 400, "etime": 400, "end": 600}, ""),
    ],
)
def test_jobs_that_are_simulated_as_others_are_a_caution(more: dict[str, Any], said: str) -> None:
    jobs = [job(submitted=n, job_id=f"{n}.x", ncpus=1) for n in range(40)]
    for log in (jobs, [*jobs, job(submitted=100, job_id="40.x", ncpus=1, **more)]):
        recorded = prepare(Workload(log), OPTIONS)
        assert isinstance(recorded, SimulationInput)
        remarks = simulate_candidates(recorded, [], OPTIONS).remarks
        assert len(remarks) == (log is not jobs and bool(said))
        assert all(remark.startswith(said) for remark in remarks)


@pytest.mark.parametrize(
    ("select", "processors", "why"),
    [
        ("1:ncpus=1", 8, ""),
        ("1:ncpus=1", 9, "they have 8 processors, not 9"),
        ("", 8, "no job records its chunks (select)"),
    ],
)
def test_vnodes_that_are_simulated_as_one_pool_are_a_caution(select: str, processors: int, why: str) -> None:
    jobs = [job(submitted=n, job_id=f"{n}.x", ncpus=1, select=select) for n in range(40)]
    policy = replace(OPTIONS.baseline.policy, vnodes=(Vnodes(2, 4),))
    options = replace(OPTIONS, processors=processors, baseline=replace(OPTIONS.baseline, policy=policy))
    recorded = prepare(Workload(jobs), options)
    assert isinstance(recorded, SimulationInput)
    remarks = simulate_candidates(recorded, [], options).remarks
    assert remarks == ((f"the vnodes are simulated as one pool: {why}",) if why else ())


def test_a_machine_of_another_size_refuses_jobs() -> None:
    jobs = [job(submitted=n, ncpus=n + 1) for n in range(4)]
    found = prepare(Workload(jobs), SimulationOptions(processors=2))
    assert isinstance(found, SimulationInput)
    assert (len(found.jobs), found.refused, found.estimated) == (2, 2, False)


@pytest.mark.parametrize(
    ("more", "options", "reason"),
    [
        ({"ncpus": None}, SimulationOptions(), "hold no number of processors"),
        ({"ncpus": 1, "start": None}, SimulationOptions(), "hold no start"),
        ({"ncpus": 9}, SimulationOptions(processors=8), "every job is larger"),
        ({"ncpus": 1, "walltime": None}, SimulationOptions(), "no job has a runtime"),
    ],
)
def test_what_records_lack_is_the_reason(more: dict[str, object], options: SimulationOptions, reason: str) -> None:
    found = prepare(Workload([job(submitted=n, **more) for n in range(5)]), options)
    assert isinstance(found, SimulationSkipped)
    assert reason in found.reason


def test_without_starts_the_given_size_is_enough() -> None:
    found = prepare(Workload([job(start=None, ncpus=1)]), SimulationOptions(processors=8))
    assert isinstance(found, SimulationInput)
    assert found.processors == 8


def test_other_processes_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = Workload(steady_jobs(300, days=5))
    recorded = prepare(workload, OPTIONS)
    assert isinstance(recorded, SimulationInput)
    told: list[int] = []
    here = simulate_candidates(recorded, SAFE, OPTIONS, lambda *_: nullcontext(told.append))
    assert sum(told) == 300 * 3 * 3, "the baseline, chance and safe, in two shaken workloads and the recorded one"
    monkeypatch.setattr(runs, "MAX_JOBS_IN_PROCESS", 0)
    assert simulate_candidates(recorded, SAFE, replace(OPTIONS, processes=2)) == here


def test_each_class_is_compared_with_itself_on_the_same_workloads() -> None:
    workload = Workload(steady_jobs(400, users=14, days=4))
    recorded = prepare(workload, OPTIONS)
    assert isinstance(recorded, SimulationInput)
    found = simulate_candidates(recorded, SAFE, OPTIONS, rename=lambda kind, name: f"{kind}:{name}")
    assert set(found.classes) == set(CLASSES)
    users = found.classes["user"]
    assert [one.name for one in users[:2]] == ["user:user0", "user:user1"]
    assert (len(users), users[-1].name, users[-1].jobs) == (MAX_CLASSES + 1, "all others", 4 * 28)
    assert [one.name for one in found.classes["queue"]] == ["queue:q0", "queue:q1"]
    for kind, classes in found.classes.items():
        waits = found.settings[0].classes[kind]
        assert [one.name for one in waits] == [one.name for one in classes]
        assert sum(one.jobs for one in classes) == 400
        if kind != "month":
            # The classes together are all jobs, so their means together are the mean.
            for each, whole in ((classes, found.baseline), (waits, found.settings[0].metrics)):
                total = sum((one.metrics.wait_mean or 0) * of.jobs for one, of in zip(each, classes, strict=True))
                assert total / 400 == pytest.approx(whole.wait_mean)
    difference = sum(
        (one.differences["wait_mean"].mean or 0) * of.jobs
        for one, of in zip(found.settings[0].classes["size"], found.classes["size"], strict=True)
    )
    assert difference / 400 == pytest.approx(
        (found.settings[0].metrics.wait_mean or 0) - (found.baseline.wait_mean or 0)
    )


def test_a_recorded_trace_shows_that_wide_jobs_pay_for_half_the_walltime() -> None:
    jobs, _ = load_columns((str(trace("SDSC-SP2")),), lambda **_: Settings())
    workload = Workload(jobs[:9000])
    options = SimulationOptions(processors=128, seeds=(31, 32, 33), processes=1)
    recorded = prepare(workload, options)
    assert isinstance(recorded, SimulationInput)
    found = simulate_candidates(recorded, SAFE, options)
    sizes = {one.name: one for one in found.settings[0].classes["size"]}
    assert sizes["up to 1/8 of the machine"].shorter
    assert not sizes["more than 1/2 of the machine"].shorter
