"""Installation, operation and removal on a real server with the commands of deploy/GUIDE.md."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text

from tests.acceptance.conftest import WAITING
from tests.acceptance.lab import HOOK, Done, Lab, until
from tests.acceptance.test_failures import own_postgres, psycopg_path
from tests.service.running import Daemon

__all__ = ["own_postgres", "psycopg_path"]
POLICY = 'mode = "{mode}"\nwaiting = "v1"\nrunning = "walltime"\n'


class Site:
    """Settings, daemon and installation folder of a new administrator."""

    def __init__(self, lab: Lab, folder: Path, dsn: str) -> None:
        self.lab = lab
        self.folder = folder / "hook"
        self.daemon = Daemon(folder, dsn, POLICY.format(mode="shadow"))
        # The server's own log, as in the guide.
        self.daemon.accounting = lab.home / "server_priv" / "accounting"
        self.daemon.configure(POLICY.format(mode="shadow"))

    def softwalltime(self, *arguments: str) -> Done:
        """Run a command of softwalltime on the server's host."""
        return self.lab.run(sys.executable, "-m", "softwalltime", *arguments)

    def install(self, *options: str) -> str:
        """Run the installation, which must succeed; return its output."""
        done = self.softwalltime("install", str(self.folder), "--config", str(self.daemon.config), *options)
        assert done.ok, done.error
        return done.output

    def doctor(self) -> tuple[int, dict[str, str]]:
        """Return the exit status and the worst verdict of each check."""
        done = self.softwalltime("doctor", "--format", "json", "--config", str(self.daemon.config))
        worst: dict[str, str] = {}
        order = ("skipped", "ok", "advice", "warning", "problem")
        for finding in json.loads(done.output):
            check, verdict = finding["check"], finding["verdict"]
            worst[check] = max(verdict, worst.get(check, "skipped"), key=order.index)
        return done.status, worst

    def hook(self) -> dict[str, str]:
        """Return the hook's attributes in PBS, empty if there is no hook."""
        done = self.lab.run("qmgr", "-c", "list hook softwalltime")
        lines = done.output.splitlines()[1:] if done.ok else []
        return {key.strip(): value.strip() for key, _, value in (line.partition(" = ") for line in lines) if value}

    def switch(self, mode: str) -> None:
        """Change the mode by a reload."""
        self.daemon.configure(POLICY.format(mode=mode))
        self.daemon.send(signal.SIGHUP)
        until(lambda: self.daemon.status()["policy"]["mode"] == mode, 20, mode)


@pytest.fixture
def site(lab: Lab, database: str, tmp_path: Path) -> Iterator[Site]:
    if os.geteuid() != 0:
        pytest.skip("hooks are root's to install")
    assert "queuejob" in lab.events  # The property creates a hook with this name and deletes it.
    lab.uninstall()
    # Only root can enter pytest's own folder; PBS's commands run as root too.
    site = Site(lab, tmp_path, database)
    yield site
    if site.daemon.process is not None and site.daemon.process.poll() is None:
        site.daemon.end(signal.SIGKILL)
    lab.uninstall()


def held(lab: Lab) -> str:
    """A waiting job."""
    return lab.qsub("-h", "-q", "short", "-l", "walltime=600")


@pytest.mark.usefixtures("strict")
def test_a_new_administrator_can_follow_the_guide(site: Site, lab: Lab, engine: Engine) -> None:
    # Without --apply nothing changes.
    assert "to do: create hook softwalltime" in site.install()
    assert site.hook() == {}
    assert not site.folder.exists()

    # In shadow mode the daemon learns from the users' jobs.
    site.daemon.start()
    until(lambda: site.daemon.status()["behind_bytes"] == 0, 60, "the log is read")
    for job in [lab.qsub("-q", "short", "-l", "walltime=600", command=["/bin/sleep", "1"]) for _ in range(2)]:
        lab.wait(job, "F", 60)
    until(lambda: known(engine, lab.jobs) == 2, 30, "both are in the store")

    # Install the hook; a second installation changes nothing.
    assert "done: create hook softwalltime" in site.install("--apply")
    assert site.hook()["event"] == "queuejob,modifyjob,resvsub,modifyresv,runjob"
    assert (site.hook()["enabled"], site.hook()["order"], site.hook()["alarm"]) == ("true", "900", "5")
    assert lab.qmgr("export hook softwalltime application/x-python default") == HOOK.read_text().strip()
    assert "of this version" in site.install("--apply")
    status, verdicts = site.doctor()
    assert status == 0, verdicts
    for check in ("PBS", "manager rights", "hook", "hook enabled", "hook configuration", "socket", "hook events",
                  "hook order", "backfill_depth", "strict_ordering", "daemon", "mode", "learning", "store", "position",
                  "clock"):  # fmt: skip
        assert verdicts[check] == "ok", check
    assert verdicts["default walltimes"] == "advice"

    # Shadow mode records and sets nothing.
    job = held(lab)
    assert lab.soft(job) is None
    # The job has no id at queuejob.
    until(lambda: ("shadow", 60) in decisions(engine, ""), 20, "the prediction is recorded")

    # Enable it.
    site.switch("on")
    job = held(lab)
    assert lab.soft(job) == 60

    array = lab.qsub("-J", "1-2", "-q", "short", "-l", "walltime=600")
    subjob = array.replace("[]", "[1]")
    lab.wait(subjob, "R")
    assert (lab.soft(array), lab.soft(subjob)) == (60, 600)

    # Disable the hook; only --enable enables it again.
    lab.qmgr("set hook softwalltime enabled = false")
    assert lab.soft(held(lab)) is None
    assert site.doctor()[1]["hook enabled"] == "problem"
    assert "stays disabled" in site.install("--apply")
    assert lab.soft(held(lab)) is None
    site.install("--apply", "--enable")
    assert lab.soft(held(lab)) == 60

    # Uninstall it; the printed command removes the soft walltimes of jobs.
    done = site.softwalltime("uninstall", str(site.folder), "--apply")
    assert done.ok
    assert site.hook() == {}
    assert not site.folder.exists()
    assert lab.soft(job) == 60
    (hint,) = [line.strip() for line in done.error.splitlines() if "qselect" in line]
    lab.must("bash", "-c", hint)
    assert (lab.soft(job), lab.soft(array)) == (None, None)
    assert lab.soft(subjob) == 600, "PBS refuses to alter a running subjob"
    assert lab.walltime(job) == 600
    again = site.softwalltime("uninstall", str(site.folder), "--apply")
    assert again.ok
    assert "PBS does not have the hook" in again.output


def test_an_administrators_changes_are_kept_and_shown(site: Site, lab: Lab) -> None:
    site.install("--apply")
    file = site.folder / "softwalltime_hook.json"
    values: dict[str, Any] = json.loads(file.read_text())
    file.write_text(json.dumps({**values, "deadline_ms": 80, "events": {**values["events"], "queuejob": False}}))
    lab.qmgr("set hook softwalltime order = 7")
    said = site.install("--apply")
    assert "in PBS: deadline_ms: 50, will be 80" in said
    assert site.hook()["event"] == "modifyjob,resvsub,modifyresv,runjob"
    exported = json.loads(lab.qmgr("export hook softwalltime application/x-config default"))
    assert exported["deadline_ms"] == 80
    # Without the folder, as on a new host, they are read from PBS.
    file.unlink()
    assert "of this version" in site.install("--apply")
    assert json.loads(file.read_text())["deadline_ms"] == 80
    assert site.hook()["order"] == "7"


def test_an_altered_hook_is_found_and_corrected(site: Site, lab: Lab, tmp_path: Path) -> None:
    site.install("--apply")
    altered = tmp_path / "altered.py"
    altered.write_text(HOOK.read_text() + "# altered\n")
    lab.qmgr(f"import hook softwalltime application/x-python default {altered}")
    lab.qmgr('set hook softwalltime event = "queuejob,runjob"')
    _, verdicts = site.doctor()
    assert (verdicts["hook"], verdicts["hook events"]) == ("problem", "problem")
    site.install("--apply")
    _, verdicts = site.doctor()
    assert (verdicts["hook"], verdicts["hook events"]) == ("ok", "ok")


def test_the_file_of_the_transport_postgres_is_installed_checked_and_removed(
    site: Site, lab: Lab, own_postgres: tuple[str, int], psycopg_path: Path
) -> None:
    file = site.folder / "softwalltime_postgres.py"
    site.folder.mkdir(mode=0o755)
    settings = {"dsn": own_postgres[0], "psycopg_path": str(psycopg_path), "waiting": "last2"}
    (site.folder / "softwalltime_hook.json").write_text(
        json.dumps({"transport": "postgres", "deadline_ms": 1000, "postgres": settings})
    )
    assert f"written: {file}" in site.install("--apply")
    assert lab.soft(held(lab)) == WAITING
    assert site.doctor()[1]["transport"] == "ok"
    file.write_text(file.read_text() + "# altered\n")
    assert site.doctor()[1]["transport"] == "problem"
    assert f"written: {file}" in site.install("--apply")
    assert site.doctor()[1]["transport"] == "ok"
    assert site.softwalltime("uninstall", str(site.folder), "--apply").ok
    assert not site.folder.exists()


def known(engine: Engine, jobs: list[str]) -> int:
    """Return how many of these jobs are in the store."""
    with engine.connect() as connection:
        counted = text("SELECT count(*) FROM softwalltime.completed_jobs WHERE job_id = ANY (:jobs)")
        return int(connection.execute(counted, {"jobs": jobs}).scalar_one())


def decisions(engine: Engine, job: str) -> list[tuple[str, int | None]]:
    """Return the actions for a job and the soft walltimes."""
    with engine.connect() as connection:
        asked = text("SELECT action, soft_walltime FROM softwalltime.predictions WHERE job_id = :job")
        return [(row.action, row.soft_walltime) for row in connection.execute(asked, {"job": job})]
