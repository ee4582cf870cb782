"""Studies for tests of the experiments."""

import numpy as np
import pytest

from softwalltime.measure.experiments.study import Study, months_of, study_of
from softwalltime.measure.workloads.synthetic import START, generate


@pytest.fixture(scope="session")
def study() -> Study:
    """800 synthetic jobs of three months on a busy machine of 4 processors."""
    late_in_december = START - 10 * 86400
    return study_of("synthetic", generate(800, seed=11, users=15, processors=4, start=late_in_december), 4)


@pytest.fixture(scope="session")
def small_study(study: Study) -> Study:
    """The first 60 jobs of each month: Fan's 24 schedules fit TRIP many times."""
    months = months_of([job.submission.submitted for job in study.completed])
    first = np.concatenate([np.flatnonzero(months == month)[:60] for month in np.unique(months)])
    return study_of("synthetic", [study.completed[index] for index in first], 4)
