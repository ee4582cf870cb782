"""Fixture of the tests of a sweep's parts: a task."""

from dataclasses import replace
from pathlib import Path

import pytest

from softwalltime.measure.replay.accuracy_metrics import WARM_UP_SHARE
from softwalltime.measure.replay.sweep.jobs_file import take
from softwalltime.measure.replay.sweep.trial import Part, TrialTask
from softwalltime.measure.replay.workload import Workload
from tests.samples import job


@pytest.fixture
def task(tmp_path: Path) -> TrialTask:
    jobs = [job(f"user{n % 5}", submitted=100 * n, runtime=10 + n % 90, job_id=f"{n}.srv") for n in range(300)]
    parts = (Part(), Part(WARM_UP_SHARE))
    return TrialTask("log", take(Workload(jobs), tmp_path / "jobs"), "percentile:p=95,keys=user", parts, 60)


def with_spec(task: TrialTask, spec: str) -> TrialTask:
    return replace(task, spec=spec)
