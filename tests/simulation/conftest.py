"""Workloads for tests of the simulator."""

import pytest

from softwalltime.measure.simulation.simulated_jobs import Jobs, jobs_of
from softwalltime.measure.workloads.synthetic import generate


@pytest.fixture(scope="session")
def jobs() -> Jobs:
    """1,500 synthetic jobs on a busy machine of 64 processors."""
    return jobs_of(generate(1500, seed=11, users=20, processors=64))
