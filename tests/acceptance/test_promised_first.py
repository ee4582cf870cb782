"""A promised job keeps its place on a real server: the scheduler orders by what live values set."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from softwalltime.core.promises import Outcome
from softwalltime.predict.policy.power_order import EXPANSION_FACTOR
from softwalltime.predict.policy.site import SitePolicy
from softwalltime.service.live.alters import longest_cycle
from softwalltime.service.live.live_options import LiveOptions
from softwalltime.service.live_values import LiveValues
from softwalltime.service.prediction_service import PredictionService
from softwalltime.service.promise_watch import PromiseWatch
from softwalltime.service.status import LiveStatus
from tests.acceptance.lab import WHOLE, Lab, until
from tests.acceptance.test_live import connected
from tests.live.remembered import remembering

LONG, SHORT = (("-q", "short", "-l", f"walltime={seconds}", "-l", WHOLE) for seconds in (3600, 60))


@pytest.fixture
def ordered(lab: Lab, strict: None) -> Iterator[None]:
    """The order by expansion factor, as the preset order sets it."""
    lab.uninstall()
    if "Resource predicted" not in lab.qmgr("list resource"):
        lab.qmgr("create resource predicted type=long,flag=r")
    lab.qmgr("set server eligible_time_enable = True")
    lab.qmgr(f"set server job_sort_formula = '{EXPANSION_FACTOR.formula('predicted')}'")
    yield
    lab.qmgr("set server scheduling = True")
    lab.qmgr("unset server job_sort_formula")
    lab.qmgr("set server eligible_time_enable = False")


@pytest.fixture
def live(lab: Lab, ordered: None) -> Iterator[LiveValues]:
    """Live values that order jobs by their walltimes."""
    connection = connected(lab)
    predictions = PredictionService(SitePolicy(mode="on", waiting="walltime", ordering="walltime"))
    predictions.ready = True
    yield LiveValues(
        LiveOptions(mode="on", guard=3600), connection, lambda: predictions, lambda _: None, LiveStatus(),
        PromiseWatch(remembering()),
    )  # fmt: skip
    connection.close()


def ordering(lab: Lab, job: str) -> int:
    """The job's ordering value; 0 for none."""
    return int(lab.job(job)["Resource_List"].get("predicted", 0))


def keeps_place(lab: Lab, live: LiveValues, job: str) -> None:
    """Wait until PBS has planned the job anew: it keeps its place."""
    before = lab.job(job).get("estimated", {}).get("start_time")
    lab.qmgr("set server scheduling = True")
    until(lambda: lab.job(job).get("estimated", {}).get("start_time") not in (None, before), 30, "a new estimate")
    live.look(int(time.time()))
    assert ordering(lab, job) == 1


@pytest.mark.parametrize("keeps", [True, False])
def test_a_shorter_job_starts_before_the_top_job_unless_that_keeps_its_place(
    lab: Lab, live: LiveValues, keeps: bool
) -> None:
    running = lab.qsub(*LONG, command=("/bin/sleep", "20"))
    lab.wait(running, "R")
    lab.qmgr("set server scheduling = False")
    top = lab.qsub(*LONG, command=("/bin/sleep", "5"))
    live.look(int(time.time()))
    if keeps:
        keeps_place(lab, live, top)
    lab.qmgr("set server scheduling = True")
    shorter = lab.qsub(*SHORT, user="bob", command=("/bin/sleep", "5"))
    lab.wait(running, "F", 60)
    first, second = (top, shorter) if keeps else (shorter, top)
    lab.wait(first, "R", 60)
    assert lab.job(second)["job_state"] == "Q"


def test_an_array_with_a_promise_brings_no_subjobs_to_the_front(lab: Lab, live: LiveValues) -> None:
    """With a kept place all subjobs would come first: jobs of an hour would start before others' jobs of a minute."""
    running = lab.qsub(*LONG, command=("/bin/sleep", "60"))
    lab.wait(running, "R")
    lab.qmgr("set server scheduling = False")
    array = lab.qsub("-J", "1-64", "-q", "short", "-l", "walltime=3600", "-l", "select=1:ncpus=1")
    live.look(int(time.time()))
    lab.qmgr("set server scheduling = True")
    until(lambda: lab.job(array).get("estimated", {}).get("start_time"), 30, "an estimate")
    live.look(int(time.time()))
    assert live.promises.counts[Outcome.OPEN] == 1
    assert ordering(lab, array) != 1


@pytest.mark.parametrize(
    "alter",
    [("walltime=5400",), (f"select={WHOLE.removeprefix('select=')}:mem=1mb",)],
    ids=["walltime", "select"],
)
def test_a_user_who_alters_a_promised_job_or_holds_it_loses_its_place(
    lab: Lab, live: LiveValues, alter: tuple[str, ...], tmp_path: Path
) -> None:
    def never_kept() -> None:
        for _ in range(3):
            live.look(int(time.time()))
            assert ordering(lab, top) != 1
            time.sleep(1)

    running = lab.qsub(*LONG, command=("/bin/sleep", "60"))
    lab.wait(running, "R")
    lab.qmgr("set server scheduling = False")
    top = lab.qsub(*LONG)
    never_kept()
    keeps_place(lab, live, top)
    assert not lab.qalter(top, "-l", "predicted=1").ok, "the resource is no user's"
    lab.must("qhold", top, user="alice")
    never_kept()
    lab.must("qrls", top, user="alice")
    # PBS still shows the estimate from before the hold.
    never_kept()
    lab.must("qalter", "-l", "walltime=5000", running)
    keeps_place(lab, live, top)
    # Without an answer of the hook's daemon the job counts with its walltime.
    lab.install({"socket": str(tmp_path / "none.sock")}, tmp_path)
    assert lab.qalter(top, "-l", *alter).ok
    assert ordering(lab, top) > 1
    # PBS still shows the estimate of the job as it was.
    never_kept()
    lab.must("qalter", "-l", "walltime=7000", running)
    keeps_place(lab, live, top)


def test_a_cycle_under_way_is_seen(lab: Lab) -> None:
    """Its estimates count for no job that is altered meanwhile."""
    connection = connected(lab)
    scheduler = (lab.home / "sched_priv" / "sched.lock").read_text().strip()
    assert longest_cycle(connection.objects("schedulers")) == 0
    lab.must("kill", "-STOP", scheduler)
    try:
        lab.qsub(*SHORT)
        assert longest_cycle(connection.objects("schedulers")) == 1200
    finally:
        lab.must("kill", "-CONT", scheduler)
        connection.close()
