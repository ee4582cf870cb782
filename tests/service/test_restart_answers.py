"""A daemon that learnt jobs as they ended answers like one that was just restarted."""

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from sqlalchemy import Engine

from tests.samples import job
from tests.service.running import Daemon, until
from tests.store.stored import add_jobs

BEGIN = 1_700_000_000
POLICY = """mode = "on"
waiting = "v1"
rules = [
    {queue = "usage", waiting = "usage:last=3"},
    {queue = "percentile", waiting = "percentile:keys=user,least=2,window=9999w"},
]
"""


@pytest.fixture
def daemon(tmp_path: Path, database: str) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path, database, POLICY)
    yield daemon
    if daemon.process is not None and daemon.process.poll() is None:
        daemon.end(signal.SIGKILL)


def answers(daemon: Daemon) -> list[object]:
    return [
        daemon.predict(user=f"user{number}", queue=queue, walltime=10_000)
        for number in range(8)
        for queue in ("", "usage", "percentile")
    ]


@pytest.mark.postgres
def test_with_two_servers_whose_records_come_in_any_order(daemon: Daemon, engine: Engine) -> None:
    chance = Random(5)
    jobs = [
        replace(
            job(
                f"user{chance.randrange(8)}", job_id=f"{number}.srv{number % 2}", submitted=BEGIN,
                end=BEGIN + chance.randrange(60) * 1500, runtime=chance.randrange(60, 5000), walltime=5000,
            ),
            server=f"srv{number % 2}",
        )
        for number in range(1000)
    ]  # fmt: skip
    chance.shuffle(jobs)
    daemon.start()
    for first in range(0, len(jobs), 100):
        some = jobs[first : first + 100]
        # One server's log is followed, the other's is ingested by another process.
        daemon.append([each for each in some if each.server == "srv0"])
        with engine.begin() as connection:
            add_jobs(connection, [each for each in some if each.server == "srv1"])
        count = first + len(some)
        until(lambda count=count: daemon.status()["learnt"] == count)
    live = answers(daemon)
    daemon.end()
    daemon.start()
    assert answers(daemon) == live
    assert len({str(answer) for answer in live}) > 16, "the answers tell the users and the predictors apart"
