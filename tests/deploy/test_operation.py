"""The commands of deploy/OPERATION.md for downgrades, backups and another PBS_HOME work with data."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, text

from softwalltime.accounting.tally import Tally
from softwalltime.cli import run
from softwalltime.core.jobs import DecisionRecord, Submission
from softwalltime.service.ingest import ingest_logs
from softwalltime.store.connections import connect
from softwalltime.store.migrations import check, current, downgrade, head, upgrade
from softwalltime.store.predictions import add_decisions
from tests.deploy.machine import Machine, Packages, machine
from tests.samples import RECORDED_LOG, ROOT

OPERATION = (ROOT / "deploy" / "OPERATION.md").read_text()


def blocks(heading: str, language: str = "sh") -> list[str]:
    """The code under a heading, which ends with the next."""
    section = OPERATION.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)


# ---- Downgrades with data --------------------------------------------------------------------------------------------

JOBS = text("""
    SELECT job_id, server, start_time, end_time, runtime, walltime, user_name, project, queue, exit_status
    FROM softwalltime.completed_jobs ORDER BY id
""")
STATES = text("SELECT job_id, start_time, state::text FROM softwalltime.completed_jobs ORDER BY id")
POSITIONS = text("SELECT server, path, byte_offset, line_number FROM softwalltime.log_positions ORDER BY path")
PREDICTIONS = text("SELECT job_id, predicted_at, soft_walltime, basis FROM softwalltime.predictions ORDER BY id")


BASELINE = "0001"


@pytest.fixture
def loaded(database: str, tmp_path: Path) -> Iterator[Engine]:
    """A store with the recorded log and a prediction for each of some jobs."""
    engine = connect(database)
    ingest_logs(engine, [RECORDED_LOG], Tally())
    with engine.begin() as connection:
        submissions = [Submission(f"{number}.s", "alice", number, 600, project="p") for number in range(1, 6)]
        decided = [DecisionRecord(5, "queuejob", each, "on", "v1", 60.0, 60, "set", "why", 1) for each in submissions]
        add_decisions(connection, decided)
    yield engine
    engine.dispose()


def rows(connection: Connection, query: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in connection.execute(query)]


@pytest.mark.postgres
def test_every_step_down_and_up_again_keeps_jobs_and_positions(loaded: Engine) -> None:
    with loaded.connect() as connection:
        jobs, positions, states = (rows(connection, query) for query in (JOBS, POSITIONS, STATES))
        predictions = rows(connection, PREDICTIONS)
    assert len(jobs) == 42
    at = current(loaded)
    while at > BASELINE:
        downgrade(loaded, "-1")
        at = current(loaded)
        with loaded.connect() as connection:
            assert rows(connection, JOBS) == jobs
            assert rows(connection, POSITIONS) == positions
            assert rows(connection, PREDICTIONS) == predictions
    while at < head():
        upgrade(loaded, "+1")
        at = current(loaded)
        with loaded.connect() as connection:
            assert rows(connection, JOBS) == jobs
    assert check(loaded) == []
    with loaded.connect() as connection:
        # The end state of a job is derived from the records that are present.
        assert rows(connection, STATES) == states
        assert rows(connection, POSITIONS) == positions
    # Nothing is read twice.
    assert ingest_logs(loaded, [RECORDED_LOG], Tally())[0] == 0


@pytest.mark.postgres
def test_the_command_goes_back_and_refuses_to_drop_everything(
    database: str, loaded: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["db", "downgrade", BASELINE, "--dsn", database]) == 0
    assert capsys.readouterr().out == f"the store is at revision {BASELINE}\n"
    assert run(["db", "downgrade", "base", "--dsn", database]) == 2
    assert "dropdb" in capsys.readouterr().err
    assert run(["db", "downgrade", "7777", "--dsn", database]) == 2
    assert current(loaded) == BASELINE


# ---- On a machine ----------------------------------------------------------------------------------------------------

COUNT = "su postgres -c \"psql -Atc 'SELECT count(*) FROM softwalltime.completed_jobs' softwalltime\""


@pytest.fixture(scope="module")
def host(packages: Packages, bootable: Path) -> Iterator[Machine]:
    """A host with the package, its daemon and PostgreSQL, and PBS_HOME in /scratch/pbs."""
    with machine(bootable) as found:
        found.install(packages["deb"])
        found.boot()
        accounting = "/scratch/pbs/server_priv/accounting"
        found.run(f"mkdir -p {accounting}; chmod 0750 /scratch/pbs/server_priv")
        (found.root / accounting[1:] / RECORDED_LOG.name).write_bytes(RECORDED_LOG.read_bytes())
        found.run("systemctl start postgresql; until pg_isready -q; do sleep 0.2; done")
        found.run(f"sed -i 's/^# dsn/dsn/; s#^accounting = .*#accounting = \"{accounting}\"#' /etc/softwalltime/*.toml")
        for command in guide_commands():
            found.run(command)
        (drop_in,) = blocks("Processes and users", "ini")
        found.run("mkdir -p /etc/systemd/system/softwalltime.service.d")
        (found.root / "etc/systemd/system/softwalltime.service.d/override.conf").write_text(drop_in)
        found.run("systemctl daemon-reload; systemctl start softwalltime")
        found.until(lambda: found.run(COUNT) == "42")
        yield found


def guide_commands() -> list[str]:
    """How deploy/GUIDE.md makes the database."""
    guide = (ROOT / "deploy" / "GUIDE.md").read_text()
    section = guide.split("## 3. ")[1].split("\n## ")[0]
    return re.findall(r"```sh\n(.*?)```", section, re.DOTALL)[0].splitlines()


def test_the_drop_in_serves_another_pbs_home(host: Machine) -> None:
    pid = host.run("systemctl show --property=MainPID --value softwalltime")
    seen = host.run(f"nsenter -t {pid} -m find /scratch/pbs -type f")
    assert seen == f"/scratch/pbs/server_priv/accounting/{RECORDED_LOG.name}"
    assert "ok       position" in host.run("softwalltime doctor", check=False)


def test_the_acl_makes_logs_readable(host: Machine) -> None:
    folder = "/scratch/pbs/server_priv/accounting"
    if host.run("command -v setfacl", check=False) == "":
        pytest.skip("the machine has no setfacl")
    host.run(f"chmod 0700 {folder}; chmod 0600 {folder}/*")
    (command,) = (block for block in blocks("Processes and users") if "setfacl" in block)
    host.run(command.replace("/var/spool/pbs", "/scratch/pbs"))
    host.run(f"umask 077; head -1 {folder}/{RECORDED_LOG.name} > {folder}/20261121")
    # In the daemon's mount namespace: outside of it only root can reach the folder.
    pid = host.run("systemctl show --property=MainPID --value softwalltime")
    files = f"{folder}/{RECORDED_LOG.name} {folder}/20261121"
    host.run(f"nsenter -t {pid} -m runuser -u softwalltime -- cat {files} > /dev/null")
    assert host.run(f"stat -c %a {folder}/../../server_priv") == "750"


def test_after_a_restore_the_daemon_continues_where_the_backup_ends(host: Machine) -> None:
    _, dump, restore = blocks("Backup and restore")
    host.run(f"cd /root; {dump}")
    host.run("systemctl stop softwalltime; su postgres -c 'dropdb softwalltime'")
    host.run(f"cd /root; set -e; {restore}")
    assert host.run(COUNT) == "42"
    host.until(lambda: "ok       learning" in host.run("softwalltime doctor", check=False))
    assert host.run(COUNT) == "42"


def test_after_a_loss_the_logs_are_read_again(host: Machine) -> None:
    again = blocks("Backup and restore")[0]
    host.run("systemctl stop softwalltime")
    host.run(
        "su postgres -c 'dropdb softwalltime && "
        "createdb --owner softwalltime --encoding UTF8 --template template0 softwalltime'"
    )
    host.run(f"set -e; {again}")
    host.until(lambda: host.run(COUNT) == "42")


def test_a_downgrade_by_its_own_commands(host: Machine) -> None:
    (commands,) = blocks("Downgrade")
    # The older package is the one that is there: what is tried is what the commands do to the tables and the daemon.
    kept = [line for line in commands.splitlines() if not line.startswith(("apt ", "softwalltime install"))]
    assert len(kept) == len(commands.splitlines()) - 2
    host.run("set -e; " + "\n".join(kept))
    host.until(lambda: "ok       store" in host.run("softwalltime doctor", check=False))
    assert host.run(COUNT) == "42"
