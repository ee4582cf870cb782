"""What is simulated for a report, and that where it runs does not matter."""

from dataclasses import replace

import pytest

from softwalltime.replay.workload import Workload
from softwalltime.reports import simulation
from softwalltime.reports.analysis.halves import evaluate_halves
from softwalltime.reports.leave_out import evaluate_setting
from softwalltime.reports.simulation import (
    HALF,
    SimulationInput,
    SimulationOptions,
    SimulationSkipped,
    prepare,
    settings_to_simulate,
    simulate_settings,
)
from tests.reports.fixtures import steady_jobs, table
from tests.samples import job

OPTIONS = SimulationOptions(processors=20, seeds=(31, 32), processes=1)


def test_the_newest_jobs_are_simulated_on_a_machine_as_large_as_all_jobs_need() -> None:
    jobs = [job(submitted=n * 1000, end=n * 1000 + 900, runtime=500, ncpus=8 if n == 3 else 2) for n in range(10)]
    found = prepare(Workload(jobs), SimulationOptions(jobs=4))
    assert isinstance(found, SimulationInput)
    assert (len(found.jobs), found.of, found.processors, found.estimated) == (4, 10, 8, True)
    assert found.jobs.submitted == (6000, 7000, 8000, 9000)
    assert found.wait == 400


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
    assert found.wait is None


def test_other_processes_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = Workload(steady_jobs(300, days=5))
    columns = table(workload.jobs)
    half = evaluate_setting(workload, columns, HALF, columns.walltime // 2, 0.05)
    settings = settings_to_simulate(half, None, None, "fcfs")
    recorded = prepare(workload, OPTIONS)
    assert isinstance(recorded, SimulationInput)
    told: list[int] = []
    here = simulate_settings(recorded, settings, OPTIONS, told.append)
    assert sum(told) == 300 * 3 * 2
    monkeypatch.setattr(simulation, "_FEW", 0)
    assert simulate_settings(recorded, settings, replace(OPTIONS, processes=2)) == here


def test_those_left_out_are_left_out_of_the_simulation_too() -> None:
    long = [job("late", submitted=n * 100, runtime=900, walltime=1000, queue="q") for n in range(400)]
    short = [job("early", submitted=n * 100 + 1, runtime=400, walltime=1000, queue="q") for n in range(400)]
    workload = Workload(long + short)
    columns = table(workload.jobs)
    half = columns.walltime // 2
    found = evaluate_setting(workload, columns, HALF, half, 0.05)
    assert [(one.kind, one.name) for one in found.left_out] == [("user", "late")]
    assert found.users == ("late",)
    assert found.halves.newer.underestimated == 0
    assert evaluate_halves(columns, HALF, half).newer.underestimated > 0.4
    assert {one.policy.off_users for one in settings_to_simulate(found, None, None, "fcfs")} == {("late",)}
