"""Studies for tests of the experiments."""

import pytest

from softwalltime.experiments.study import Study, study_of
from softwalltime.workloads.synthetic import generate


@pytest.fixture(scope="session")
def study() -> Study:
    """2,500 synthetic jobs of three months on a busy machine of 16 processors."""
    return study_of("synthetic", generate(2500, seed=11, users=15, processors=16), 16)
