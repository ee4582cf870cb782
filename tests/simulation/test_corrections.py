"""Estimates that run out: the planned end of a job that runs longer than planned, under each rule."""

from collections.abc import Callable

import pytest

from softwalltime.measure.simulation.corrections import CORRECTIONS, Estimates
from softwalltime.measure.simulation.engine import Engine
from softwalltime.measure.simulation.machine import Processors
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.queue import RunningJobs
from softwalltime.measure.simulation.simulated_jobs import jobs_of
from tests.samples import job

MINUTE, HOUR = 60, 3600


def planned_ends(
    name: str,
    value: int,
    walltime: int,
    at: list[int],
    conditional: Callable[[int, int, int], int | None] | None = None,
) -> list[int]:
    """The planned end of a job that starts at 0, as passes at these times see it."""
    estimates = Estimates([0], [value], [walltime], conditional or (lambda *_: None))
    running = RunningJobs(1, CORRECTIONS[name], estimates)
    running.add(0, value)
    found = []
    for now in at:
        running.correct(now)
        found += [end for end, _ in running.jobs()]
    return found


def test_pbs_takes_whole_multiples_up_to_the_walltime() -> None:
    # As measured on OpenPBS: 60 s became 120 at +68 s, 180 at +140, 240 at +181, 300 at +276.
    assert planned_ends("pbs", 60, 1000, [59, 68, 140, 181, 276]) == [60, 120, 180, 240, 300]
    assert planned_ends("pbs", 60, 100, [60, 99, 100, 150]) == [100, 100, 101, 151]


def test_the_walltime_at_once() -> None:
    assert planned_ends("walltime", 60, 1000, [59, 60, 999]) == [60, 1000, 1000]


def test_none_leaves_the_planned_end_in_the_past() -> None:
    assert planned_ends("none", 60, 1000, [59, 60, 500]) == [60, 60, 60]


def test_simple_adds_hours_from_a_minute_before_the_end_on() -> None:
    at = [2 * HOUR - 60, 2 * HOUR - 59, 5 * HOUR, 10 * HOUR]
    assert planned_ends("simple", 2 * HOUR, 8 * HOUR, at) == [2 * HOUR, 3 * HOUR, 6 * HOUR, 10 * HOUR + 1]


def test_power_adds_a_quarter_of_an_hour_then_twice_as_much_each_time() -> None:
    at = [10 * MINUTE, 25 * MINUTE, 55 * MINUTE, 115 * MINUTE]
    assert planned_ends("power", 10 * MINUTE, 24 * HOUR, at) == [
        25 * MINUTE, 55 * MINUTE, 115 * MINUTE, 235 * MINUTE,
    ]  # fmt: skip


def test_a_new_prediction_uses_the_elapsed_time() -> None:
    assert planned_ends("conditional", 60, 1000, [60, 70, 300], lambda job, now, elapsed: elapsed + 100) == [
        160,
        160,
        400,
    ]
    assert planned_ends("conditional", 60, 1000, [60, 130], lambda job, now, elapsed: 60) == [120, 180]


@pytest.mark.parametrize("name", [name for name in CORRECTIONS if name != "none"])
def test_each_correction_is_counted_as_an_extension(name: str) -> None:
    # The first job holds the machine past its value; the second waits and makes the scheduler look.
    workload = jobs_of(
        [job(submitted=0, runtime=900, walltime=4000, ncpus=2)]
        + [job(submitted=time, runtime=10, walltime=4000, ncpus=2) for time in (10, 200, 800)]
    )
    engine = Engine(
        workload, Processors(2, workload.processors), SchedulerPolicy(running="factor:0.04", correction=name)
    )
    assert engine.run().extensions[0] >= 1
