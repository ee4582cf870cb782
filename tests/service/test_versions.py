"""Hook and daemon of different versions: sites upgrade one after the other.

The old ones are those of the last commit with version 1 of the protocol, from this repository's history.
"""

import io
import json
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

import pytest
from sqlalchemy import Engine

from softwalltime.accounting.writer import as_pbs, write_logs
from softwalltime.emulation.pbs.events import Site, altered, postqueued, started
from softwalltime.emulation.pbs.hook import HookScript, restart_interpreter
from tests.samples import ROOT, job
from tests.service.running import Daemon
from tests.store.stored import add_jobs

pytestmark = pytest.mark.postgres
OLD = "04b8876570d320491e6348ec017ec3bb58fbd8c2"
POLICY = 'mode = "on"\nwaiting = "v1"\n'
ORDERING = 'ordering = "v2"\n'
SITE = Site(resources={"predicted": "pbs_int"})
NOW = 1_700_001_000
HISTORY = [job(job_id=f"{n}.srv", runtime=600, end=1_700_000_000 + n) for n in range(3)]
WAITING = job(job_id="70.srv", submitted=NOW, walltime=3600, queue="short").submission


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the old version."""
    folder = tmp_path_factory.mktemp("old")
    archive = subprocess.run(
        ["git", "-C", ROOT, "archive", OLD, "daemon", "hooks", "migrations", "sql", "pyproject.toml"],
        capture_output=True,
        check=False,
    )
    if archive.returncode:
        pytest.skip(f"the history of this checkout has no commit {OLD}: {archive.stderr.decode().strip()[:80]}")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(folder, filter="data")
    return folder


def outcomes(hook: Path, daemon: Daemon) -> dict[str, tuple[int | None, int | None]]:
    """Soft walltime and ordering value that a job of an hour gets at each event."""
    configuration = daemon.config.with_name("hook.json")
    settings = {"deadline_ms": 5000, "breaker_budget_ms": 5_000_000, "events": {"postqueuejob": True}}
    configuration.write_text(json.dumps({"socket": str(daemon.socket), **settings}))
    found = {}
    # An older hook does not close the connection of a newer one; a restart of PBS's interpreter does.
    restart_interpreter()
    for event in (
        postqueued(WAITING, site=SITE),
        altered(WAITING, {"walltime": "02:00:00"}, site=SITE, now=NOW, soft_walltime=300),
        started(WAITING, site=SITE, now=NOW + 500, soft_walltime=600),
    ):
        outcome = HookScript(hook).run(event, configuration)
        assert outcome.accepted
        assert "no answer" not in str(outcome.log), outcome.log
        found[event.name] = outcome.soft_walltime, outcome.resources.get("predicted")
    return found


@pytest.fixture
def new_daemon(tmp_path: Path, database: str, engine: Engine) -> Iterator[Daemon]:
    with engine.begin() as connection:
        add_jobs(connection, HISTORY)
    daemon = Daemon(tmp_path, database, POLICY + ORDERING).start()
    yield daemon
    daemon.end(signal.SIGKILL)


def test_the_old_hook_goes_on_with_the_new_daemon(old: Path, new_daemon: Daemon) -> None:
    assert outcomes(ROOT / "hooks" / "softwalltime_hook.py", new_daemon) == {
        "postqueuejob": (600, 1500), "modifyjob": (600, 1500), "runjob": (3600, None),
    }  # fmt: skip
    assert outcomes(old / "hooks" / "softwalltime_hook.py", new_daemon) == {
        "postqueuejob": (600, None), "modifyjob": (600, None), "runjob": (3600, None),
    }  # fmt: skip


def test_the_new_hook_goes_on_with_the_old_daemon(old: Path, tmp_path: Path, empty_database: str) -> None:
    daemon = Daemon(tmp_path, empty_database, POLICY)
    daemon.environment = {"PYTHONPATH": str(old / "daemon")}
    history = tmp_path / "history"
    write_logs([as_pbs(job, "srv") for job in HISTORY], history, UTC)
    for arguments in (["db", "upgrade"], ["ingest", str(history)]):
        command = [sys.executable, "-m", "softwalltime", *arguments, "--config", str(daemon.config)]
        subprocess.run(command, check=True, capture_output=True, env={**daemon.environment})
    try:
        daemon.start()
        assert "preset" not in daemon.status()["policy"], "it is the old one"
        assert outcomes(ROOT / "hooks" / "softwalltime_hook.py", daemon) == {
            "postqueuejob": (600, None), "modifyjob": (600, None), "runjob": (3600, None),
        }  # fmt: skip
    finally:
        daemon.end(signal.SIGKILL)
