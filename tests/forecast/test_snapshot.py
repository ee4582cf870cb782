"""The state of a server, read from what PBS's commands print."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from softwalltime.core.errors import SourceError
from softwalltime.measure.forecast.pbs_state import PbsOutput, snapshot_of
from softwalltime.measure.forecast.snapshot import AdvanceReservation, load_snapshot
from tests.forecast.states import DATA, NOW, recorded_output
from tests.samples import ROOT

RECORDINGS = ROOT.parent / "shared" / "pbs" / "snapshots"


def test_jobs_are_read_with_what_they_asked_for_and_used() -> None:
    found = snapshot_of(recorded_output())
    assert found.taken == NOW
    assert not found.remarks
    by_id = {job.submission.job_id: job for job in found.jobs}
    first = by_id["1.pbs1"]
    assert first.occupies
    assert (first.start, first.used, first.submission.ncpus, first.submission.walltime) == (NOW - 1428, 1420, 8, 3600)
    assert by_id["2.pbs1"].soft_walltime == 1800
    assert by_id["2.pbs1"].submission.user == "bob"
    assert by_id["3.pbs1"].estimated_start == NOW + 2172
    assert by_id["4.pbs1"].submission.job_name == "7", "PBS writes a name that looks like a number as one"
    assert (by_id["6.pbs1"].holds, by_id["7.pbs1"].depends) == ("u", "afterok:3.pbs1@pbs1")
    assert by_id["8.pbs1"].execution_time == NOW + 27372
    assert "10.pbs1" not in by_id, "it has ended"


def test_an_array_is_its_subjobs_in_their_order() -> None:
    found = [job.submission.job_id for job in snapshot_of(recorded_output()).jobs]
    assert found[4:7] == ["5[2].pbs1", "5[3].pbs1", "5[4].pbs1"]
    assert found[-1] == "9.pbs1"


def test_vnodes_queues_reservations_and_settings_are_read() -> None:
    found = snapshot_of(recorded_output())
    assert [(node.name, node.ncpus, node.state) for node in found.vnodes] == [
        ("n1", 8, "job-busy"), ("n2", 8, "free"), ("n3", 8, "down,offline"),
    ]  # fmt: skip
    queues = {queue.name: queue for queue in found.queues}
    assert queues["route"].destinations == ("short", "long")
    assert not queues["route"].execution
    assert queues["short"].limits == (("max_run", "[u:PBS_GENERIC=4]"),)
    assert queues["long"].limits == (("max_run_res.ncpus", "[u:PBS_GENERIC=64]"),)
    assert found.reservations == (AdvanceReservation("R71.pbs1", NOW + 12972, NOW + 20172, 8, "RESV_CONFIRMED"),)
    scheduler = found.scheduler
    assert (scheduler.strict_ordering, scheduler.by_queue, scheduler.backfill_depth) == (True, False, 2)
    assert scheduler.resources == ("ncpus", "mem", "arch")


def test_invalid_json_costs_the_attributes_that_are_not_valid_and_names_them() -> None:
    found = snapshot_of(recorded_output("qstat-invalid.json"))
    first, second = found.jobs
    assert (first.submission.job_name, first.submission.ncpus, first.start) == ("007", 8, NOW - 1428)
    assert (second.submission.user, second.submission.walltime, second.submission.account) == ("bob", 600, "")
    (remark,) = found.remarks
    assert remark == (
        "qstat: invalid JSON, 5 of its lines dropped: 1.pbs1.Variable_List.PROMPT, 1.pbs1.Variable_List.FUNCTION, "
        "line 23, line 25, 2.pbs1.Account_Name"
    )


def test_the_job_in_which_the_output_ends_is_dropped() -> None:
    text = (DATA / "qstat.json").read_text()
    found = snapshot_of(replace(recorded_output(), jobs=text[: text.index('"4.pbs1"') + 200]))
    assert [job.submission.job_id for job in found.jobs] == ["1.pbs1", "2.pbs1", "3.pbs1"]
    assert "qstat: the output ends early, its last object was dropped" in found.remarks


def test_a_value_that_cannot_be_read_is_left_out_and_named() -> None:
    text = (DATA / "qstat.json").read_text().replace('"walltime":\t"04:00:00"', '"walltime":\t"for ever"')
    found = snapshot_of(replace(recorded_output(), jobs=text))
    assert found.jobs[1].submission.walltime is None
    assert found.remarks == ("2.pbs1 walltime: left out: not a duration",)


def test_output_that_is_not_pbs_is_an_error() -> None:
    with pytest.raises(SourceError, match="nothing was read"):
        snapshot_of(PbsOutput("qstat: Unknown queue", "pbsnodes: no"))


def test_what_could_not_be_had_is_said() -> None:
    found = snapshot_of(replace(recorded_output(), sched_config=""))
    assert found.remarks == ("sched_config: not read, strict_ordering is assumed",)
    assert found.scheduler.strict_ordering is None


def test_a_snapshot_is_the_same_after_it_was_saved_and_loaded(tmp_path: Path) -> None:
    found = snapshot_of(recorded_output())
    path = tmp_path / "queue.json"
    path.write_text(found.to_json())
    assert load_snapshot(path) == found


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "not a snapshot"), ("{}", "taken"), ('{"format": 2}', "not a snapshot"), ("[1]", "not a snapshot")],
)
def test_a_file_that_is_no_snapshot_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "queue.json"
    path.write_text(text)
    with pytest.raises(SourceError, match=message):
        load_snapshot(path)
    with pytest.raises(SourceError, match="No such file"):
        load_snapshot(tmp_path / "none.json")


@pytest.mark.skipif(not RECORDINGS.is_dir(), reason=f"no recordings in {RECORDINGS}: they are not shipped")
@pytest.mark.parametrize("jobs", ["qstat_f", "qstat_tf", "qstat_xf"])
def test_recordings_of_a_real_server(jobs: str) -> None:
    def text(name: str) -> str:
        return (RECORDINGS / f"{name}.json").read_text()

    found = snapshot_of(PbsOutput(text(jobs), text("pbsnodes"), text("qstat_Q"), text("qstat_B")))
    assert found.remarks == ("sched_config: not read, strict_ordering is assumed",)
    running = {job.submission.job_id for job in found.jobs if job.occupies}
    expected = {f"{number}.pbs1" for number in (46, 47, 48, 49, 50, 51, 56)}
    # Only qstat -t lists the subjobs that run.
    assert running - {"53[1].pbs1"} == expected
    assert {job.submission.job_id for job in found.jobs if job.state == "Q"} == {
        "52.pbs1", "54.pbs1", "53[2].pbs1", "53[3].pbs1", "53[4].pbs1",
    }  # fmt: skip
    assert json.loads(found.to_json())["scheduler"]["backfill_depth"] == 3
