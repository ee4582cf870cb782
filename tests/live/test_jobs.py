"""Jobs as PBS reports them."""

from collections.abc import Sequence

import pytest

from softwalltime.service.live.connection import PbsConnection
from softwalltime.service.live.ifl import Attributes, IflError
from softwalltime.service.live.watch import DETAILS, STATE, STATES_AT_ONCE, JobWatcher, live_job, server_jobs

NOW = 1795320000
ATTRIBUTES = {
    "job_state": "R", "mtime": "1795316655", "stime": "1795316650", "ctime": "1795316600", "queue": "short",
    "Job_Owner": "alice@pbs1.cluster", "euser": "alice", "egroup": "staff", "project": "_pbs_project_default",
    "Job_Name": "STDIN", "Resource_List.ncpus": "12", "Resource_List.mem": "4gb", "Resource_List.nodect": "1",
    "Resource_List.place": "free", "Resource_List.select": "1:ncpus=12", "Resource_List.walltime": "00:10:00",
    "Resource_List.soft_walltime": "00:02:00",
}  # fmt: skip


def test_a_running_job() -> None:
    job = live_job("7.pbs1", ATTRIBUTES)
    assert job.runs
    assert not job.waits
    assert (job.soft_walltime, job.started, job.promised) == (120, 1795316650, None)
    submission = job.submission
    assert (submission.user, submission.group, submission.walltime) == ("alice", "staff", 600)
    assert (submission.ncpus, submission.mem, submission.submitted) == (12, 4 * 2**30, 1795316600)


def test_a_waiting_job_with_a_promise() -> None:
    job = live_job("7.pbs1", {**ATTRIBUTES, "job_state": "Q", "estimated.start_time": "1795317000"})
    assert job.waits
    # A job that was requeued still has the start of its last run.
    assert (job.started, job.promised) == (None, 1795317000)


def test_without_euser_the_owner_is_the_user() -> None:
    attributes = {name: value for name, value in ATTRIBUTES.items() if name != "euser"}
    assert live_job("7.pbs1", attributes).submission.user == "alice"


def test_what_cannot_be_read_counts_as_missing() -> None:
    job = live_job(
        "7.pbs1", {"job_state": "Q", "mtime": "x", "Resource_List.walltime": "soon", "Resource_List.mem": "?"}
    )
    assert job.submission.walltime is None


class RecordedJobs(PbsConnection):
    """Jobs in memory, and the requests for them."""

    def __init__(self, jobs: dict[str, Attributes]) -> None:
        super().__init__()
        self.there = jobs
        self.asked: list[tuple[str, ...]] = []
        self.names: list[tuple[str, ...]] = []
        self.fails = 0
        """Which request from now on fails; 0: none."""

    def ids(self) -> list[str]:
        return [job_id for job_id, job in self.there.items() if job["job_state"] not in "FXM"]

    def jobs(self, names: Sequence[str], ids: Sequence[str] = (), *, subjobs: bool = False) -> dict[str, Attributes]:
        assert not subjobs
        self.asked.append(tuple(ids))
        self.names.append(tuple(names))
        if self.fails == 1:
            self.fails = 0
            raise IflError("lost", 15010)
        self.fails = max(self.fails - 1, 0)
        wanted = set(names)
        return {
            job_id: {name: value for name, value in attributes.items() if name.split(".")[0] in wanted}
            for job_id, attributes in self.there.items()
            if job_id in ids
        }


def test_details_are_read_again_only_for_jobs_that_were_modified() -> None:
    source = RecordedJobs({f"{number}.pbs1": dict(ATTRIBUTES, job_state="Q") for number in range(3)})
    watch = server_jobs(source)
    assert len(watch.look(NOW)) == 3
    everything = ("0.pbs1", "1.pbs1", "2.pbs1")
    assert source.asked == [everything]
    assert len(watch.look(NOW)) == 3
    assert (source.asked[1:], source.names[1:]) == ([everything], [STATE])
    source.there["1.pbs1"] |= {"mtime": "1795316700", "Resource_List.walltime": "01:00:00"}
    walltimes = [job.submission.walltime for job in watch.look(NOW)]
    assert walltimes == [600, 3600, 600]
    assert source.asked[2:] == [everything, ("1.pbs1",)]


def test_jobs_that_have_ended_or_are_gone_are_left_out() -> None:
    source = RecordedJobs({state: dict(ATTRIBUTES, job_state=state) for state in "QRSBHFXETW"})
    watch = server_jobs(source)
    found = watch.look(NOW)
    assert sorted(job.state for job in found) == ["B", "H", "Q", "R", "S", "W"]
    assert sorted(job.state for job in found if job.waits or job.runs) == ["B", "Q", "R", "S"]
    del source.there["Q"]
    assert sorted(job.state for job in watch.look(NOW)) == ["B", "H", "R", "S", "W"]


def test_no_request_keeps_the_server_from_others_for_long() -> None:
    jobs = {f"{number}.pbs1": dict(ATTRIBUTES, job_state="Q") for number in range(1000)}
    source = RecordedJobs(jobs)
    watch = server_jobs(source)
    ids = [job.job_id for job in watch.look(NOW)]
    assert ids == list(jobs)
    source.there["1000.pbs1"] = dict(ATTRIBUTES, job_state="Q")
    assert len(watch.look(NOW + 60)) == 1001
    # Half a microsecond of the server for each attribute of each job: about 1 ms.
    costs = [
        len(ids) * (len(names) + 5 * ("Resource_List" in names))
        for ids, names in zip(source.asked, source.names, strict=True)
    ]
    assert max(costs) <= 2000
    first = sum(len(ids) for ids in source.asked[:10])
    assert first == 1000, "each job is read once"


class RecordedArrays(RecordedJobs):
    """Arrays in memory, each with subjobs that have ended."""

    def __init__(self, subjobs: dict[str, int]) -> None:
        super().__init__({f"{number}[].pbs1": dict(ATTRIBUTES, job_state="B") for number in subjobs})
        self.subjobs = subjobs
        self.returned: list[int] = []

    def jobs(self, names: Sequence[str], ids: Sequence[str] = (), *, subjobs: bool = False) -> dict[str, Attributes]:
        found = {
            f"{number}[{index}].pbs1": dict(ATTRIBUTES, job_state="X")
            for number, count in self.subjobs.items()
            if f"{number}[].pbs1" in ids
            for index in range(count if subjobs else 0)
        }
        self.returned.append(len(found))
        return super().jobs(names, ids) | found


def test_no_request_returns_the_subjobs_of_many_arrays() -> None:
    source = RecordedArrays({str(number): 40 for number in range(60)} | {"1000": 5000})
    watch = JobWatcher(
        source, STATE, DETAILS, lambda job_id, _: "[]" in job_id, live_job, lambda job, _: job, subjobs=True
    )  # fmt: skip
    assert len(watch.look(NOW)) == 61
    # Nothing is known of the arrays yet: each may have thousands of subjobs.
    assert [len(asked) for asked in source.asked] == [1] * 61
    source.returned.clear()
    assert len(watch.look(NOW + 60)) == 61
    *others, last = source.returned
    assert max(others) <= STATES_AT_ONCE
    assert last == 5000


def test_arrays_after_many_jobs_are_read_whole_unless_they_have_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any user can submit arrays of millions of subjobs, which cost a forecast of all users' starts its memory."""
    monkeypatch.setattr("softwalltime.service.live.watch.MAX_EXPANDED", 40)
    source = RecordedArrays({"1": 50, "2": 50, "3": 50, "4": 50})
    for waiting in ("1[].pbs1", "2[].pbs1", "4[].pbs1"):
        source.there[waiting]["job_state"] = "Q"
    watch = JobWatcher(
        source, STATE, DETAILS, lambda job_id, _: "[]" not in job_id, live_job, lambda job, _: job, subjobs=True
    )  # fmt: skip
    for now in (NOW, NOW + 60):
        assert {job.job_id.partition("[")[0] for job in watch.look(now)} == {"1", "3"}
        assert watch.whole == {"2[].pbs1", "4[].pbs1"}


def test_the_owner_is_read_only_where_there_is_no_user_yet() -> None:
    source = RecordedJobs({"1.pbs1": dict(ATTRIBUTES, job_state="Q"), "2.pbs1": dict(ATTRIBUTES, job_state="Q")})
    del source.there["2.pbs1"]["euser"]
    source.there["2.pbs1"]["Job_Owner"] = "bob@pbs1.cluster"
    watch = server_jobs(source)
    assert [job.submission.user for job in watch.look(NOW)] == ["alice", "bob"]
    assert (source.asked[1:], source.names[1:]) == ([("2.pbs1",)], [("Job_Owner",)])


def test_a_look_that_fails_halfway_is_made_up_for() -> None:
    source = RecordedJobs({"1.pbs1": dict(ATTRIBUTES, job_state="Q")})
    watch = server_jobs(source)
    watch.look(NOW)
    source.there["1.pbs1"] |= {"mtime": "1795316700", "Resource_List.walltime": "01:00:00"}
    source.fails = 2
    with pytest.raises(IflError):
        watch.look(NOW + 60)
    (job,) = watch.look(NOW + 120)
    assert job.submission.walltime == 3600


def test_a_job_that_was_modified_in_the_second_of_a_look_is_read_again() -> None:
    source = RecordedJobs({"1.pbs1": dict(ATTRIBUTES, job_state="Q", mtime=str(NOW))})
    watch = server_jobs(source)
    watch.look(NOW)
    source.there["1.pbs1"]["Resource_List.walltime"] = "01:00:00"
    (job,) = watch.look(NOW + 60)
    assert job.submission.walltime == 3600
    source.asked.clear()
    watch.look(NOW + 120)
    assert source.asked == [("1.pbs1",)]


def test_state_and_details_are_different_attributes() -> None:
    assert not set(STATE) & set(DETAILS)


def test_an_array_has_the_start_of_its_first_subjob() -> None:
    begun = live_job("5[].pbs1", dict(ATTRIBUTES, job_state="B"))
    assert (begun.waits, begun.runs, begun.started) == (True, False, 1795316650)
