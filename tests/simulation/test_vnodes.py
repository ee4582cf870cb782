"""Jobs placed on vnodes by select and place, and what fragmentation does to them."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softwalltime.core.errors import SourceError, UsageError
from softwalltime.measure.simulation.engine import simulate
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.simulated_jobs import Jobs, jobs_of
from softwalltime.measure.simulation.vnodes import (
    Chunks,
    ResourceRequest,
    Vnodes,
    read_vnodes,
    request_of,
    that_fit,
    vnodes_of,
)
from tests.samples import ROOT
from tests.samples import job as completed_job

PBS = SchedulerPolicy(backfill="pbs", minimum=1)


def asking(select: str = "", place: str = "", ncpus: int = 1, *, at: int = 0, runtime: int = 100, nodect: int = 1):
    """A job that asks for this."""
    job = completed_job(submitted=at, runtime=runtime, walltime=runtime)
    submission = replace(job.submission, select=select, place=place, ncpus=ncpus, nodect=nodect, mem=None, ngpus=None)
    return replace(job, submission=submission)


def starts(machine: str, *asked: object) -> list[int]:
    """When each job starts, by PBS's cycle."""
    jobs = jobs_of(list(asked))
    return simulate(jobs, Vnodes(vnodes_of(machine), jobs), PBS).start.tolist()


def test_a_select_is_read_chunk_by_chunk() -> None:
    job = asking("2:ncpus=4:mem=2gb+ngpus=1:ncpus=1+3", "scatter:excl").submission
    chunks = (Chunks(2, (4, 2 << 30, 0)), Chunks(1, (1, 0, 1)), Chunks(3, (1, 0, 0)))
    assert request_of(job) == ResourceRequest(chunks, "scatter", exclusive=True)


@pytest.mark.parametrize("select", ["", "1:ncpus=many", "x:ncpus=2"])
def test_without_a_select_that_can_be_read_the_totals_count(select: str) -> None:
    assert request_of(asking(select, ncpus=8, nodect=2).submission).chunks == (Chunks(2, (4, 0, 0)),)
    assert request_of(asking(select, ncpus=8).submission).chunks == (Chunks(8, (1, 0, 0)),)


def test_a_chunk_waits_for_a_single_vnode_though_enough_processors_are_free() -> None:
    spread = asking("2:ncpus=2", "scatter")
    assert starts("2:ncpus=4", spread, asking("1:ncpus=4", at=1)) == [0, 100]
    assert starts("2:ncpus=4", replace(spread, submission=replace(spread.submission, place="pack")),
                  asking("1:ncpus=4", at=1)) == [0, 1]  # fmt: skip


def test_memory_and_gpus_limit_as_processors_do() -> None:
    assert starts("1:ncpus=8:mem=4gb", asking("1:ncpus=1:mem=3gb"), asking("1:ncpus=1:mem=2gb", at=1)) == [0, 100]
    assert starts("1:ncpus=8:ngpus=2", asking("1:ncpus=1:ngpus=2"), asking("1:ncpus=1:ngpus=1", at=1)) == [0, 100]


def test_an_exclusive_job_does_not_share_its_vnodes() -> None:
    assert starts("2:ncpus=4", asking("1:ncpus=1", "excl"), asking("1:ncpus=4", at=1), asking("1", at=2)) == [0, 1, 100]
    assert starts("1:ncpus=4", asking("1:ncpus=1"), asking("1:ncpus=1", "excl", at=1)) == [0, 100]


def test_a_scattered_job_has_one_chunk_on_each_host() -> None:
    jobs = jobs_of([asking("2:ncpus=1", "scatter")])
    one_host = tuple(replace(vnode, host="same") for vnode in vnodes_of("2:ncpus=4"))
    assert not Vnodes(one_host, jobs).fits(0)
    assert Vnodes(vnodes_of("2:ncpus=4"), jobs).fits(0)


def test_a_packed_job_stays_on_one_host() -> None:
    jobs = jobs_of([asking("2:ncpus=3", "pack")])
    assert not Vnodes(vnodes_of("2:ncpus=4"), jobs).fits(0)
    assert Vnodes(tuple(replace(vnode, host="same") for vnode in vnodes_of("2:ncpus=4")), jobs).fits(0)


def test_a_candidate_may_not_take_the_vnode_that_the_top_job_will_need() -> None:
    # The top job needs the vnode with the GPU, which is busy until 100; the candidate fits beside it on the other one.
    running = asking("1:ncpus=4:ngpus=1")
    top = asking("1:ncpus=4:ngpus=1", at=1)
    long = asking("1:ncpus=2", at=2, runtime=500)
    assert starts("1:ncpus=4:ngpus=1+1:ncpus=4", running, top, long) == [0, 100, 2]
    assert starts("1:ncpus=6:ngpus=1", running, top, long) == [0, 100, 2]
    assert starts("1:ncpus=5:ngpus=1", running, top, long) == [0, 100, 200]


def test_jobs_that_the_empty_machine_cannot_run_are_refused() -> None:
    jobs = jobs_of([asking("1:ncpus=4"), asking("1:ncpus=8"), asking("3:ncpus=4", "scatter")])
    fit, refused = that_fit(vnodes_of("2:ncpus=4"), jobs)
    assert (len(fit), refused) == (1, 2)


def test_one_vnode_schedules_as_plain_processors(jobs: Jobs) -> None:
    some = jobs.chosen(range(300))
    plain = jobs_of([replace(job, submission=replace(job.submission, select="", place="free", nodect=1, mem=None))
                     for job in some.completed])  # fmt: skip
    size = max(plain.processors)
    expected = simulate(plain, size, PBS)
    found = simulate(plain, Vnodes(vnodes_of(f"1:ncpus={size}"), plain), PBS)
    assert np.array_equal(found.start, expected.start)


@settings(max_examples=60)
@given(st.data())
def test_no_vnode_is_ever_given_more_than_it_has(data: st.DataObject) -> None:
    selects = st.sampled_from(["1:ncpus=1", "2:ncpus=2", "1:ncpus=3:mem=2gb", "3:ncpus=1:mem=1gb", "1:ncpus=1:ngpus=1"])
    places = st.sampled_from(["free", "pack", "scatter", "vscatter:excl", "excl"])
    asked = [
        asking(select, place, at=at, runtime=runtime)
        for select, place, at, runtime in data.draw(
            st.lists(st.tuples(selects, places, st.integers(0, 50), st.integers(1, 60)), min_size=1, max_size=25)
        )
    ]
    vnodes = vnodes_of("3:ncpus=4:mem=4gb+1:ncpus=2:mem=2gb:ngpus=1")
    jobs, _ = that_fit(vnodes, jobs_of(asked))

    class Watched(Vnodes):
        def allocate(self, job: int) -> None:
            super().allocate(job)
            assert (self._free >= 0).all()

    machine = Watched(vnodes, jobs)
    outcome = simulate(jobs, machine, PBS)
    assert (outcome.start >= np.array(jobs.submitted)).all()
    assert np.array_equal(machine._free, Watched(vnodes, jobs)._free), "everything was given back"


def test_the_vnodes_of_a_server_are_read_from_pbsnodes(tmp_path: Path) -> None:
    recorded = ROOT.parent / "shared" / "pbs" / "snapshots" / "pbsnodes.json"
    nodes = {
        "up": {"state": "free", "resources_available": {"host": "a", "ncpus": 16, "ngpus": 2, "mem": "24684092kb"}},
        "bare": {"state": "job-busy", "resources_available": {"ncpus": 4}},
        "gone": {"state": "down,offline", "resources_available": {"ncpus": 4}},
    }
    path = tmp_path / "pbsnodes.json"
    path.write_text(json.dumps({"nodes": nodes}))
    up, bare = read_vnodes(path)
    assert (up.host, up.resources) == ("a", (16, 24684092 << 10, 2))
    assert (bare.host, bare.resources[0], bare.resources[2]) == ("bare", 4, 0)
    if recorded.exists():
        assert read_vnodes(recorded) == (up.__class__("pbs1", (16, 24684092 << 10, 2)),)


@pytest.mark.parametrize("text", ["", "{}", '{"nodes": []}', '{"nodes": {}}', '{"nodes": {"a": {"state": "down"}}}'])
def test_what_is_no_list_of_vnodes_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "pbsnodes.json"
    path.write_text(text)
    with pytest.raises(SourceError, match=r"pbsnodes -a -F json"):
        read_vnodes(path)


@pytest.mark.parametrize("text", ["", "0:ncpus=4", "x:ncpus=4", "4:ncpus=-1", "4:mem=lots"])
def test_a_wrong_description_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        vnodes_of(text)


def test_each_described_vnode_is_a_host_of_its_own() -> None:
    assert [vnode.host for vnode in vnodes_of("3:ncpus=4+2:ncpus=8")] == [f"vnode{index}" for index in range(5)]
