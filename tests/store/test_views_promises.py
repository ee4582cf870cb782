"""Views of promised starts, of the guard, of waits by size and of ordering values."""

import pytest
from sqlalchemy import Engine, text

from softwalltime.core.promises import Outcome, Promise
from softwalltime.store.daily import recent_waits
from softwalltime.store.promises import store_promises
from softwalltime.store.quality import WaitOfSize
from tests.store.monitored import DAY, HOUR, NOW, decision, ended, found, fresh, store

pytestmark = pytest.mark.postgres


def promise(number: int, late: int | None, ncpus: int | None = 80, day: int = 0) -> Promise:
    """A promise of a start at NOW, some days ago; ``late``: seconds, ``None``: withdrawn."""
    first = NOW - day * DAY
    outcome = Outcome.WITHDRAWN if late is None else Outcome.LATE if late > 60 else Outcome.KEPT
    started = None if late is None else first + late
    return Promise(f"{number}.srv", first - 900, first, first, outcome, started, "q", ncpus)


def test_promises_are_counted_by_the_day_of_the_start_and_by_size(engine: Engine) -> None:
    with engine.begin() as connection:
        store_promises(
            connection, "",
            [promise(1, 100), promise(2, -500), promise(3, 60), promise(4, None), promise(5, 30, None),
             promise(6, 7200, 2, day=1), Promise("7.srv", NOW, NOW + 9, NOW + 9)],
        )  # fmt: skip
    columns = "processors, promises, kept, broken, broken_share, mean_late, longest_late"
    rows = found(engine, f"SELECT {columns} FROM softwalltime.promises_by_day ORDER BY day, processors")
    assert [tuple(row.values()) for row in rows] == [
        ("2 to 8", 1, 0, 1, 1.0, 7200.0, 7200),
        ("65 or more", 3, 2, 1, pytest.approx(1 / 3), pytest.approx(160 / 3), 100),
        ("not known", 1, 1, 0, 0.0, 30.0, 30),
    ]


def test_ordering_values_are_compared_with_runtimes(engine: Engine) -> None:
    jobs = [ended(f"{number}.srv", runtime=runtime) for number, runtime in ((1, 900), (2, 450), (3, 900))]
    decisions = [decision("1.srv", ordering=1800), decision("2.srv", ordering=225), decision("3.srv")]
    store(engine, jobs, decisions)
    fresh(engine)
    (row,) = found(engine, "ordering_by_day")
    assert (row["mode"], row["jobs"], row["accuracy"], row["underestimated"]) == ("on", 2, 0.5, 0.5)
    assert (row["mean_ordering"], row["mean_runtime"], row["mean_walltime"]) == (1012.5, 675, HOUR)
    assert row["request_accuracy"] == pytest.approx((900 + 450) / 2 / HOUR)


def test_waits_of_the_widest_jobs_are_compared_with_the_weeks_before(engine: Engine) -> None:
    def waited(first: int, count: int, wait: int, days: int, ncpus: int) -> list[object]:
        start = NOW - days * DAY - HOUR
        return [
            ended(f"{number}.srv", start=start, ncpus=ncpus, etime=start - wait)
            for number in range(first, first + count)
        ]

    # Too few have 65 processors or more for a comparison.
    store(engine, [
        *waited(100, 20, 5000, 1, 16), *waited(200, 30, 1000, 20, 16), *waited(300, 25, 50, 1, 1),
        *waited(400, 25, 100, 20, 1), *waited(500, 19, 9000, 1, 80), *waited(600, 25, 90, 20, 80),
        *waited(700, 50, 7000, 70, 16),
    ])  # type: ignore[list-item]  # fmt: skip
    fresh(engine)
    with engine.connect() as connection:
        assert recent_waits(connection) == [
            WaitOfSize("1", False, 25, 50, 25, 100),
            WaitOfSize("9 to 64", True, 20, 5000, 30, 1000),
            WaitOfSize("65 or more", False, 19, 9000, 25, 90),
        ]
        rows = connection.execute(
            text("SELECT processors, jobs, mean_wait FROM softwalltime.waits_by_day WHERE day > current_date - 15")
        ).all()
    assert sorted(map(tuple, rows)) == [("1", 25, 50), ("65 or more", 19, 9000), ("9 to 64", 20, 5000)]
