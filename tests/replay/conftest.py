"""Fixture of the tests of a sweep's parts: a task."""

from dataclasses import replace
from pathlib import Path

import pytest

from softwalltime.replay.sweep.evaluation import SweepTask
from softwalltime.replay.sweep.snapshot import take
from softwalltime.states import TEACHING
from tests.samples import job


@pytest.fixture
def task(tmp_path: Path) -> SweepTask:
    jobs = [job(f"user{n % 5}", submitted=100 * n, runtime=10 + n % 90, job_id=f"{n}.srv") for n in range(300)]
    return SweepTask("log", take(jobs, TEACHING, tmp_path / "jobs"), "percentile:p=95,keys=user", 60)


def with_spec(task: SweepTask, spec: str) -> SweepTask:
    return replace(task, spec=spec)
