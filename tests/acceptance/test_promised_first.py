"""A promised job keeps its place on a real server: the scheduler orders by what live values set."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from softwalltime.live.options import LiveOptions
from softwalltime.policy.power_order import EXPANSION_FACTOR
from softwalltime.policy.site import SitePolicy
from softwalltime.service.live_values import LiveCounts, LiveValues
from softwalltime.service.prediction_service import PredictionService
from softwalltime.service.promise_watch import PromiseWatch
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
        LiveOptions(mode="on", guard=3600), connection, lambda: predictions, lambda _: None, LiveCounts(),
        PromiseWatch(remembering()),
    )  # fmt: skip
    connection.close()


def ordering(lab: Lab, job: str) -> int:
    """The job's ordering value; 0 for none."""
    return int(lab.job(job)["Resource_List"].get("predicted", 0))


def look(live: LiveValues, minutes: int) -> None:
    """Look as if these minutes had passed."""
    live.look(int(time.time()) + 60 * minutes)
    # By this time all changes are long ago, so what PBS changes now must be of another second.
    time.sleep(1.1)


def keeps_place(lab: Lab, live: LiveValues, job: str, minutes: int) -> None:
    """Wait until PBS has planned the job, and look as if these minutes had passed: it keeps its place."""
    before = lab.job(job).get("estimated", {}).get("start_time")
    lab.qmgr("set server scheduling = True")
    until(lambda: lab.job(job).get("estimated", {}).get("start_time") not in (None, before), 30, "a new estimate")
    look(live, minutes)
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
        keeps_place(lab, live, top, 11)
    lab.qmgr("set server scheduling = True")
    shorter = lab.qsub(*SHORT, user="bob", command=("/bin/sleep", "5"))
    lab.wait(running, "F", 60)
    first, second = (top, shorter) if keeps else (shorter, top)
    lab.wait(first, "R", 60)
    assert lab.job(second)["job_state"] == "Q"


@pytest.mark.parametrize(
    "alter",
    [("walltime=5400",), (f"select={WHOLE.removeprefix('select=')}:mem=1mb",)],
    ids=["walltime", "select"],
)
def test_a_user_who_alters_a_promised_job_or_holds_it_loses_its_place(
    lab: Lab, live: LiveValues, alter: tuple[str, ...], tmp_path: Path
) -> None:
    def not_kept(minutes: int) -> None:
        look(live, minutes)
        assert ordering(lab, top) != 1

    running = lab.qsub(*LONG, command=("/bin/sleep", "60"))
    lab.wait(running, "R")
    lab.qmgr("set server scheduling = False")
    top = lab.qsub(*LONG)
    not_kept(0)
    keeps_place(lab, live, top, 11)
    assert not lab.qalter(top, "-l", "predicted=1").ok, "the resource is no user's"
    lab.must("qhold", top, user="alice")
    not_kept(12)
    lab.must("qrls", top, user="alice")
    # PBS still shows the estimate from before the hold.
    not_kept(13)
    not_kept(24)
    lab.must("qalter", "-l", "walltime=5000", running)
    keeps_place(lab, live, top, 25)
    # Without an answer of the hook's daemon the job counts with its walltime.
    lab.install({"socket": str(tmp_path / "none.sock")}, tmp_path)
    assert lab.qalter(top, "-l", *alter).ok
    assert ordering(lab, top) > 1
    # PBS still shows the estimate of the job as it was, and a cycle that began before may change it.
    not_kept(26)
    lab.must("qalter", "-l", "walltime=6000", running)
    time.sleep(5)
    not_kept(35)
    not_kept(37)
    lab.must("qalter", "-l", "walltime=7000", running)
    keeps_place(lab, live, top, 38)
