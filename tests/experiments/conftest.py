"""Studies for tests of the experiments."""

import pytest

from softwalltime.measure.experiments.study import Study, study_of
from softwalltime.measure.workloads.synthetic import START, generate


@pytest.fixture(scope="session")
def study() -> Study:
    """2,500 synthetic jobs of three months on a busy machine of 16 processors."""
    return study_of("synthetic", generate(2500, seed=11, users=15, processors=16), 16)


@pytest.fixture(scope="session")
def small_study() -> Study:
    """500 synthetic jobs of three months: for Fan's 48 schedules, each of which fits TRIP and the forest many times."""
    middle_of_december = START - 15 * 86400
    return study_of("synthetic", generate(500, seed=11, users=15, processors=2, start=middle_of_december), 2)
