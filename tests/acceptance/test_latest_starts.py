"""A job near its latest start on a real server with the real daemon, which is killed in between."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from softwalltime.predict.policy.power_order import EXPANSION_FACTOR
from softwalltime.store.connections import connect
from tests.acceptance.lab import WHOLE, Lab, until
from tests.acceptance.test_promised_first import ordering
from tests.service.running import Daemon

POLICY = """mode = "on"
waiting = "walltime"
running = "walltime"
ordering = "walltime"
[live]
mode = "on"
every = 5
guard = "off"
slack = 30
slack_share = 0
raise_lead = 10
"""
RUNS, LONG, SHORT = (("-q", "short", "-l", f"walltime={seconds}", "-l", WHOLE) for seconds in (20, 3600, 60))


@pytest.fixture
def daemon(lab: Lab, tmp_path: Path, database: str) -> Iterator[Daemon]:
    """A daemon beside a server that orders by expansion factor, without the hook."""
    lab.uninstall()
    lab.create_resource("predicted")
    lab.qmgr("set server eligible_time_enable = True")
    lab.qmgr(f"set server job_sort_formula = '{EXPANSION_FACTOR.formula('predicted')}'")
    daemon = Daemon(tmp_path, database, POLICY)
    daemon.prefix = tuple(lab.runner)
    accounting = lab.home / "server_priv" / "accounting"
    daemon.config.write_text(daemon.config.read_text().replace(str(daemon.accounting), str(accounting)))
    daemon.start()
    yield daemon
    daemon.end(signal.SIGKILL)
    lab.qmgr("set server scheduling = True")
    lab.qmgr("unset server job_sort_formula")
    lab.qmgr("set server eligible_time_enable = False")


def altered(lab: Lab, job: str) -> None:
    assert lab.qalter(job, "-l", "walltime=3700").ok


def held(lab: Lab, job: str) -> None:
    lab.must("qhold", job, user="alice")
    until(lambda: ordering(lab, job) != 1, 30, "the held job loses its place")
    lab.must("qrls", job, user="alice")


@pytest.mark.parametrize("change", [None, altered, held])
def test_a_job_near_its_latest_start_is_next_until_its_owner_changes_it(
    lab: Lab, daemon: Daemon, change: Callable[[Lab, str], None] | None
) -> None:
    def latest() -> dict[str, int]:
        engine = connect(daemon.dsn)
        try:
            with engine.connect() as connection:
                rows = connection.execute(text("SELECT job_id, latest_start FROM softwalltime.latest_starts"))
                return {row.job_id: row.latest_start for row in rows}
        finally:
            engine.dispose()

    running = lab.qsub(*RUNS, command=("/bin/sleep", "15"))
    lab.wait(running, "R")
    # Nothing starts, and nothing is promised meanwhile: a place comes from the latest start alone.
    lab.qmgr("set server scheduling = False")
    long = lab.qsub(*LONG, command=("/bin/sleep", "5"))
    until(lambda: long in latest(), 30, "the long job has a latest start")
    os.kill(daemon.status()["pid"], signal.SIGKILL)
    assert daemon.process is not None
    daemon.process.wait(60)
    first = latest()[long]
    short = lab.qsub(*SHORT, user="bob", command=("/bin/sleep", "5"))
    daemon.start()
    until(lambda: ordering(lab, long) == 1 and short in latest(), 60, "the long job has its place")
    # Without its memory the daemon would plan it from now on.
    assert latest()[long] == first < latest()[short]
    assert not daemon.status()["live"]["problem"]
    if change is not None:
        change(lab, long)
        # Behind the short one, which waited then.
        until(lambda: latest()[long] >= first + 60 and ordering(lab, long) != 1, 30, "it has another latest start")
    lab.qmgr("set server scheduling = True")
    started, waits = (long, short) if change is None else (short, long)
    lab.wait(started, "R", 60)
    assert lab.job(waits)["job_state"] == "Q"
