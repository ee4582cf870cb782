"""Latest starts: who gets one, and that changing a job gives its owner no better one."""

from dataclasses import replace

import pytest

from softwalltime.core.jobs import Submission
from softwalltime.core.promises import LatestStart
from softwalltime.service.live.promise_ledger import HELD, LatestStarts, terms_of

JOB = Submission("1.pbs1", "alice", 0, 3600, ncpus=4, queue="short", job_name="a")
YEAR = 366 * 86400


def looked(starts: LatestStarts, now: int, planned: int, **terms: str) -> set[str]:
    """Look once, and plan what needs it for one time; return what that was."""
    wanted = starts.look(terms)
    starts.set(dict.fromkeys(wanted, planned), now, 100, 0.25)
    return wanted


def test_a_job_gets_its_planned_start_and_the_larger_slack_once() -> None:
    starts = LatestStarts()
    assert looked(starts, 1000, 1400, a="x") == {"a"}
    assert looked(starts, 1060, 2060, a="x", b="y") == {"b"}
    assert starts.near(1499) == []
    assert starts.near(1500) == ["a"]
    assert starts.near(2310) == ["a", "b"]
    assert starts.arrivals(5000) == {"a": 1000, "b": 1060}
    assert set(starts.take_changes()) == {"a", "b"}
    # One started, the other one waits without a change.
    assert looked(starts, 1120, 0, b="y") == set()
    assert starts.take_changes() == {"a": None}


@pytest.mark.parametrize("seen", [["y"], [HELD, "x"], ["y", "x"]], ids=["altered", "held", "altered back"])
@pytest.mark.parametrize(("planned", "latest"), [(2000, 6000), (6000, 7000)])
def test_a_changed_job_is_planned_behind_all_others_and_gets_no_earlier_start(
    seen: list[str], planned: int, latest: int
) -> None:
    starts = LatestStarts()
    looked(starts, 1000, 5000, a="x")
    assert starts.near(6000) == ["a"]
    wanted = [starts.look({"a": terms}) for terms in seen]
    assert wanted[-1] == {"a"}
    # Until it is planned it has none.
    assert starts.near(10**6) == []
    assert starts.arrivals(2000) == {"a": 2000}
    starts.set({"a": planned}, 2000, 100, 0.25)
    assert starts.near(latest) == ["a"]
    assert starts.near(latest - 1) == []


def test_a_held_job_gets_none() -> None:
    starts = LatestStarts()
    assert looked(starts, 1000, 1000, a=HELD) == set()
    assert starts.take_changes() == {}


def test_a_start_that_nobody_foresees_is_none() -> None:
    starts = LatestStarts()
    assert looked(starts, 1000, 1001 + YEAR, a="x") == {"a"}
    assert looked(starts, 1060, 1000 + YEAR, a="x") == {"a"}
    assert len(starts.near(10**9)) == 1


@pytest.mark.parametrize(("terms", "near"), [("x", 1100), ("y", 2100)])
def test_what_the_process_before_knew_counts_for_a_job_that_is_the_same(terms: str, near: int) -> None:
    starts = LatestStarts()
    # The store was away at the first look.
    looked(starts, 2000, 2000, a=terms)
    starts.take_changes()
    starts.restore([LatestStart("a", 1000, 1100, "x"), LatestStart("gone", 1000, 1100, "x")])
    assert starts.look({"a": terms}) == set()
    assert starts.near(near) == ["a"]
    assert starts.near(near - 1) == []
    changes = starts.take_changes()
    assert changes["gone"] is None
    assert ("a" in changes) == (terms == "x")


def test_terms_are_what_a_start_depends_on() -> None:
    assert terms_of(replace(JOB, job_name="b", account="c")) == terms_of(JOB) != HELD
    for change in ({"walltime": 7200}, {"ncpus": 8}, {"queue": "long"}, {"select": "8:ncpus=1"}, {"place": "excl"}):
        assert terms_of(replace(JOB, **change)) != terms_of(JOB)
