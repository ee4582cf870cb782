"""The scripts of real submissions reach the store, and predictions rest on them."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text

from tests.acceptance.conftest import DEFAULTS
from tests.acceptance.lab import Lab, until
from tests.service.running import Daemon

pytestmark = pytest.mark.postgres

POLICY = 'mode = "shadow"\nwaiting = "calibrated"\n'
FOLDER = "/tmp/softwalltime-scripts"
SECONDS = {"short": 2, "long": 8}


@pytest.fixture
def daemon(tmp_path: Path, database: str) -> Iterator[Daemon]:
    """The daemon with a log of its own, to which the test appends what PBS wrote about its jobs."""
    daemon = Daemon(tmp_path, database, POLICY)
    try:
        yield daemon.start()
    finally:
        daemon.end(signal.SIGTERM)


@pytest.fixture
def scripts(lab: Lab, daemon: Daemon, tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Submit one of alice's two scripts, both under the same name and walltime."""
    lab.install({**DEFAULTS, "socket": str(daemon.socket), "deadline_ms": 5000}, tmp_path)
    write = "; ".join(
        f"printf '#!/bin/sh\\nsleep {seconds}\\n' > {FOLDER}/{name}.sh" for name, seconds in SECONDS.items()
    )
    lab.must("sh", "-c", f"mkdir -p {FOLDER}; {write}", user="alice")

    def submit(name: str, *options: str) -> str:
        common = ("-N", "same", "-q", "short", "-l", "walltime=600", "-o", "/dev/null", "-e", "/dev/null")
        job = lab.must("sh", "-c", f'cd {FOLDER} && qsub "$@" ./{name}.sh', "qsub", *common, *options, user="alice")
        lab.jobs.append(job)
        return job

    yield submit
    lab.run("rm", "-r", FOLDER)


def told(lab: Lab, daemon: Daemon, jobs: tuple[str, ...]) -> None:
    """Append PBS's records about these jobs to the daemon's log."""
    folder = lab.home / "server_priv" / "accounting"
    written = [
        line for day in sorted(folder.iterdir())[-2:] for line in day.read_text(errors="replace").splitlines(True)
    ]
    with daemon.log.open("a") as log:
        log.writelines(line for line in written if line.split(";", 3)[2:3] and line.split(";", 3)[2] in jobs)


def two(engine: Engine, query: str) -> list[Any]:
    """Return the rows if there are two."""
    with engine.connect() as connection:
        rows = list(connection.execute(text(query)))
    return rows if len(rows) == 2 else []


def test_the_second_job_of_a_script_is_predicted_from_the_first(
    lab: Lab, daemon: Daemon, scripts: Callable[..., str], engine: Engine
) -> None:
    first = {"short": scripts("short")}
    first["long"] = scripts("long", "-W", f"depend=afterany:{first['short']}")
    for job in first.values():
        lab.wait(job, "F", timeout=120)
    told(lab, daemon, tuple(first.values()))
    until(lambda: daemon.status()["learnt"] == 2, 60, "both jobs are learnt")
    found = until(lambda: two(engine, "SELECT job_id, script FROM softwalltime.job_scripts"), 60, "scripts of both")
    scripts_by_job = dict(map(tuple, found))
    assert len({*(scripts_by_job[first[name]] for name in SECONDS), ""}) == 3
    second = {name: scripts(name) for name in SECONDS}
    for job in second.values():
        lab.wait(job, "F", timeout=120)
    query = "SELECT basis FROM softwalltime.predictions WHERE event = 'queuejob' ORDER BY id OFFSET 2"
    bases = until(lambda: two(engine, query), 60, "decisions about both")
    for (basis,), name in zip(bases, SECONDS, strict=True):
        assert f"2 past jobs of the user, 1 with the same script ({first[name]} " in basis
