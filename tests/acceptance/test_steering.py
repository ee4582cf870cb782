"""Steering and promises on a real server with the real daemon, which is killed in between."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from softwalltime.policy.steering import GAIN
from softwalltime.store.connections import connect
from tests.acceptance.lab import WHOLE, Lab, until
from tests.service.running import Daemon

LIVE = '[live]\nmode = "on"\nevery = 5\nchange_seconds = 1\nchange_share = 0.01\n'
POLICY = f'mode = "on"\nwaiting = "factor:0.5"\nrunning = "keep"\nsteer = 0.2\n{LIVE}'
WIDE = ("-q", "short", "-l", "walltime=600", "-l", WHOLE)


@pytest.fixture
def daemon(lab: Lab, strict: None, tmp_path: Path, database: str) -> Iterator[Daemon]:
    lab.uninstall()
    daemon = Daemon(tmp_path, database, POLICY)
    # Where PBS is, whose log it reads; the process that talks to PBS is its own.
    daemon.prefix = tuple(lab.runner)
    accounting = lab.home / "server_priv" / "accounting"
    daemon.config.write_text(daemon.config.read_text().replace(str(daemon.accounting), str(accounting)))
    daemon.start()
    yield daemon
    daemon.end(signal.SIGKILL)


def test_theta_rises_after_a_late_start_falls_after_a_kept_one_and_survives_sigkill(lab: Lab, daemon: Daemon) -> None:
    def live() -> dict[str, Any]:
        found: dict[str, Any] = daemon.status()["live"]
        assert not found["problem"]
        return found

    def promised() -> None:
        until(lambda: live()["promises"]["open"] == 1, 60, "the daemon sees the promise")

    def killed(wanted: Callable[[], object]) -> None:
        until(wanted, 60, "it is stored")
        os.kill(daemon.status()["pid"], signal.SIGKILL)
        assert daemon.process is not None
        daemon.process.wait(60)
        daemon.start()

    def stored(column: str) -> list[Any]:
        engine = connect(daemon.dsn)
        try:
            with engine.connect() as connection:
                query = f"SELECT {column} FROM softwalltime.promises ORDER BY promised_at"
                return list(connection.execute(text(query)).scalars())
        finally:
            engine.dispose()

    # It outlives its soft walltime, and the top job starts more than a minute after what was promised.
    long = lab.qsub(*WIDE, command=("/bin/sleep", "140"))
    lab.wait(long, "R")
    assert lab.qalter(long, "-l", "soft_walltime=60", user="root").ok
    late = lab.qsub(*WIDE, command=("/bin/sleep", "40"))
    promised()
    killed(lambda: stored("outcome") == ["open"])
    lab.wait(late, "R", 180)
    until(lambda: live()["promises"]["late"] == 1, 60, "the late start is seen")
    assert live()["theta"] == pytest.approx(0.8 * GAIN)
    # It ends long before its walltime, so the next top job starts earlier than promised.
    assert lab.qalter(late, "-l", "soft_walltime=600", user="root").ok
    kept = lab.qsub(*WIDE, command=("/bin/sleep", "5"))
    until(lambda: lab.soft(kept) == 313, 60, "half the walltime, times e^0.04")
    promised()
    killed(lambda: stored("outcome") == ["late", "open"])
    lab.wait(kept, "RF", 120)
    until(lambda: stored("outcome") == ["late", "kept"], 60, "the kept promise is stored")
    killed(lambda: True)
    until(lambda: live()["theta"] == pytest.approx(0.6 * GAIN), 60, "theta is restored")
    assert stored("start_time - first_start")[0] > 60
    explained = daemon.explain(walltime=3600)
    assert explained["soft_walltime"] == 1855
    assert explained["basis"].endswith(", times 1.03 by steering")
