"""Planned starts by order of arrival and walltimes."""

from dataclasses import replace

import pytest

from softwalltime.measure.forecast import queue_model
from softwalltime.measure.forecast.queue_model import planned_starts
from tests.forecast.states import NOW, running, server, waiting

FORMULA = "-walltime"


def test_jobs_are_planned_in_order_of_arrival_with_their_walltimes_whatever_the_order_of_the_queue_is() -> None:
    state = server(
        8,
        running(1, 8, 1000, 400, soft_walltime=500),
        waiting(2, 8, 500, soft_walltime=60),
        waiting(3, 4, 100, soft_walltime=60),
        waiting(4, 4, 100),
        formula=FORMULA, eligible_time=True, scheduling=False,
    )  # fmt: skip
    everyone = ["2.srv", "3.srv", "4.srv"]
    assert planned_starts(state, {}, everyone) == {"2.srv": NOW + 600, "3.srv": NOW + 1100, "4.srv": NOW + 1100}
    # One that was changed stands behind the others.
    assert planned_starts(state, {"2.srv": NOW}, everyone) == {
        "2.srv": NOW + 700, "3.srv": NOW + 600, "4.srv": NOW + 600,
    }  # fmt: skip
    # One that PBS let wait only now, too.
    released = replace(state, jobs=(*state.jobs[:1], replace(state.jobs[1], etime=NOW), *state.jobs[2:]))
    assert planned_starts(released, {}, ["2.srv"]) == {"2.srv": NOW + 700}


def test_what_cannot_start_has_no_planned_start(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [waiting(1, 8, 100, holds="u"), waiting(2, 16, 100), waiting(3, 8, 100), waiting(4, 8, 100)]
    state = server(8, running(0, 8, 1000, 0), *jobs)
    ids = [job.submission.job_id for job in jobs]
    assert planned_starts(state, {}, ids) == {"3.srv": NOW + 1000, "4.srv": NOW + 1100}
    monkeypatch.setattr(queue_model, "MAX_PLANNED_JOBS", 2)
    assert planned_starts(state, {}, ids) == {"3.srv": NOW + 1000}
    assert planned_starts(state, {}, ["4.srv"]) == {}


def test_a_limit_of_its_user_delays_a_planned_start() -> None:
    jobs = [waiting(number, 1, 100, user="mallory") for number in (1, 2, 3)]
    state = server(8, *jobs, limits=(("max_run", "[u:PBS_GENERIC=1]"),))
    assert planned_starts(state, {}, ["1.srv", "2.srv", "3.srv"]) == {
        "1.srv": NOW, "2.srv": NOW + 100, "3.srv": NOW + 200,
    }  # fmt: skip
