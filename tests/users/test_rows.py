"""Which jobs a user sees: what the log and the forecasts know of each kind of job."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Connection, Engine

from softwalltime.service.users.own_jobs import OwnJobs
from softwalltime.service.users.own_jobs_server import AnswerRows, long_requests
from softwalltime.store.current import set_current
from softwalltime.store.forecast_rows import StoredProbe, publish_probes
from softwalltime.store.own_jobs_rows import LiveRows, OwnRows, read_ended, read_live, read_requests
from tests.samples import job
from tests.store.stored import add_jobs
from tests.users.site import HOUR, forecast, publish, runs, waits
from tests.users.site import now as clock

pytestmark = pytest.mark.postgres
UIDS = {"ann": 1, "ben": 2, "ann2": 1}


@pytest.fixture
def now() -> int:
    return clock()


def of(connection: Connection, uid: int = 1, most: int = 5000, **ended: Any) -> OwnJobs:
    """The answer to a user, with the jobs that ended since a time."""
    rows = AnswerRows(UIDS.get, read_live(connection, most), **ended)
    return OwnJobs.from_json(b"".join(rows.answers().of(uid)))


def test_the_log_knows_sooner_than_the_next_forecast_what_has_started_and_ended(
    connection: Connection, now: int
) -> None:
    names = ("waits", "starts", "gone", "new")
    publish(connection, now - 200, [forecast(f"{name}.srv", now, HOUR, "ann") for name in names[:3]], ["starts.srv"])
    set_current(
        connection, [waits("waits.srv", now, "ann"), runs("starts.srv", now, "ann"), waits("new.srv", now, "ann")]
    )
    found = of(connection)
    assert [(each.job, each.expected) for each in found.waiting] == [("waits.srv", now + HOUR), ("new.srv", None)]
    (running,) = found.running
    assert (running.expected_end, running.range90) == (now + 3000, (now + 1200, now + 4800))
    assert of(connection, 2).waiting_jobs == 0


def test_without_an_accounting_log_forecasts_are_enough(connection: Connection, now: int) -> None:
    publish(connection, now, [forecast("1.srv", now, HOUR, "ann")])
    assert [each.job for each in of(connection).waiting] == ["1.srv"]


def test_of_an_array_the_subjobs_that_still_wait_are_shown(connection: Connection, now: int) -> None:
    publish(connection, now - 200, [forecast(f"8[{index}].srv", now, HOUR * index, "ann") for index in (1, 2, 3, 4)])
    set_current(connection, [
        waits("8[].srv", now, "ann", job_name="many"), runs("8[1].srv", now, "ann"),
        # All its subjobs run; and one that was not forecast.
        waits("9[].srv", now, "ann"), runs("9[1].srv", now, "ann"), waits("10[].srv", now, "ann"),
    ])  # fmt: skip
    ended = job("ann", job_id="8[2].srv", server="srv", submitted=now - 700, end=now - 100)
    add_jobs(connection, [ended])
    found = of(connection)
    assert [(each.job, each.name) for each in found.waiting] == [
        ("8[3].srv", "many"), ("8[4].srv", "many"), ("10[].srv", "name"),
    ]  # fmt: skip
    assert [each.job for each in found.running] == ["8[1].srv", "9[1].srv"]


@pytest.mark.parametrize(
    ("known", "seen"),
    [
        ("behind 2 jobs; 8 processors come free at 14:10 when 7.srv.site ends, by then with probability 90%",
         "behind 2 jobs; 8 processors come free at 14:10 when another job ends, by then with probability 90%"),
        ("first in the queue; 8 processors come free at 14:10 when 7[3].srv and 2 others end",
         "first in the queue; 8 processors come free at 14:10 when another job and 2 others end"),
        ("its start depends on 7.srv, of unknown runtime: no past job without one is known",
         "its start depends on another job, of unknown runtime: no past job without one is known"),
        ("it waits for other jobs (afterok:7.srv) and cannot start before they end",) * 2,
    ],
)  # fmt: skip
def test_the_ids_of_others_jobs_are_not_shown(connection: Connection, now: int, known: str, seen: str) -> None:
    publish(connection, now, [forecast("1.srv", now, HOUR, "ann", waits_for=known)])
    assert of(connection).waiting[0].waits_for == seen


def test_a_job_is_its_owners_by_the_log_whatever_the_forecast_says(connection: Connection, now: int) -> None:
    # Until an execution queue has accepted it, PBS names who submitted a job and not as whom it runs.
    publish(connection, now, [forecast("1.srv", now, HOUR, "ben")])
    set_current(connection, [waits("1.srv", now, "ann")])
    assert (of(connection).waiting_jobs, of(connection, 2).waiting_jobs) == (1, 0)


def test_jobs_of_another_server_are_another_persons_where_the_site_says_so(engine: Engine, now: int) -> None:
    # Two clusters may share a store, and a name be two persons.
    there = [waits("1.srv", now, "ann"), runs("2.srv", now, "ann")]
    with engine.begin() as connection:
        set_current(connection, [*there, *(replace(each, server="other") for each in there)])
        publish(connection, now, [forecast("1.srv", now, HOUR, "ann")], ["1.srv"])
        add_jobs(connection, [
            job("ann", job_id=f"{n + 100}.{name}", submitted=now - 900, end=now, server=name)
            for name in ("srv", "other", "other2") for n in range(9)
        ])  # fmt: skip
        for server, jobs, requests in (("", 2, 27), ("srv", 1, 9), ("other", 1, 9), ("none", 0, 0)):
            live = read_live(connection, 10, server)
            counts = [sum(rows.jobs for rows in kind) for kind in (live.waiting, live.running)]
            assert counts == [jobs, jobs], server
            assert len(live.forecasts) == (server in ("", "srv"))
            assert sum(rows.jobs for rows in read_ended(connection, 0, 10, server)) == requests
            assert sum(len(past.runtimes) for past in read_requests(connection, 0, 1, server)) == requests


def test_expected_starts_of_jobs_not_submitted_yet_are_the_same_for_everybody(connection: Connection, now: int) -> None:
    stored = [
        StoredProbe("long", ncpus, HOUR, ("", "long", "caf\udce9\0"), now, now + HOUR, now, now + 2 * HOUR)
        for ncpus in (4, 1)
    ]
    publish_probes(connection, "srv", [*stored, replace(stored[0], ncpus=2)])
    publish_probes(connection, "srv", [replace(stored[0], low90=None, high90=None), stored[1]])
    publish_probes(connection, "other", stored)
    first, *others = of(connection).probes
    assert (first.server, first.queue, first.ncpus, first.walltime, first.submit_to[:2]) == (
        "other", "long", 1, HOUR, ("", "long"),
    )  # fmt: skip
    assert (first.expected, first.range90, first.forecast_at) == (now + HOUR, (now, now + 2 * HOUR), now)
    assert [(probe.server, probe.ncpus) for probe in others] == [("other", 4), ("srv", 1), ("srv", 4)]
    assert others[-1].range90 is None
    # A user without jobs gets the same.
    assert of(connection, 99).probes == (first, *others)
    rows = AnswerRows(UIDS.get, read_live(connection, 10, "srv"))
    assert {probe.server for probe in OwnJobs.from_json(b"".join(rows.answers().of(1))).probes} == {"srv"}
    publish_probes(connection, "other", [])
    assert len(of(connection).probes) == 2


def test_more_jobs_than_an_answer_holds_are_counted(connection: Connection, now: int) -> None:
    set_current(connection, [waits(f"{number}.srv", now, "ann") for number in range(30)])
    publish(connection, now, [forecast("7.srv", now, HOUR, "ann")])
    found = of(connection, most=10)
    assert (found.waiting_jobs, len(found.waiting), found.waiting[0].job) == (30, 10, "7.srv")


def test_ended_jobs_have_what_was_requested_and_used(engine: Engine, now: int) -> None:
    old = job("ann", job_id="1.srv", submitted=now - 40 * 86400, end=now - 30 * 86400)
    jobs = [
        job("ann", job_id=f"{number}.srv", submitted=now - 9000 + number, end=now - 100 + number, runtime=600,
            walltime=7200, ncpus=8, mem=2**30, mem_used=2**20, cput=4000, exit_status=0, etime=now - 5000)
        for number in range(2, 30)
    ]  # fmt: skip
    whole = job("ann", job_id="8[].srv", submitted=now - 900, end=now - 10, runtime=0)
    with engine.begin() as connection:
        add_jobs(connection, [old, *jobs, whole, job("ben", job_id="99.srv", submitted=now - 900, end=now)])
        ended = tuple(read_ended(connection, now - 28 * 86400, 20))
        found = of(connection, ended=ended)
    assert (found.ended_jobs, len(found.ended)) == (28, 20)
    last = found.ended[0]
    assert (last.job, last.state, last.walltime, last.runtime) == ("29.srv", "finished", 7200, 600)
    assert (last.ncpus, last.mem, last.mem_used, last.cput) == (8, 2**30, 2**20, 4000)
    assert last.wait == (last.started or 0) - (now - 5000)


def test_a_request_that_is_too_long_gets_a_shorter_one_and_how_many_ran_longer(engine: Engine, now: int) -> None:
    runtimes = [600] * 199 + [9 * HOUR]
    jobs = [
        job("ann", job_id=f"{number}.srv", submitted=now - 90_000 + number, end=now - 1000, runtime=runtime,
            walltime=24 * HOUR)
        for number, runtime in enumerate(runtimes)
    ]  # fmt: skip
    with engine.begin() as connection:
        add_jobs(connection, jobs)
        requests = long_requests(read_requests(connection, now - 86400, 20))
        ended = tuple(read_ended(connection, now - 86400, 20))
        (found,) = of(connection, ended=ended, requests=requests).requests
        assert not list(read_requests(connection, now, 20))
    assert (found.walltime, found.suggested, found.jobs, found.longer) == (24 * HOUR, 900, 200, 1)


def test_of_two_names_of_one_account_nobody_else_sees_the_jobs() -> None:
    live = LiveRows((), (OwnRows("ann", 0, "[]"), OwnRows("ann2", 0, "[]"), OwnRows("gone", 0, "[]")), ())
    rows = AnswerRows(UIDS.get, live)
    assert list(rows.answers().tails) == [1]
    assert rows.unknown == {"gone"}
