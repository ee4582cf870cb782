"""The units: right in systemd's eyes, tight, and alive under a real systemd."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from softwalltime.service.users.own_jobs import SOCKET
from tests.deploy.machine import Machine, Packages, machine
from tests.samples import RECORDED_LOG, ROOT

UNITS = ROOT / "deploy" / "systemd"
LIVE = UNITS / "softwalltime-live@.service"
SERVICES = sorted(set(UNITS.glob("*.service")) - {LIVE})
"""Those in the full sandbox."""
ME = UNITS / "softwalltime-me.service"
WEB = UNITS / "softwalltime-web.service"
PROGRAM = "/opt/softwalltime/bin/softwalltime"
PYTHON = "/opt/softwalltime/bin/python"
ACCOUNTING = "/var/spool/pbs/server_priv/accounting"
SCHEDULER = "/var/spool/pbs/sched_priv"
FILES = ("resource_group", "sched_config", "usage")
"""What the daemon sees of that folder."""


@pytest.fixture
def analyze() -> str:
    found = shutil.which("systemd-analyze")
    if found is None:
        pytest.skip("there is no systemd-analyze")
    return found


def options(service: Path) -> dict[str, list[str]]:
    """Return the values of a unit by key."""
    found: dict[str, list[str]] = {}
    for line in service.read_text().replace("\\\n", " ").splitlines():
        if "=" in line and not line.startswith("#"):
            key, value = line.split("=", 1)
            found.setdefault(key, []).append(value)
    return found


@pytest.mark.parametrize("service", SERVICES, ids=lambda path: path.name)
def test_systemd_analyze_verify_accepts_the_units(service: Path, analyze: str, tmp_path: Path) -> None:
    for each in SERVICES:
        (tmp_path / each.name).write_text(
            each.read_text().replace(PROGRAM, sys.executable).replace(PYTHON, sys.executable)
        )
    for name in ("softwalltime-me.socket", "softwalltime-web.socket"):
        (tmp_path / name).write_text((UNITS / name).read_text())
    done = subprocess.run(
        [analyze, "verify", "--man=no", tmp_path / service.name], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("service", SERVICES, ids=lambda path: path.name)
def test_systemd_analyze_security_rates_the_units_as_safe(service: Path, analyze: str) -> None:
    # What is left of 10: sockets, the network for a PostgreSQL elsewhere, and for the daemon that it must tell root.
    done = subprocess.run(
        [analyze, "security", "--offline=true", "--threshold=15", "--no-pager", service],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("service", SERVICES, ids=lambda path: path.name)
def test_it_runs_as_its_own_user_without_any_capability(service: Path) -> None:
    said = options(service)
    account = {ME: "softwalltime_me", WEB: "softwalltime_web"}.get(service, "softwalltime")
    assert said["User"] == said["Group"] == [account]
    assert said["CapabilityBoundingSet"] == said["AmbientCapabilities"] == [""]
    assert said["NoNewPrivileges"] == ["yes"]
    programs = [value for key, values in said.items() if key.startswith("Exec") for value in values]
    # + and ! would be root; nothing begins with them.
    assert all(program.startswith(("/opt/softwalltime/", "/bin/")) for program in programs)


def test_the_units_have_the_same_sandbox() -> None:
    boxes = [service.read_text().partition("# Sandbox.")[2] for service in SERVICES]
    lines = [box.partition("[Install]")[0].splitlines() for box in boxes]
    ingest, me, web, daemon = ({line for line in box if not line.startswith("#")} for box in lines)
    # Only the daemon must see that the peer is root, and the process for users who they are.
    assert daemon ^ ingest == {"PrivateUsers=yes"}
    assert "PrivateUsers=yes" in ingest
    assert daemon - me == {"SystemCallFilter=setpriority"}
    assert not me - daemon
    assert web - me == {"PrivateUsers=yes", "SocketBindDeny=any"}
    assert not me - web


def test_the_process_for_users_has_limits_and_a_socket_for_all_and_is_not_the_daemons_account() -> None:
    said, listens = options(ME), options(UNITS / "softwalltime-me.socket")
    assert {"MemoryMax", "TasksMax", "CPUQuota", "LimitNOFILE"} <= said.keys()
    assert (listens["ListenStream"], listens["SocketMode"]) == ([str(SOCKET)], ["0666"])


def test_only_the_reverse_proxy_may_ask_for_pages() -> None:
    listens = options(UNITS / "softwalltime-web.socket")
    assert (listens["ListenStream"], listens["SocketMode"]) == (["/run/softwalltime-web.sock"], ["0660"])
    assert listens["SocketGroup"] == options(WEB)["Group"] == ["softwalltime_web"]
    assert {"MemoryMax", "TasksMax", "CPUQuota", "LimitNOFILE"} <= options(WEB).keys()


def test_only_root_and_the_daemons_user_can_read_the_settings(tmp_path: Path) -> None:
    for tool in ("systemd-sysusers", "systemd-tmpfiles"):
        if shutil.which(tool) is None:
            pytest.skip(f"there is no {tool}")
    settings = tmp_path / "etc" / "softwalltime" / "softwalltime.toml"
    settings.parent.mkdir(parents=True)
    settings.touch(mode=0o644)
    subprocess.run(["systemd-sysusers", f"--root={tmp_path}", UNITS / "softwalltime.sysusers"], check=True)
    accounts = [line.split(":") for line in (tmp_path / "etc" / "passwd").read_text().splitlines()]
    assert {account[0]: account[6] for account in accounts} == dict.fromkeys(
        ("softwalltime", "softwalltime-live", "softwalltime_me", "softwalltime_web"), "/usr/sbin/nologin"
    )
    (account,) = (account for account in accounts if account[0] == "softwalltime")
    if os.geteuid() != 0:
        pytest.skip("only root can give files to another user")
    subprocess.run(["systemd-tmpfiles", f"--root={tmp_path}", "--create", UNITS / "softwalltime.tmpfiles"], check=True)
    assert settings.stat().st_mode & 0o777 == 0o640
    assert settings.stat().st_gid == int(account[3])
    assert settings.stat().st_uid == 0


# ---- A real systemd --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def booted(packages: Packages, bootable: Path) -> Iterator[Machine]:
    """A machine with the package, PostgreSQL, and what a PBS server leaves on its host."""
    with machine(bootable) as found:
        found.install(packages["deb"])
        found.boot()
        found.run(f"mkdir -p {ACCOUNTING}; chmod 0750 /var/spool/pbs/server_priv; echo secret > /var/spool/pbs/visible")
        found.run("echo secret > /var/spool/pbs/server_priv/visible")
        found.run(f"mkdir -m 0750 {SCHEDULER}; cd {SCHEDULER}; touch formula; echo early | tee {' '.join(FILES)}")
        (found.root / ACCOUNTING[1:] / RECORDED_LOG.name).write_bytes(RECORDED_LOG.read_bytes())
        found.run("systemctl start postgresql; until pg_isready -q; do sleep 0.2; done")
        found.run("useradd --create-home alice")
        yield found


@pytest.fixture
def configured(booted: Machine) -> Machine:
    """With its database named in the settings, and made."""
    if booted.run("grep -c '^dsn' /etc/softwalltime/softwalltime.toml", check=False) == "0":
        owned = "createdb --owner softwalltime --encoding UTF8 --template template0 softwalltime"
        booted.run(f"su postgres -c 'createuser softwalltime && {owned}'")
        booted.run("sed -i 's/^# dsn/dsn/' /etc/softwalltime/softwalltime.toml")
        booted.run("runuser -u softwalltime -- softwalltime db upgrade")
        booted.run("systemctl start softwalltime")
    return booted


def show(booted: Machine, name: str, unit: str = "softwalltime") -> str:
    return booted.run(f"systemctl show --property={name} --value {unit}")


def status(booted: Machine) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(booted.run("softwalltime status --format json"))
    return found


def test_1_without_a_dsn_the_unit_is_enabled_and_not_started(booted: Machine) -> None:
    assert booted.run("systemctl is-enabled softwalltime") == "enabled"
    booted.run("systemctl start softwalltime")
    assert (show(booted, "ActiveState"), show(booted, "Result")) == ("inactive", "exec-condition")
    assert "not started: /etc/softwalltime/softwalltime.toml names no dsn yet" in booted.run(
        "journalctl -u softwalltime"
    )


def test_2_with_a_dsn_it_starts_reads_the_log_and_notifies_readiness(configured: Machine) -> None:
    assert (show(configured, "ActiveState"), show(configured, "SubState")) == ("active", "running")
    assert status(configured)["accounting"] == "ok"
    configured.until(lambda: status(configured)["learnt"] == 42)


def test_3_it_has_no_capability_and_sees_only_the_accounting_logs_and_three_files_of_pbs(configured: Machine) -> None:
    pid = show(configured, "MainPID")
    lines = configured.run(f"cat /proc/{pid}/status").splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    assert {fields[f"Cap{kind}"].strip(" \t0") for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {""}
    assert (fields["NoNewPrivs"].strip(), fields["Seccomp"].strip()) == ("1", "2")
    assert set(fields["Uid"].split()) == {configured.run("id -u softwalltime")} != {"0"}
    seen = configured.run(f"nsenter -t {pid} -m find /var/spool/pbs -mindepth 1")
    assert sorted(seen.split()) == [
        SCHEDULER,
        *(f"{SCHEDULER}/{name}" for name in FILES),
        "/var/spool/pbs/server_priv",
        ACCOUNTING,
        f"{ACCOUNTING}/{RECORDED_LOG.name}",
    ]
    # The scheduler writes this file in place.
    configured.run(f"echo later > {SCHEDULER}/usage")
    read = f"nsenter -t {pid} -m setpriv --reuid softwalltime --regid softwalltime --clear-groups cat {SCHEDULER}/usage"
    assert configured.run(read) == "later"
    assert configured.run(f"nsenter -t {pid} -m touch {ACCOUNTING}/x", check=False).endswith("Read-only file system")


def test_4_root_can_connect_and_users_cannot_see_the_socket(configured: Machine) -> None:
    assert configured.run("stat -c '%a %U' /run/softwalltime /run/softwalltime/hook.sock").split() == [
        "700", "softwalltime", "600", "softwalltime",
    ]  # fmt: skip
    refused = configured.run("runuser -u alice -- softwalltime status", check=False)
    assert "Permission denied" in refused


def test_4_doctor_reveals_nothing_to_users_and_names_skipped_checks(configured: Machine) -> None:
    said = configured.run("runuser -u alice -- softwalltime doctor", check=False)
    assert "Traceback" not in said
    assert "skipped  PBS" in said
    assert "Permission denied  -> run this as root" in said
    # A host that does other things at this moment is one of the problems that there may be.
    configured.until(lambda: "0 problems" in configured.run("softwalltime doctor", check=False))
    assert "ok       store                 reached" in configured.run("softwalltime doctor", check=False)


def test_5_a_reload_applies_the_policy_in_the_same_process(configured: Machine) -> None:
    before = show(configured, "MainPID")
    configured.run("sed -i 's/^share = 1.0/share = 0.5/' /etc/softwalltime/softwalltime.toml")
    configured.run("systemctl reload softwalltime")
    configured.until(lambda: status(configured)["policy"]["share"] == 0.5)
    assert show(configured, "MainPID") == before


def test_6_after_a_kill_it_restarts_in_seconds(configured: Machine) -> None:
    restarts = int(show(configured, "NRestarts"))
    configured.run(f"kill -9 {show(configured, 'MainPID')}")
    configured.until(lambda: int(show(configured, "NRestarts")) > restarts)
    configured.until(lambda: show(configured, "ActiveState") == "active")
    configured.until(lambda: status(configured)["ready"])


def test_7_the_watchdog_restarts_a_hung_daemon(configured: Machine) -> None:
    restarts = int(show(configured, "NRestarts"))
    configured.run(f"kill -STOP {show(configured, 'MainPID')}")
    configured.until(lambda: int(show(configured, "NRestarts")) > restarts)
    configured.until(lambda: show(configured, "ActiveState") == "active")
    assert "watchdog" in configured.run(
        "journalctl -u softwalltime --no-pager; journalctl --no-pager | grep -i watchdog"
    )


def test_8_without_the_accounting_folder_it_logs_the_reason_and_retries(configured: Machine) -> None:
    said = f"no folder {ACCOUNTING}: if PBS_HOME is elsewhere"
    try:
        configured.run(
            "mv /var/spool/pbs/server_priv /var/spool/pbs/elsewhere; systemctl restart softwalltime", check=False
        )
        # The journal has it some time after the unit has failed.
        configured.until(lambda: said in configured.run("journalctl -u softwalltime --no-pager -n 20"))
    finally:
        configured.run("cd /var/spool/pbs; rm -rf server_priv; mv --no-target-directory elsewhere server_priv")
    configured.until(lambda: show(configured, "ActiveState") == "active")


def test_9_it_stops_at_once_and_removes_the_socket(configured: Machine) -> None:
    configured.run("systemctl stop softwalltime")
    assert (show(configured, "ActiveState"), show(configured, "Result")) == ("inactive", "success")
    assert configured.run("test -e /run/softwalltime && echo there || echo gone") == "gone"


def test_the_ingest_unit_follows_the_log_without_the_daemon(configured: Machine) -> None:
    configured.run("systemctl stop softwalltime; systemctl start softwalltime-ingest")
    log = f"{ACCOUNTING}/20261121"
    configured.run(
        f"sed -n '/;E;/p' {ACCOUNTING}/{RECORDED_LOG.name} | sed 's/\\.\\([a-z]\\)/x.\\1/' | head -1 > {log}"
    )
    query = "su postgres -c \"psql -Atc 'SELECT count(*) FROM softwalltime.log_positions' softwalltime\""
    configured.until(lambda: configured.run(query) == "2")
    assert show(configured, "ActiveState", "softwalltime-ingest") == "active"
    configured.run("systemctl start softwalltime")
    configured.until(lambda: show(configured, "ActiveState", "softwalltime-ingest") == "inactive")


def test_users_see_their_own_jobs_at_a_socket_for_all(configured: Machine) -> None:
    configured.run("su postgres -c 'psql -q -d softwalltime -f /usr/share/doc/pbs-softwalltime/deploy/sql/me-role.sql'")
    configured.run("systemctl enable --now softwalltime-me.socket softwalltime-me")
    asked = "runuser -u alice -- softwalltime me --format json"
    configured.until(lambda: configured.run(asked, check=False).startswith("{"))
    answer = json.loads(configured.run(asked))
    assert (answer["user"], answer["problem"]) in (("alice", ""), ("", ""))
    assert configured.run(f"stat -c '%a %U' {SOCKET}") == "666 root"
    assert show(configured, "ActiveState", "softwalltime-me") == "active"
    assert "softwalltime me" in configured.run("softwalltime doctor", check=False)
    pid = show(configured, "MainPID", "softwalltime-me")
    fields = dict(line.split(":", 1) for line in configured.run(f"cat /proc/{pid}/status").splitlines())
    assert set(fields["Uid"].split()) == {configured.run("id -u softwalltime_me")}
    # Connections wait in systemd's socket until another process has started.
    configured.run(f"kill -9 {pid}")
    configured.until(lambda: configured.run(asked, check=False).startswith("{"))
    configured.run("systemctl disable --now softwalltime-me.socket softwalltime-me.service")
    assert "ask your administrators" in configured.run(asked, check=False)


def test_a_reverse_proxy_shows_users_their_jobs_and_others_cannot_ask(configured: Machine) -> None:
    sql, units = "/usr/share/doc/pbs-softwalltime/deploy/sql", configured.root / "etc/systemd/system"
    configured.run(f"su postgres -c 'psql -q -d softwalltime -f {sql}/me-role.sql -f {sql}/web-role.sql'")
    settings = {
        "me": "Environment=SOFTWALLTIME_WEB_ACCOUNT=softwalltime_web",
        "web": "Environment=SOFTWALLTIME_WEB_STAFF=alice,@adm SOFTWALLTIME_DSN=postgresql:///softwalltime",
    }
    for name, lines in settings.items():
        folder = units / f"softwalltime-{name}.service.d"
        folder.mkdir()
        (folder / "site.conf").write_text(f"[Service]\n{lines}\n")
    configured.run("systemctl daemon-reload; useradd --groups softwalltime_web proxy-account")
    names = "softwalltime-me.socket softwalltime-me.service softwalltime-web.socket softwalltime-web.service"
    configured.run(f"systemctl enable --now {names}")
    (configured.root / "usr/local/bin/ask").write_text(
        "import http.client, socket, sys\n"
        "connection = http.client.HTTPConnection('web')\n"
        "connection.sock = socket.socket(socket.AF_UNIX)\n"
        "connection.sock.connect('/run/softwalltime-web.sock')\n"
        "connection.request('GET', sys.argv[1], headers={'X-Remote-User': 'alice'})\n"
        "print(connection.getresponse().read().decode())\n"
    )

    def asked(account: str, page: str) -> str:
        return configured.run(f"runuser -u {account} -- {PYTHON} -I /usr/local/bin/ask {page}", check=False)

    configured.until(lambda: "<h1>My jobs</h1>" in asked("proxy-account", "/"))
    staff = asked("proxy-account", "/staff")
    assert "Who waits longest" in staff
    # The socket of the daemon is only for root and its own account.
    assert "status is not shown here: /run/softwalltime/hook.sock: Permission denied" in staff
    for other in ("alice", "softwalltime", "softwalltime_me"):
        assert "PermissionError" in asked(other, "/")
    configured.run(f"systemctl disable --now {names}; rm -r /etc/systemd/system/softwalltime-{{me,web}}.service.d")
    configured.run("systemctl daemon-reload")


def test_the_agent_for_pbs_is_for_the_daemon_only_and_may_run_pbs_iff(analyze: str, tmp_path: Path) -> None:
    for each in (LIVE, UNITS / "softwalltime-live.socket"):
        (tmp_path / each.name).write_text(each.read_text().replace("/opt/softwalltime/bin/python", sys.executable))
    done = subprocess.run(
        [analyze, "verify", "--man=no", *tmp_path.iterdir()], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    said, listens = options(LIVE), options(UNITS / "softwalltime-live.socket")
    assert (listens["SocketUser"], listens["SocketMode"]) == (["softwalltime"], ["0600"])
    assert said["User"] == ["softwalltime-live"]
    # Each of these implies NoNewPrivileges for a user that is not root (systemd.exec).
    implying = {
        "NoNewPrivileges", "SystemCallFilter", "SystemCallArchitectures", "RestrictAddressFamilies", "PrivateDevices",
        "RestrictNamespaces", "ProtectKernelTunables", "ProtectKernelModules", "ProtectKernelLogs", "ProtectClock",
        "MemoryDenyWriteExecute", "RestrictRealtime", "RestrictSUIDSGID", "DynamicUser", "LockPersonality",
        "ProtectHostname",
    }  # fmt: skip
    assert not implying & said.keys()
