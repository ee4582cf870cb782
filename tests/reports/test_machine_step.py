"""Changes of the machine within a log, and none where the machine is the same."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from softwalltime.cli.sources import load_columns
from softwalltime.core.jobs import CompletedJob
from softwalltime.core.settings import Settings
from softwalltime.measure.replay.workload import Workload
from softwalltime.measure.simulation.engine import simulate
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.simulated_jobs import jobs_of
from softwalltime.measure.workloads.synthetic import generate
from softwalltime.reports.machine_step import MachineStep, machine_step
from softwalltime.reports.recommendation import Verdict, WaitLimits, recommend
from softwalltime.reports.simulable_jobs import WEEK_S, Totals, use
from softwalltime.reports.simulation import SimulationInput, SimulationOptions, prepare, simulate_candidates
from tests.samples import trace

FIRST, SECOND = generate(3000, seed=1), generate(3000, seed=2)


def ran(jobs: Sequence[CompletedJob], processors: int, shift: int, prefix: str) -> list[CompletedJob]:
    """The jobs as a machine of this size runs them, so many seconds later; wide jobs take the whole of it."""
    narrow = [
        replace(job, submission=replace(job.submission, ncpus=min(processors, job.submission.ncpus or 1)))
        for job in jobs
    ]
    prepared = jobs_of(narrow)
    starts = simulate(prepared, processors, SchedulerPolicy(backfill="pbs")).start.tolist()
    return [
        replace(
            job, start=start + shift, end=start + shift + runtime, qtime=None, etime=None,
            submission=replace(
                job.submission, submitted=job.submission.submitted + shift, job_id=f"{prefix}{job.submission.job_id}"
            ),
        )
        for job, start, runtime in zip(list(prepared.completed), starts, prepared.runtime, strict=True)
    ]  # fmt: skip


def changed(before: int, after: int) -> tuple[list[CompletedJob], int]:
    """The log of a machine that went from one size to another while it was idle, and when."""
    older = ran(FIRST, before, 0, "")
    since = max(job.end for job in older)
    shift = since - min(job.submission.submitted for job in SECOND)
    return [*older, *ran(SECOND, after, shift, "9")], since


def step_of(jobs: Sequence[CompletedJob]) -> MachineStep | None:
    workload = Workload(jobs)
    begin = Totals.of(workload).first_start
    return machine_step(begin, use(workload, begin))


@pytest.mark.parametrize(("before", "after"), [(64, 128), (128, 64), (112, 128)])
def test_a_machine_that_grew_or_shrank_is_seen_to_the_week(before: int, after: int) -> None:
    jobs, since = changed(before, after)
    found = step_of(jobs)
    assert found is not None
    assert abs(found.since - since) <= WEEK_S
    assert (found.before, found.after) == (pytest.approx(before, rel=0.03), pytest.approx(after, rel=0.03))


def test_the_same_machine_has_no_step() -> None:
    assert step_of(changed(128, 128)[0]) is None
    assert step_of(FIRST[:50]) is None, "too short"


@pytest.mark.parametrize(
    ("name", "expected"), [("KTH", None), ("LLNL-Atlas", None), ("UniLu-Gaia", None), ("SDSC-SP2", (115, 128))]
)
def test_recorded_machines(name: str, expected: tuple[int, int] | None) -> None:
    jobs, *_ = load_columns((str(trace(name)),), lambda **_: Settings())
    found = step_of(jobs)
    assert (None if found is None else (found.before, found.after)) == expected


def test_only_the_time_since_the_change_is_simulated_and_the_verdict_says_so() -> None:
    jobs, since = changed(64, 128)
    options = SimulationOptions(processors=128, seeds=(31, 32), processes=1)
    recorded = prepare(Workload(jobs), options)
    assert isinstance(recorded, SimulationInput)
    assert recorded.step is not None
    assert abs(recorded.jobs.submitted[0] - since) <= WEEK_S
    advice = recommend(simulate_candidates(recorded, [], options), WaitLimits())
    assert str(recorded.step) in advice.cautions
    assert advice.verdict is not Verdict.UNKNOWN


def test_without_starts_no_change_is_searched() -> None:
    jobs = [replace(job, start=None) for job in changed(64, 128)[0]]
    recorded = prepare(Workload(jobs), SimulationOptions(processors=128))
    assert isinstance(recorded, SimulationInput)
    assert recorded.step is None
    assert recorded.of == len(jobs)
