"""Forecasts where fair share orders the jobs: the usage so far, and what running jobs add to it."""

from dataclasses import replace
from struct import pack

import pytest

from softwalltime.measure.forecast.pbs_state import SnapshotReader
from softwalltime.measure.forecast.queue_model import model_of
from softwalltime.measure.forecast.site_scheduler import site_scheduler
from softwalltime.measure.simulation.shares import FairShareSettings, ShareGroup, recorded_usage
from tests.forecast.states import NOW, running, server, waiting
from tests.forecast.test_limits import starts

USED = (("alice", 5000.0), ("bob", 100.0))
QUEUE = (
    running(1, 4, 600, elapsed=0, user="carol"), waiting(2, 4, 300), waiting(3, 4, 300, user="bob"), waiting(4, 4, 300),
    waiting(5, 4, 300, user="carol"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        # carol has used 2400 when her job ends; what the others use between two cycles in ten minutes does not count.
        (FairShareSettings(used=(("alice", 500.0), ("bob", 100.0))), {"3": 600, "2": 900, "4": 1200, "5": 1500}),
        (FairShareSettings(used=USED), {"3": 600, "5": 900, "2": 1200, "4": 1500}),
        (
            FairShareSettings(used=USED, groups=(ShareGroup("alice", "root", 99),)),
            {"2": 600, "4": 900, "3": 1200, "5": 1500},
        ),
        (FairShareSettings(used=USED, decay_time=10, decay_factor=0.1, decayed=NOW - 100), {"2": 600, "3": 900}),
    ],
)  # fmt: skip
def test_least_usage_for_its_share_comes_first(shares: FairShareSettings, expected: dict[str, int]) -> None:
    queue = model_of(server(4, *QUEUE, fair_share=True, shares=shares))
    assert queue.model.policy.order == "fairshare"
    assert queue.remarks == ()
    assert starts(queue).items() >= expected.items()


def test_terms_of_fair_share_in_a_formula_use_the_usage_so_far() -> None:
    formula = "fairshare_factor + 0 * eligible_time"
    queue = model_of(server(4, *QUEUE[:3], formula=formula, shares=FairShareSettings(used=USED)))
    assert (starts(queue), queue.remarks) == ({"3": 600, "2": 900}, ())


@pytest.mark.parametrize("shares", [None, FairShareSettings()])
def test_where_usage_is_unknown_it_is_the_order_of_arrival_and_that_is_said(shares: FairShareSettings | None) -> None:
    queue = model_of(server(4, *QUEUE, fair_share=True, shares=shares))
    assert queue.remarks == ("fair share is on: the order is approximated by the order of arrival",)
    assert starts(queue) == {"2": 600, "3": 900, "4": 1200, "5": 1500}


def test_with_several_reservations_and_many_jobs_the_order_stays() -> None:
    queue = model_of(server(4, *QUEUE, fair_share=True, backfill_depth=5, shares=FairShareSettings(used=USED)))
    quick = queue.model.quick(100_000).policy
    assert (quick.order, quick.backfill, quick.depth) == ("fairshare", "pbs", None)


FILE = b"PBS_MAG!".ljust(16, b"\0") + pack("d", 2.0) + pack("q", NOW)
"""The scheduler's file usage without records."""
RECORD = b"alice".ljust(56, b"\0") + pack("d", 12.5)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (FILE + RECORD, (NOW, (("alice", 12.5),))),
        (FILE, (NOW, ())),
        (FILE[:24] + pack("q", 0), (None, ())),
        (FILE + RECORD + RECORD[:60], (NOW, (("alice", 12.5),))),
        (FILE + b"x".ljust(56, b"\0") + pack("d", float("nan")), (NOW, ())),
        (FILE + "é".encode("latin-1").ljust(56, b"\0") + pack("d", 1.0), (NOW, (("\ufffd", 1.0),))),
        (FILE.replace(b"!", b"?"), None),
        (FILE[:20], None),
        (b"", None),
        (FILE[:16] + pack("d", 3.0) + FILE[24:], None),
    ],
)
def test_the_file_of_the_scheduler_is_read(data: bytes, expected: object) -> None:
    assert recorded_usage(data) == expected


def test_a_snapshot_has_the_usage_and_the_simulation_of_a_log_begins_without_it() -> None:
    config = "fair_share: true ALL\nunknown_shares: 10\nstrict_ordering: true ALL\n"
    settings = SnapshotReader([]).scheduler({}, config, usage=FILE + RECORD)
    assert settings.shares is not None
    assert (settings.shares.used, settings.shares.decayed) == ((("alice", 12.5),), NOW)
    shares = site_scheduler(replace(server(4), scheduler=settings)).policy.fair_share
    assert shares is not None
    assert (shares.used, shares.decayed, shares.unknown_shares) == ((), None, 10)
