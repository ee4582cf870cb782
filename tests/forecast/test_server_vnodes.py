"""Forecasts on several vnodes: which of them running jobs hold, and where waiting ones have room."""

import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softwalltime.measure.forecast.queue_model import MAX_JOBS_ONCE, ModelledQueue, model_of, planned_starts
from softwalltime.measure.forecast.server_vnodes import MAX_AMOUNT, placed_on
from softwalltime.measure.forecast.snapshot import AdvanceReservation, LiveJob, ServerSnapshot, VnodeState
from softwalltime.measure.forecast.start_times import StartForecast, waits_for
from softwalltime.measure.forecast.what_if import probe_job, probe_of
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.resources import Vnodes
from softwalltime.measure.simulation.simulated_jobs import jobs_of
from tests.forecast.states import NOW, placed_schedule, running, server, snapshot_at, waiting
from tests.samples import ROOT, job

GB = 1 << 30


def on(job: LiveJob, select: str, exec_vnode: str = "", place: str = "free") -> LiveJob:
    return replace(job, submission=replace(job.submission, select=select, place=place), exec_vnode=exec_vnode)


def cluster(*jobs: LiveJob, count: int = 2, **vnode: Any) -> ServerSnapshot:
    """A server with vnodes of 4 processors."""
    vnodes = [VnodeState(f"n{number}", f"n{number}", "free", **{"ncpus": 4, **vnode}) for number in range(count)]
    return replace(server(0, *jobs, resources=("ncpus", "mem")), vnodes=tuple(vnodes))


def starts(queue: ModelledQueue) -> dict[str, int]:
    """Seconds from now to the start of each waiting job, if all run for their walltimes."""
    model = queue.model
    found = model.run(model.jobs.walltime).start.tolist()
    return {
        name.partition(".")[0]: start - NOW for name, start in list(zip(queue.ids, found, strict=True))[model.running :]
    }


THREE_OF_EACH = (
    on(running(1, 3, 1000, elapsed=100), "1:ncpus=3", "(n0:ncpus=3)"),
    on(running(2, 3, 1000, elapsed=300), "1:ncpus=3", "(n1:ncpus=3)"),
)


def test_free_processors_of_two_vnodes_are_no_room_for_a_chunk_of_two() -> None:
    queue = model_of(cluster(*THREE_OF_EACH, on(waiting(3, 2, 600), "1:ncpus=2"), on(waiting(4, 2, 600), "2:ncpus=1")))
    assert queue.remarks == ()
    assert starts(queue) == {"3": 700, "4": 0}
    point = queue.model.run(queue.model.jobs.walltime)
    none = np.empty((0, 0), np.int64)
    forecast = StartForecast(point.start[2:], point.start + point.duration, none, none)
    assert "3 processors come free at" in waits_for(queue, forecast, 2)


@pytest.mark.parametrize(
    ("place", "exec_vnode", "state", "start"),
    [
        ("free", "(n0:ncpus=2)", "free", 0),
        ("free", "(n0:ncpus=2)+(n1:ncpus=1)", "free", 0),
        ("free", "(n0:ncpus=2)+(n1:ncpus=2)", "free", 900),
        # It holds both vnodes.
        ("excl", "(n0:ncpus=2)+(n1:ncpus=1)", "free", 900),
        # Where it runs is unknown: on the first vnodes that have room.
        ("free", "", "free", 0),
        ("free", "(n0:ncpus=2)+(n1:ncpus=many)", "free", 0),
        # n1 is down, so what it runs there does not matter.
        ("free", "(n1:ncpus=2)", "down", 0),
        ("free", "(n0:ncpus=2)", "down", 900),
    ],
)
def test_what_a_running_job_holds(place: str, exec_vnode: str, state: str, start: int) -> None:
    snapshot = cluster(
        on(running(1, 2, 1000, elapsed=100), "2:ncpus=1", exec_vnode, place), on(waiting(2, 3, 600), "1:ncpus=3")
    )
    vnodes = (*snapshot.vnodes[:1], replace(snapshot.vnodes[1], state=state))
    # Both are too small for it.
    added = (VnodeState("n2", "n2", "free", 2), VnodeState("n3", "n3", "free", 2))
    assert starts(model_of(replace(snapshot, vnodes=(*vnodes, *added)))) == {"2": start}


def test_memory_counts_where_the_scheduler_considers_it() -> None:
    jobs = (
        on(running(1, 1, 1000, elapsed=100), "1:ncpus=1:mem=6gb", "(n0:ncpus=1:mem=6291456kb)"),
        on(running(2, 1, 1000, elapsed=400), "1:ncpus=1:mem=6gb", "(n1:ncpus=1:mem=6291456kb)"),
        on(waiting(3, 1, 60), "1:ncpus=1:mem=4gb"),
    )
    snapshot = cluster(*jobs, mem=8 * GB)
    assert starts(model_of(snapshot)) == {"3": 600}
    only_processors = replace(snapshot, scheduler=replace(snapshot.scheduler, resources=("ncpus",)))
    assert starts(model_of(only_processors)) == {"3": 0}


def test_vnodes_that_jobs_share_on_one_host_are_one() -> None:
    snapshot = cluster(*THREE_OF_EACH, on(waiting(3, 2, 600), "1:ncpus=2"))
    one_host = replace(snapshot, vnodes=tuple(replace(vnode, host="h") for vnode in snapshot.vnodes))
    assert starts(model_of(one_host)) == {"3": 0}


def test_a_job_whose_chunk_no_vnode_has_room_for_has_no_forecast_and_delays_nobody() -> None:
    queue = model_of(cluster(*THREE_OF_EACH, on(waiting(3, 8, 600), "1:ncpus=8"), on(waiting(4, 8, 600), "8:ncpus=1")))
    assert [each.reason for each in queue.impossible] == ["the vnodes that are up are too small for its chunks"]
    assert starts(queue) == {"4": 900}


def test_a_probe_larger_than_a_vnode_is_several_chunks() -> None:
    snapshot = cluster(*THREE_OF_EACH, count=3)
    found = {ncpus: probe_job("", probe_of(f"ncpus={ncpus},walltime=600", "bob"), snapshot) for ncpus in (4, 8, 11)}
    assert {ncpus: probe.submission.select for ncpus, probe in found.items()} == {
        4: "1:ncpus=4", 8: "2:ncpus=4", 11: "2:ncpus=4+1:ncpus=3",
    }  # fmt: skip
    assert {ncpus: starts(model_of(snapshot, [probe]))["?"] for ncpus, probe in found.items()} == {
        4: 0,
        8: 700,
        11: 900,
    }


def test_a_top_job_is_planned_for_the_end_of_a_reservation() -> None:
    whole, small = on(waiting(1, 8, 600), "2:ncpus=4"), on(waiting(2, 1, 450), "1:ncpus=1")
    window = AdvanceReservation("R1.srv", NOW + 400, NOW + 500, 4, "RESV_CONFIRMED")
    snapshot = replace(cluster(whole, small), reservations=(window,))
    # Job 2 keeps clear of job 1, which starts when the reservation has ended.
    assert starts(model_of(snapshot)) == {"1": 500, "2": 0}
    longer = replace(small, submission=replace(small.submission, walltime=550))
    assert starts(model_of(replace(snapshot, jobs=(whole, longer))))["1"] == 500


def test_planned_starts_by_walltimes_know_the_vnodes() -> None:
    snapshot = cluster(*THREE_OF_EACH, on(waiting(3, 2, 600), "1:ncpus=2"))
    assert planned_starts(snapshot, {}, {"3.srv"}) == {"3.srv": NOW + 700}


@pytest.mark.parametrize(
    ("count", "settings", "said"),
    [
        (MAX_JOBS_ONCE, {}, "2 vnodes are one pool, which has room for more jobs: there are 3,002 jobs"),
        (1, {"backfill_depth": 0}, "2 vnodes are one pool, which has room for more jobs: backfill_depth is 0"),
    ],
)
def test_where_the_vnodes_are_one_pool_it_is_said(count: int, settings: dict[str, Any], said: str) -> None:
    snapshot = cluster(*THREE_OF_EACH, *(on(waiting(3 + number, 2, 600), "1:ncpus=2") for number in range(count)))
    queue = model_of(replace(snapshot, scheduler=replace(snapshot.scheduler, **settings)))
    assert said in queue.remarks
    assert starts(queue)["3"] == 0


def test_without_leave_for_compiled_code_the_vnodes_are_one_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("softwalltime.measure.forecast.queue_model.why_not_executable", lambda: "it is forbidden")
    queue = model_of(cluster(*THREE_OF_EACH, on(waiting(3, 2, 600), "1:ncpus=2")))
    assert queue.remarks == ("2 vnodes are one pool, which has room for more jobs: it is forbidden",)
    assert starts(queue) == {"3": 0}


def test_a_process_that_may_not_execute_compiled_code_forecasts() -> None:
    """As the daemon with the unit of the package: MemoryDenyWriteExecute=yes."""
    program = """
import ctypes, sys
print(ctypes.CDLL(None).prctl(65, 1, 0, 0, 0), flush=True)
from softwalltime.measure.forecast.queue_model import model_of, planned_starts
from tests.forecast.states import recorded
queue = model_of(recorded())
queue.model.run(queue.model.jobs.walltime)
print(queue.remarks, planned_starts(recorded(), {}, {"4.pbs1"}))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT)
    if done.stdout.startswith("-1"):
        pytest.skip("the kernel has no PR_SET_MDWE")
    assert done.returncode == 0, done.stderr
    assert "2 vnodes are one pool, which has room for more jobs: no memory for compiled code" in done.stdout
    assert "{'4.pbs1': " in done.stdout


def test_amounts_that_no_server_has_are_limited() -> None:
    assert placed_on("(n1:ncpus=" + "9" * 40 + ")+(n1:ncpus=5:mem=8000000000gb)") == {"n1": (5, MAX_AMOUNT, 0)}
    much = "(n0:ncpus=2000000000:mem=8000000000gb)"
    jobs = [on(running(number, 1, 60, elapsed=1), "1:ncpus=1", much) for number in range(50)]
    snapshot = cluster(*jobs, on(waiting(60, 4, 60), "1:ncpus=4"), mem=10**30, ncpus=1 << 40)
    assert starts(model_of(snapshot)) == {"60": 0}


KINDS = (Vnodes(3, 4), Vnodes(1, 8))
CASES = st.lists(
    st.tuples(
        st.integers(0, 20), st.integers(1, 60), st.integers(0, 40), st.integers(1, 3), st.integers(1, 5),
        st.sampled_from(["free", "pack", "scatter", "excl"]),
    ),
    min_size=2, max_size=12,
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(CASES, st.integers(20, 60), st.sampled_from([1, 3]))
def test_a_schedule_on_vnodes_goes_on_from_any_moment_as_it_went(
    cases: list[tuple[int, int, int, int, int, str]], after: int, depth: int
) -> None:
    after += NOW
    records = [
        job(
            user="a", submitted=NOW + submitted, runtime=runtime, walltime=runtime + beyond, job_id=f"{number:02}.srv",
            ncpus=count * size, nodect=count, select=f"{count}:ncpus={size}", place=place,
        )
        for number, (submitted, runtime, beyond, count, size, place) in enumerate(cases)
    ]  # fmt: skip
    jobs = jobs_of(records, vnodes=KINDS)
    policy = SchedulerPolicy(backfill="pbs", depth=depth if depth > 1 else None, vnodes=KINDS)
    start, placed = placed_schedule(jobs, 20, policy)
    snapshot, numbers = snapshot_at(after, jobs, start, placed, [4, 4, 4, 8])
    queue = model_of(replace(snapshot, scheduler=replace(snapshot.scheduler, backfill_depth=depth)))
    # A job that fits no empty machine counts as single processors in a log, and has no forecast.
    if queue.impossible:
        return
    order = [numbers[job_id] for job_id in queue.ids]
    outcome = queue.model.run([jobs.runtime[number] for number in order])
    assert outcome.start.tolist() == start[order].tolist()
