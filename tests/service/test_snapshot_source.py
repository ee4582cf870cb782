"""The state of a server through the agent, for forecasts."""

import time
from dataclasses import replace
from pathlib import Path

from softwalltime.measure.forecast.queue_model import model_of
from softwalltime.measure.forecast.snapshot import DEDICATED
from softwalltime.service.snapshot_source import SnapshotSource
from tests.forecast.states import DATA
from tests.live.emulated import SUBMITTED, EmulatedServer

NOW = SUBMITTED + 1000


def test_the_state_has_jobs_and_subjobs_and_what_they_run_on(tmp_path: Path) -> None:
    server = EmulatedServer(tmp_path)
    server.set_attribute("eligible_time_enable", "True")
    server.add("1.pbs1", job_state="R", stime=str(NOW - 60), Resource_List__ncpus="4", exec_vnode="(n1:ncpus=4)")
    server.add("2[].pbs1")
    server.add("2[1].pbs1", Hold_Types="u", job_state="H")
    server.add("3.pbs1", job_state="F")
    server.add("0.pbs1", estimated__start_time=str(NOW + 60), queue_rank="1", eligible_time="00:01:00")
    connection = server.connect()
    found = SnapshotSource(connection, DATA / "sched_config").take(NOW)
    connection.close()
    assert [job.submission.job_id for job in found.jobs] == ["0.pbs1", "1.pbs1", "2[1].pbs1"]
    first, second, third = found.jobs
    assert (first.estimated_start, first.eligible_time, first.occupies) == (NOW + 60, 60, False)
    assert (second.start, second.submission.ncpus, second.occupies) == (NOW - 60, 4, True)
    assert (third.state, third.holds) == ("H", "u")
    assert [(vnode.name, vnode.ncpus) for vnode in found.vnodes] == [("n1", 16)]
    assert (found.server, found.version, found.queues[0].started) == ("pbs1", "23.06.06", True)
    assert found.scheduler.strict_ordering is True
    assert found.remarks == ()


def test_the_scheduler_has_settings_too(tmp_path: Path) -> None:
    server = EmulatedServer(tmp_path)
    server.set_attribute("job_sort_formula", "job_priority", "schedulers")
    server.add("1.pbs1", Priority="7", etime=str(NOW))
    (tmp_path / "sched_config").write_text("strict_ordering: true ALL\n")
    dedicated = tmp_path / "dedicated_time"
    connection = server.connect()
    source = SnapshotSource(connection, tmp_path / "sched_config")
    dedicated.write_text("# FROM TO\n04/15/1998 12:00 04/15/1998 15:30\n")
    found = source.take(NOW)
    assert (found.scheduler.formula, found.jobs[0].priority, found.reservations) == ("job_priority", 7, ())
    dedicated.write_text(time.strftime("%m/%d/%Y 08:00 %m/%d/%Y 12:00\n", time.localtime(NOW + 86400)))
    (period,) = source.take(NOW).reservations
    assert (period.name, period.end - period.start, period.ncpus) == (DEDICATED, 4 * 3600, 16)
    connection.close()


def test_a_second_look_reads_details_of_modified_jobs_only(tmp_path: Path) -> None:
    server = EmulatedServer(tmp_path)
    server.add("1.pbs1")
    server.add("2.pbs1")
    connection = server.connect()
    state = SnapshotSource(connection)
    (one, two) = state.take(NOW).jobs
    server.add("2.pbs1", queue="long")
    again = state.take(NOW + 60)
    connection.close()
    assert again.jobs == (one, replace(two, submission=replace(two.submission, queue="long")))
    # Jobs that cannot start yet have no etime: qtime and holds are read of them.
    everything, changed = "jobs 1.pbs1,2.pbs1", "jobs 2.pbs1"
    assert server.requests() == [everything, everything, everything, changed, changed]
    assert again.remarks == ("sched_config: not read, strict_ordering is assumed",)


def test_what_pbs_says_a_job_lacks_is_read_at_each_look(tmp_path: Path) -> None:
    server = EmulatedServer(tmp_path)
    lacks = "Insufficient amount of server resource: lic (R: 2 A: 0 T: 4)"
    for name, comment in (("1.pbs1", f"Not Running: {lacks}"), ("2.pbs1", "Not Running: Not enough free nodes")):
        server.add(name, comment=comment, etime=str(NOW))
    connection = server.connect()
    state = SnapshotSource(connection)
    found = state.take(NOW)
    assert [job.lacks for job in found.jobs] == [lacks, ""]
    (impossible,) = model_of(found).impossible
    assert impossible.reason == f"PBS says: {lacks}; when that ends is not predicted"
    server.add("1.pbs1", comment="Not Running: Job would conflict with reservation or top job", etime=str(NOW))
    assert [job.lacks for job in state.take(NOW + 60).jobs] == ["", ""]
    connection.close()


def test_priorities_are_read_only_for_a_formula_that_uses_them(tmp_path: Path) -> None:
    server = EmulatedServer(tmp_path)
    server.add("1.pbs1", Priority="7", etime=str(NOW))
    connection = server.connect()
    state = SnapshotSource(connection)
    assert [job.priority for job in state.take(NOW).jobs] == [0]
    server.set_attribute("job_sort_formula", "job_priority + 2")
    assert [job.priority for job in state.take(NOW + 60).jobs] == [7]
    connection.close()
