"""Live values against an emulated server: what is altered, what is recorded, and what stops it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from softwalltime.core.jobs import DecisionRecord
from softwalltime.core.reasons import Reason
from softwalltime.predict.policy.site import SitePolicy
from softwalltime.service.live.connection import PbsConnection
from softwalltime.service.live.ifl import IflError
from softwalltime.service.live.live_options import LiveOptions
from softwalltime.service.live_values import LiveThread, LiveValues
from softwalltime.service.prediction_service import PredictionService
from softwalltime.service.promise_watch import PromiseWatch
from softwalltime.service.protocol import Request
from softwalltime.service.status import LiveStatus
from tests.live.emulated import SUBMITTED, EmulatedServer
from tests.live.remembered import remembering
from tests.samples import job as completed
from tests.service.running import until

NOW = SUBMITTED + 100_000


class Site:
    """An emulated server and a prediction service that has learnt."""

    def __init__(self, folder: Path) -> None:
        self.server = EmulatedServer(folder)
        self.now = NOW
        self.records: list[DecisionRecord] = []
        self.counts = LiveStatus()
        self.predictions = PredictionService(
            SitePolicy(mode="on", waiting="v1", running="v1"), clock=lambda: float(self.now)
        )
        self.predictions.ready = True
        self.connection: PbsConnection = self.server.connect()
        self.ended = NOW - 1000
        self.learn(1000)

    def learn(self, runtime: int) -> None:
        """Let alice's next prediction be this runtime."""
        for _ in range(2):
            self.ended += 1
            self.predictions.learn([completed(end=self.ended, runtime=runtime, walltime=36_000)])

    def values(self, **options: object) -> LiveValues:
        """Live values with these options."""
        return LiveValues(
            LiveOptions.model_validate({"mode": "on"} | options), self.connection, lambda: self.predictions,
            self.records.append, self.counts, PromiseWatch(remembering()),
        )  # fmt: skip


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.connection.close()


def test_a_waiting_job_follows_what_ends_meanwhile(site: Site) -> None:
    site.server.add("1.pbs1")
    values = site.values()
    values.look(site.now)
    assert site.server.soft("1.pbs1") == "1000"
    site.learn(5000)
    values.look(site.now)
    assert site.server.soft("1.pbs1") == "5000"
    first, second = site.records
    assert (first.event, first.action, first.soft_walltime, first.had) == ("live", "set", 1000, 0)
    assert (second.soft_walltime, second.had, second.submission.job_id) == (5000, 1000, "1.pbs1")
    values.look(site.now + 60)
    assert len(site.records) == site.counts.altered == 2


def test_an_ordering_value_that_a_job_has_outgrown_is_raised_and_never_lowered(site: Site) -> None:
    """A user raised the walltime in a way that no hook could see: while it was disabled, or by a move of an array."""
    site.predictions = PredictionService(SitePolicy(mode="on", waiting="v1", ordering="v1"), clock=lambda: NOW)
    site.predictions.ready = True
    site.learn(20_000)
    site.server.add("1.pbs1", Resource_List__predicted="2", Resource_List__soft_walltime="00:01:00")
    site.server.add("2.pbs1", Resource_List__predicted="30000", Resource_List__soft_walltime="20000")
    site.server.add("3.pbs1", Resource_List__predicted="0", Resource_List__soft_walltime="20000")
    site.server.add("4.pbs1", Resource_List__soft_walltime="20000")
    values = site.values()
    values.look(site.now)
    jobs = site.server.all()
    values_of = [jobs[f"{number}.pbs1"].get("Resource_List.predicted") for number in (1, 2, 3, 4)]
    assert values_of == ["20000", "30000", "0", None]
    assert jobs["1.pbs1"]["Resource_List.soft_walltime"] == "20000"
    assert [(record.soft_walltime, record.ordering) for record in site.records] == [(20_000, 20_000)]
    values.look(site.now + 60)
    assert site.counts.altered == 1


def test_a_job_whose_latest_start_is_near_comes_first_unless_its_owner_changes_it(site: Site) -> None:
    site.predictions = PredictionService(SitePolicy(mode="on", waiting="v1", ordering="v1"), clock=lambda: NOW)
    site.predictions.ready = True
    site.learn(20_000)
    resources = {"Resource_List__predicted": "20000", "Resource_List__soft_walltime": "20000"}
    site.server.add("1.pbs1", job_state="R", stime=str(NOW), exec_vnode="(n1:ncpus=16)", Resource_List__ncpus="16")
    for job in ("2.pbs1", "3.pbs1", "4[].pbs1"):
        site.server.add(job, Resource_List__ncpus="16", **resources)
    values = site.values(slack=600, slack_share=0, raise_lead=60, guard=3600)

    def first(now: int) -> list[str]:
        values.look(now)
        jobs = site.server.all()
        return [job for job in jobs if jobs[job].get("Resource_List.predicted") == "1"]

    # Each is planned for 10 h.
    assert first(NOW) == []
    assert first(NOW + 36_539) == []
    assert first(NOW + 36_540) == ["2.pbs1"]
    # PBS plans no start of it.
    assert not site.predictions.guarded
    site.server.add("2.pbs1", estimated__start_time=str(NOW + 36_600))
    assert first(NOW + 36_540) == ["2.pbs1"]
    assert site.predictions.guarded
    # Now it is planned behind the other one, which waited then.
    site.server.add("2.pbs1", Resource_List__walltime="11:00:00", **resources)
    assert first(NOW + 36_600) == []
    site.server.add("3.pbs1", job_state="H")
    assert first(NOW + 72_540) == []
    site.server.add("3.pbs1", job_state="Q", etime=str(NOW + 72_600))
    assert first(NOW + 72_600) == []
    assert first(NOW + 73_140) == []
    assert first(NOW + 73_141) == ["2.pbs1"]


def test_a_promised_job_keeps_its_place_and_its_prediction_is_scored(site: Site) -> None:
    site.predictions = PredictionService(SitePolicy(mode="on", waiting="v1", ordering="v1"), clock=lambda: NOW)
    site.predictions.ready = True
    site.learn(20_000)
    resources = {"Resource_List__predicted": "20000", "Resource_List__soft_walltime": "20000"}
    for job in ("1.pbs1", "2.pbs1", "3[].pbs1"):
        site.server.add(job, estimated__start_time=str(NOW + 5000), **resources)
    values = site.values()
    values.look(site.now)
    # PBS may have planned it before its owner altered it.
    assert site.counts.altered == 0
    # An array would bring all its subjobs to the front, of which one has a promise.
    for job in ("1.pbs1", "3[].pbs1"):
        site.server.add(job, estimated__start_time=str(NOW + 4000), **resources)
    values.look(site.now + 60)
    jobs = site.server.all()
    assert [jobs[job]["Resource_List.predicted"] for job in ("1.pbs1", "2.pbs1", "3[].pbs1")] == ["1", "20000", "20000"]
    (record,) = site.records
    assert (record.event, record.soft_walltime, record.ordering) == ("live", 20_000, 20_000)
    # Not while it is held.
    site.server.add("1.pbs1", job_state="H")
    values.look(site.now + 120)
    assert site.server.all()["1.pbs1"]["Resource_List.predicted"] == "20000"


def test_an_estimate_of_a_cycle_that_began_before_the_look_keeps_no_place(site: Site) -> None:
    site.predictions = PredictionService(SitePolicy(mode="on", waiting="v1", ordering="v1"), clock=lambda: NOW)
    site.predictions.ready = True
    values = site.values()
    site.server.add("1.pbs1", Resource_List__predicted="36000", Resource_List__soft_walltime="36000")
    site.server.set_attribute("state", "scheduling", "schedulers")
    values.look(site.now)
    site.server.set_attribute("state", "idle", "schedulers")
    site.server.add("1.pbs1", estimated__start_time=str(NOW + 5000))
    values.look(site.now + 60)
    assert site.server.all()["1.pbs1"]["Resource_List.predicted"] == "36000"
    site.server.add("1.pbs1", estimated__start_time=str(NOW + 5001))
    values.look(site.now + 120)
    assert site.server.all()["1.pbs1"]["Resource_List.predicted"] == "1"


def test_a_running_job_is_extended_before_its_soft_walltime_ends(site: Site) -> None:
    site.server.add("1.pbs1", job_state="R", stime=str(NOW - 900), Resource_List__soft_walltime="00:16:40")
    site.learn(1500)
    site.values().look(site.now)
    assert site.server.soft("1.pbs1") == "1500"
    assert site.records[0].event == "live_run"


def test_shadow_records_each_value_once_and_alters_nothing(site: Site) -> None:
    site.server.add("1.pbs1")
    values = site.values(mode="shadow")
    values.look(site.now)
    values.look(site.now + 60)
    site.learn(5000)
    values.look(site.now)
    assert [(record.action, record.soft_walltime) for record in site.records] == [("shadow", 1000), ("shadow", 5000)]
    assert not any(request.startswith("alter") for request in site.server.requests())


def test_the_policys_mode_shadow_alters_nothing_either(site: Site) -> None:
    site.server.add("1.pbs1")
    site.predictions.policy = SitePolicy(mode="shadow", waiting="v1", running="v1")
    site.values().look(site.now)
    assert [record.action for record in site.records] == ["shadow"]
    assert site.server.soft("1.pbs1") is None


def test_the_budget_bounds_the_alters_of_a_look_and_the_next_look_goes_on(site: Site) -> None:
    for number in range(5):
        site.server.add(f"{number}.pbs1")
    values = site.values(alters_per_minute=2)
    for altered, postponed in ((2, 3), (4, 1), (5, 0), (5, 0)):
        values.look(site.now)
        assert (site.counts.altered, site.counts.postponed) == (altered, postponed)


def test_a_refused_value_is_recorded_and_not_tried_again(site: Site) -> None:
    site.server.add("1.pbs1", refuse=15004)  # type: ignore[arg-type]  # a number in the file
    site.server.add("2.pbs1")
    values = site.values()
    values.look(site.now)
    values.look(site.now + 60)
    assert site.counts.refused == 1
    assert {(record.submission.job_id, record.action) for record in site.records} == {
        ("1.pbs1", "none"),
        ("2.pbs1", "set"),
    }


def test_a_connection_that_is_lost_is_no_refusal(site: Site) -> None:
    site.server.add("1.pbs1", refuse=15031)  # type: ignore[arg-type]
    values = site.values()
    with pytest.raises(IflError):
        values.look(site.now)
    site.server.remove("1.pbs1")
    site.server.add("1.pbs1")
    values.look(site.now + 60)
    assert site.server.soft("1.pbs1") == "1000"
    assert site.counts.refused == 0


def test_without_the_right_to_alter_the_look_ends(site: Site) -> None:
    for number in range(3):
        site.server.add(f"{number}.pbs1", refuse=15007)  # type: ignore[arg-type]
    with pytest.raises(IflError, match="refused"):
        site.values().look(site.now)
    assert not site.records


def test_a_soft_walltime_that_a_manager_sets_or_that_the_hook_keeps_stays(site: Site) -> None:
    site.server.add("1.pbs1")
    values = site.values()
    values.look(site.now)
    site.server.add("1.pbs1", Resource_List__soft_walltime="01:00:00")
    for later in (60, 120, 180):
        values.look(site.now + later)
        assert site.server.soft("1.pbs1") == "01:00:00"
    # Others' later changes stay too.
    site.server.add("1.pbs1", Resource_List__soft_walltime="02:00:00")
    values.look(site.now + 200)
    assert site.server.soft("1.pbs1") == "02:00:00"
    # With another walltime or in another state the value is ours again.
    site.server.add("1.pbs1", Resource_List__walltime="20:00:00")
    values.look(site.now + 240)
    assert site.server.soft("1.pbs1") == "1000"


def test_the_guard_gives_waiting_jobs_their_walltimes_and_takes_them_back(site: Site) -> None:
    site.server.add("1.pbs1", estimated__start_time=str(NOW + 100), Resource_List__ncpus="64")
    site.server.add("2.pbs1")
    site.server.add("3.pbs1", Resource_List__walltime="00:20:00", Resource_List__soft_walltime="00:16:40")
    values = site.values(guard=600)
    values.look(NOW)
    assert [site.server.soft(job) for job in ("1.pbs1", "2.pbs1")] == ["1000", "1000"]
    values.look(NOW + 701)
    assert [site.server.soft(job) for job in ("1.pbs1", "2.pbs1")] == ["36000", "36000"]
    # However small the change is.
    assert site.server.soft("3.pbs1") == "1200"
    assert site.records[-1].reason is Reason.GUARD
    submitted = Request("predict", "queuejob", NOW + 702, site.records[-1].submission)
    assert site.predictions.decide(submitted)[1].reason is Reason.GUARD
    site.server.add("1.pbs1", job_state="R", stime=str(NOW + 720))
    values.look(NOW + 760)
    assert site.server.soft("2.pbs1") == "1000"
    assert site.predictions.decide(submitted)[1].reason is Reason.PREDICTED


def test_a_requeued_job_gets_its_waiting_value_back(site: Site) -> None:
    site.server.add("1.pbs1", Resource_List__soft_walltime="10:00:00")
    site.values().look(site.now)
    assert site.server.soft("1.pbs1") == "1000"


def test_the_thread_goes_on_after_pbs_was_away_and_stops_when_it_is_told_to(site: Site) -> None:
    site.server.add("1.pbs1", refuse=15007)  # type: ignore[arg-type]
    thread = LiveThread(
        LiveOptions(mode="on", every=5), lambda: site.predictions, site.records.append, remembering(),
        site.server.connect, lambda: float(site.now),
    )  # fmt: skip
    thread.start()
    until(lambda: thread.problem)
    site.server.remove("1.pbs1")
    site.server.add("1.pbs1")
    thread.change(LiveOptions(mode="on", every=6))
    until(lambda: site.server.soft("1.pbs1") == "1000")
    until(lambda: not thread.problem)
    thread.change(LiveOptions(mode="off"))
    site.learn(9000)
    assert thread.stop(60)
    assert site.server.soft("1.pbs1") == "1000"
