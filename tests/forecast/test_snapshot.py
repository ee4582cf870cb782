"""The parts of a snapshot, read from the attributes of PBS's objects, and its file."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from softwalltime.core.errors import SourceError
from softwalltime.measure.forecast.pbs_state import SnapshotReader, dedicated_times, lacking
from softwalltime.measure.forecast.snapshot import DEDICATED, AdvanceReservation, SchedulerSettings, load_snapshot
from softwalltime.measure.simulation.shares import FairShareSettings, ShareGroup
from tests.forecast.states import DATA, NOW, recorded

OBJECTS = json.loads((DATA / "attributes.json").read_text())
"""Attributes of a server's objects, as PBS's library gives them."""


def test_dedicated_times_are_read_as_pbs_reads_them(zone: Callable[[str], None]) -> None:
    zone("Europe/Berlin")
    text = """# FROM           TO
04/15/1998 12:00 04/15/1998 15:30
  11/20/2026 10:00 11/20/2026 12:00 # now
12/24/26 08:30 12/24/2026 24:00
07/01/2027 08:00 07/01/2027 09:00
12/24/2026 08:30 12/24/26 24:00
12/25/2026 08:30 12/25/2026 08:30
12/25/2026 09:30 12/25/2026 08:30
99999999999999999999/1/2026 08:00 99999999999999999999/1/2026 09:00
12/26/2026 08:00
soon
"""
    found = [(each.start - NOW, each.end - NOW) for each in dedicated_times(text, 64, NOW)]
    # It is 11:23:48 in Berlin.
    hour, day = 3600, 86400
    christmas = 34 * day - (2 * hour + 53 * 60 + 48)
    summer = 223 * day - (4 * hour + 23 * 60 + 48)
    assert found == [
        (-5028, 2172), (christmas, christmas + 15 * hour + 1800), (summer, summer + hour)
    ]  # fmt: skip
    assert {(each.name, each.ncpus, each.state) for each in dedicated_times(text, 64, NOW)} == {(DEDICATED, 64, "")}


def test_jobs_are_read_with_what_they_asked_for_and_used() -> None:
    remarks: list[str] = []
    jobs = {name: SnapshotReader(remarks).job(name, values) for name, values in OBJECTS["jobs"].items()}
    assert not remarks
    by_id = {name: job for name, job in jobs.items() if job is not None}
    first = by_id["1.pbs1"]
    assert first.occupies
    assert (first.start, first.used, first.submission.ncpus, first.submission.walltime) == (NOW - 1428, 1420, 8, 3600)
    assert by_id["2.pbs1"].soft_walltime == 1800
    assert by_id["2.pbs1"].submission.user == "bob"
    assert by_id["3.pbs1"].estimated_start == NOW + 2172
    assert (by_id["6.pbs1"].holds, by_id["7.pbs1"].depends) == ("u", "afterok:3.pbs1@pbs1")
    assert by_id["8.pbs1"].execution_time == NOW + 27372


def test_vnodes_queues_reservations_and_settings_are_read() -> None:
    remarks: list[str] = []
    reader = SnapshotReader(remarks)
    vnodes = [reader.vnode(*found) for found in OBJECTS["vnodes"].items()]
    assert [(node.name, node.ncpus, node.state) for node in vnodes] == [
        ("n1", 8, "job-busy"), ("n2", 8, "free"), ("n3", 8, "down,offline"),
    ]  # fmt: skip
    queues = {name: reader.queue(name, values) for name, values in OBJECTS["queues"].items()}
    assert queues["route"].destinations == ("short", "long")
    assert not queues["route"].execution
    assert (queues["short"].limits, queues["short"].default_walltime) == ((("max_run", "[u:PBS_GENERIC=4]"),), 1800)
    assert queues["long"].limits == (("max_run_res.ncpus", "[u:PBS_GENERIC=64]"),)
    (reservation,) = (reader.reservation(*found) for found in OBJECTS["reservations"].items())
    assert reservation == AdvanceReservation("R71.pbs1", NOW + 12972, NOW + 20172, 8, "RESV_CONFIRMED")
    scheduler = reader.scheduler(OBJECTS["server"]["pbs1"], (DATA / "sched_config").read_text())
    assert (scheduler.strict_ordering, scheduler.by_queue, scheduler.backfill_depth) == (True, False, 2)
    assert scheduler.resources == ("ncpus", "mem", "arch")
    assert not remarks


def test_a_value_that_cannot_be_read_is_left_out_and_named() -> None:
    remarks: list[str] = []
    values = OBJECTS["jobs"]["2.pbs1"] | {"Resource_List.walltime": "for ever", "stime": "noon"}
    job = SnapshotReader(remarks).job("2.pbs1", values)
    assert job is not None
    assert (job.submission.walltime, job.start) == (None, None)
    assert sorted(remarks) == [
        "2.pbs1 stime: left out: not a time in epoch seconds", "2.pbs1 walltime: left out: not a duration",
    ]  # fmt: skip


def test_what_cannot_be_placed_in_time_is_dropped_and_named() -> None:
    remarks: list[str] = []
    reader = SnapshotReader(remarks)
    assert reader.job("2.pbs1", {"ctime": "yesterday"}) is None
    assert reader.reservation("R1.pbs1", {"reserve_start": "1795183200"}) is None
    assert remarks[-2:] == [
        "2.pbs1: dropped: when it was submitted cannot be read", "R1.pbs1: dropped: its start or end cannot be read",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("config", "prefix"), [("", "ded"), ("dedicated_prefix: maint\n", "maint"), ('dedicated_prefix: ""\n', "ded")]
)
def test_the_site_names_the_queues_for_dedicated_time(config: str, prefix: str) -> None:
    assert SnapshotReader([]).scheduler({}, config).dedicated_prefix == prefix


def test_without_sched_config_strict_ordering_is_assumed_and_that_is_said() -> None:
    remarks: list[str] = []
    assert SnapshotReader(remarks).scheduler({}, "").strict_ordering is None
    assert remarks == ["sched_config: not read, strict_ordering is assumed"]


@pytest.mark.parametrize(
    ("text", "strict"),
    [
        ("by_queue: true ALL\n", False),
        ("strict_ordering: false ALL\nstrict_ordering: true ALL\n", True),
        ("strict_ordering: 1\n", True),
        ("strict_ordering: true prime\nstrict_ordering: false non_prime\n", True),
    ],
)
def test_sched_config_is_read_as_the_scheduler_reads_it(text: str, strict: bool) -> None:
    assert SnapshotReader([]).scheduler({}, text).strict_ordering is strict


@pytest.mark.parametrize(
    ("server", "text", "unmodelled"),
    [
        ({}, "backfill: true ALL\nprimetime_prefix: p_\nbackfill_prime: false ALL\n", ()),
        ({"preempt_prio": "express_queue, normal_jobs", "preempt_queue_prio": "150"}, "", ()),
        ({}, 'job_sort_key: "ncpus HIGH" ALL\njob_sort_key: "mem LOW"\n', ("job_sort_key = ncpus HIGH, mem LOW",)),
        ({"job_sort_formula_threshold": "3"}, "", ("job_sort_formula_threshold = 3",)),
        ({"node_group_enable": "True"}, "backfill: false\n", ("backfill = false", "node_group_enable = True")),
        ({}, "fair_share: true non_prime\n", ("fair_share = True in non-prime time",)),
    ],
)
def test_settings_that_are_not_modelled_are_kept(server: dict[str, str], text: str, unmodelled: tuple[str]) -> None:
    assert SnapshotReader([]).scheduler(server, text).unmodelled == unmodelled


FAIR = """\
fair_share: true ALL
fairshare_entity: egroup
fairshare_usage_res: "ncpus*walltime"
fairshare_decay_time: 01:30:00
fairshare_decay_factor: 0.75
unknown_shares: 10
"""


def test_fair_share_is_read_as_the_scheduler_reads_it() -> None:
    remarks: list[str] = []
    reader = SnapshotReader(remarks)
    tree = (ShareGroup("physics", "root", 30), ShareGroup("alice", "physics", 2))
    scheduler = reader.scheduler({}, FAIR, "# comment\nphysics 50 root 30\nalice 51 physics 2\nbob 52 nobody 1\n")
    assert scheduler.shares == FairShareSettings("egroup", "ncpus*walltime", 5400, 0.75, 10, tree)
    assert reader.scheduler({}, "fair_share: true\n").shares == FairShareSettings(usage="cput", unknown_shares=0)
    assert not remarks
    restored = TypeAdapter(SchedulerSettings).validate_json(json.dumps(asdict(scheduler)))
    assert restored == scheduler


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("fairshare_entity: host", "entity: should be 'euser'"),
        ("fairshare_decay_factor: 2", "decay_factor: should be less than 1"),
        ("fairshare_decay_time: soon", "not a duration"),
        ("unknown_shares: some", "unknown_shares: should be a valid integer"),
    ],
)
def test_fair_share_that_pbs_would_not_take_is_left_out(line: str, said: str) -> None:
    remarks: list[str] = []
    assert SnapshotReader(remarks).scheduler({}, f"fair_share: true\n{line}\n").shares is None
    assert len(remarks) == 1
    assert said in remarks[0]


def test_a_job_that_can_never_run_has_the_reason() -> None:
    comment = "Can Never Run: Insufficient amount of resource: mem (R: 500gb A: 448gb T: 448gb)"
    assert lacking({"comment": comment}) == comment


def test_a_snapshot_is_the_same_after_it_was_saved_and_loaded(tmp_path: Path) -> None:
    found = recorded()
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


@pytest.mark.parametrize(
    ("name", "message"), [("jobs", r"jobs\.0\.submission: ncpus is negative"), ("vnodes", r"vnodes\.0\.ncpus: ")]
)
def test_negative_numbers_of_processors_are_refused(name: str, message: str, tmp_path: Path) -> None:
    document, path = json.loads(recorded().to_json()), tmp_path / "queue.json"
    first = document[name][0]
    first.get("submission", first)["ncpus"] = -4
    path.write_text(json.dumps(document))
    with pytest.raises(SourceError, match=message):
        load_snapshot(path)


@pytest.mark.parametrize(
    ("attributes", "from_route_only", "restricted"),
    [
        ({}, False, False),
        ({"from_route_only": "True", "acl_host_enable": "True"}, True, False),
        ({"acl_user_enable": "True", "acl_users": "ann"}, False, True),
        ({"acl_group_enable": "True", "acl_user_enable": "False"}, False, True),
    ],
)
def test_who_may_submit_to_a_queue_is_read(attributes: dict[str, str], from_route_only: bool, restricted: bool) -> None:
    queue = SnapshotReader([]).queue("q", {"queue_type": "Execution", **attributes})
    assert (queue.from_route_only, queue.restricted) == (from_route_only, restricted)
