"""Events of waiting and running jobs for predictors that observe them."""

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from softwalltime.accounting.writer import end_record, queue_record, start_record
from softwalltime.core.events import Altered, Deleted, Ended, Started, Submitted
from softwalltime.core.jobs import CompletedJob, CurrentJob, Submission
from softwalltime.service.prediction_service import JobEvents
from tests.samples import job
from tests.service.running import Daemon, until
from tests.spy import Entry, file_spy_environment, read_entries

NOW = 5000


def current(job_id: str = "1.srv", start: int | None = None, walltime: int = 1000) -> CurrentJob:
    return CurrentJob(job(job_id=job_id, submitted=100, walltime=walltime).submission, "srv", start)


def submission(job_id: str = "1.srv", walltime: int = 1000) -> Submission:
    return current(job_id, walltime=walltime).submission


def test_a_job_is_followed_from_its_submission_to_its_end() -> None:
    watch = JobEvents()
    assert watch.load([current()], NOW) == [Submitted(100, submission())]
    assert watch.load([current()], NOW) == []
    assert watch.load([current(walltime=500)], NOW) == [Altered(NOW, submission(walltime=500))]
    assert watch.load([current(start=300, walltime=500)], NOW) == [Started(300, submission(walltime=500))]
    ended = replace(job(submitted=100, walltime=500, end=400), start=300)
    assert watch.ended(ended) == [Ended(400, ended)]
    assert watch.load([], NOW) == []


def test_a_job_that_disappears_without_completing_was_deleted() -> None:
    watch = JobEvents()
    watch.load([current()], NOW)
    assert watch.load([], NOW) == [Deleted(NOW, submission())]


def test_a_job_within_one_poll_interval_is_observed_when_its_end_is_stored() -> None:
    ended = replace(job(submitted=100, end=400), start=300)
    of = ended.submission
    assert JobEvents().ended(ended) == [Submitted(100, of), Started(300, of), Ended(400, ended)]
    never = CompletedJob(of, "srv", None, 400, 0)
    assert JobEvents().ended(never) == [Submitted(100, of), Deleted(400, of)]


def test_a_job_that_was_requeued_starts_again() -> None:
    watch = JobEvents()
    watch.load([current(start=300)], NOW)
    assert watch.load([current()], NOW) == []
    assert watch.load([current(start=900)], NOW) == [Started(900, submission())]


def test_events_are_in_order_of_time_and_arrays_are_their_subjobs() -> None:
    jobs = [current("2[].srv"), current("2[1].srv", start=200), current("1.srv", start=150)]
    assert JobEvents().load(jobs, NOW) == [
        Submitted(100, submission("2[1].srv")), Submitted(100, submission("1.srv")),
        Started(150, submission("1.srv")), Started(200, submission("2[1].srv")),
    ]  # fmt: skip


@pytest.fixture
def daemon(tmp_path: Path, database: str) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path, database, 'mode = "on"\nwaiting = "file-spy"\n')
    daemon.environment = file_spy_environment(tmp_path)
    yield daemon
    if daemon.process is not None and daemon.process.poll() is None:
        daemon.end(signal.SIGKILL)


@pytest.mark.postgres
def test_the_daemon_observes_the_events_of_the_log(daemon: Daemon, tmp_path: Path) -> None:
    def spied() -> list[Entry]:
        return read_entries(tmp_path / "spied")

    def write(*records: tuple[str, CompletedJob, str]) -> None:
        with daemon.log.open("a") as log:
            for kind, each, message in records:
                log.write(f"11/20/2026 10:16:10;{kind};{each.submission.job_id};{message}\n")

    begin = 1_700_000_000
    one, two = (
        replace(job(job_id=f"{n}.srv", submitted=begin, end=begin + 500, runtime=200), start=begin + 300) for n in "12"
    )
    write(("Q", one, queue_record(one)), ("Q", two, queue_record(two)))
    daemon.start()
    until(lambda: len(spied()) == 2)
    assert set(spied()) == {Entry("Submitted", f"{n}.srv", begin) for n in "12"}
    assert daemon.predict(job_id="3.srv")["soft_walltime"] == 100
    assert [entry[:2] for entry in spied()[2:]] == [("predict", "3.srv")]
    write(("a", one, "Resource_List.walltime=00:10:00"))
    until(lambda: len(spied()) == 4)
    assert spied()[3][:2] == ("Altered", "1.srv")
    one = replace(one, submission=replace(one.submission, walltime=600))
    write(("S", one, start_record(one)), ("D", two, "requestor=alice@srv"))
    until(lambda: len(spied()) == 6)
    assert {entry[:2] for entry in spied()[4:]} == {("Started", "1.srv"), ("Deleted", "2.srv")}
    write(("E", one, end_record(one)))
    until(lambda: len(spied()) == 8)
    assert spied()[6:] == [Entry("Ended", "1.srv", begin + 500), Entry("learn", "1.srv", begin + 500)]
