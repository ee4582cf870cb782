"""How a job ended, by PBS's codes."""

import pytest

from softwalltime.accounting.reader import read_jobs
from softwalltime.accounting.tally import Tally
from softwalltime.core.states import TEACHING, State, state_of
from tests.samples import RECORDED_LOG


@pytest.mark.parametrize(
    ("exit_status", "runtime", "state"),
    [
        (0, 10, State.FINISHED),
        (0, 200, State.FINISHED),
        (3, 10, State.FAILED),
        (256 + 11, 10, State.FAILED),
        (271, 10, State.DELETED),
        (265, 10, State.DELETED),
        (271, 100, State.WALLTIME_EXCEEDED),
        (-29, 10, State.WALLTIME_EXCEEDED),
        (-28, 10, State.LIMIT_EXCEEDED),
        (-11, 10, State.RERUN),
        (-11, 100, State.WALLTIME_EXCEEDED),
        (-19, 10, State.DELETED),
        (-20, 10, State.NODE_FAILURE),
        (-1, 0, State.NOT_STARTED),
        (-99, 10, State.UNKNOWN),
        (None, 10, State.UNKNOWN),
    ],
)
def test_the_exit_status_says_how_a_job_ended(exit_status: int | None, runtime: int, state: State) -> None:
    assert state_of(exit_status, runtime, 100, 5) is state


def test_without_a_walltime_none_is_exceeded_and_without_a_start_nothing_ran() -> None:
    assert state_of(271, 10**6, None, 5) is State.DELETED
    assert state_of(0, 0, 100, None) is State.NOT_STARTED


def test_recorded_jobs_have_the_states_that_they_were_made_to_have() -> None:
    states = {job.submission.job_name: job.state for job in read_jobs([RECORDED_LOG], Tally())}
    assert states["plain"] is State.FINISHED
    assert states["deleted"] is State.DELETED
    assert states["rerun"] is State.FINISHED
    assert State.WALLTIME_EXCEEDED in states.values()


def test_what_teaches_is_a_fact_or_a_lower_bound() -> None:
    assert set(State) - TEACHING == {State.RERUN, State.NOT_STARTED}
