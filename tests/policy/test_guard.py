"""The guard is on while a top job is later than the start first promised to it."""

from softwalltime.policy.guard import Guard


def test_it_is_on_once_the_first_promise_is_missed_by_more_than_its_seconds() -> None:
    guard = Guard(600)
    guard.look({"1": 1000, "2": None}, now=0)
    guard.look({"1": 1000}, now=1600)
    assert not guard.on
    guard.look({"1": 1000}, now=1601)
    assert guard.on
    assert guard.late == "1"


def test_a_later_promise_does_not_replace_the_first_one() -> None:
    guard = Guard(0)
    guard.look({"1": 1000}, now=0)
    guard.look({"1": 9000}, now=900)
    assert guard.first_promise("1") == 1000
    guard.look({"1": 9000}, now=1001)
    assert guard.late == "1"


def test_a_job_that_lost_its_place_at_the_head_keeps_its_promise() -> None:
    guard = Guard(0)
    guard.look({"1": 1000}, now=0)
    guard.look({"1": None}, now=1001)
    assert guard.late == "1"


def test_it_is_off_when_the_late_job_has_started_or_gone() -> None:
    guard = Guard(0)
    guard.look({"1": 1000, "2": 5000}, now=0)
    guard.look({"1": 1000, "2": 5000}, now=2000)
    assert guard.on
    guard.look({"2": 5000}, now=2001)
    assert not guard.on
    assert guard.first_promise("1") is None


def test_the_job_that_is_late_for_longest_is_named() -> None:
    guard = Guard(0)
    guard.look({"1": 2000, "2": 1000}, now=0)
    guard.look({"1": 2000, "2": 1000}, now=3000)
    assert guard.late == "2"


def test_a_promise_that_is_past_when_it_is_first_seen_counts_for_nothing() -> None:
    """PBS leaves the estimate of a former top job that ran and was requeued."""
    guard = Guard(0)
    guard.look({"1": 1000}, now=5000)
    assert not guard.on
    guard.look({"1": 6000}, now=5100)
    assert guard.first_promise("1") == 6000
