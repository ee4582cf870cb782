"""The compose file, as far as it can be judged without a container engine."""

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest

from softwalltime.cli import cli
from softwalltime.core.settings import SYSTEM_FILE, Settings
from softwalltime.service.daemon import RECORDER_STOP_TIMEOUT_S
from tests.deploy.debian import namespaces
from tests.deploy.machine import machine
from tests.samples import ROOT

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
FOLDER = ROOT / "deploy" / "container"
OURS = ("upgrade", "daemon")
UID = 10901


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return dict(yaml.safe_load((FOLDER / "compose.yaml").read_text()))


@pytest.fixture(scope="module")
def services(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return dict(compose["services"])


@pytest.fixture(scope="module")
def head() -> str:
    """The commands at the head of the compose file, but those that need a container engine."""
    lines = re.findall(r"^#   (.*)$", (FOLDER / "compose.yaml").read_text(), re.MULTILINE)
    return "\n".join(line for line in lines if "docker" not in line)


@pytest.mark.parametrize("name", OURS)
def test_the_containers_have_no_needless_privileges(services: dict[str, dict[str, Any]], name: str) -> None:
    service = services[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "pid", "network_mode", "cap_add", "ports", "user"} & service.keys()
    assert f"USER {UID}:{UID}" in (FOLDER / "Containerfile").read_text()


def test_the_containers_have_no_external_network(compose: dict[str, Any], services: dict[str, dict[str, Any]]) -> None:
    assert compose["networks"] == {"store": {"internal": True}}
    assert all(service["networks"] == ["store"] for service in services.values())


@pytest.mark.parametrize("name", OURS)
def test_commands_and_settings_of_the_containers_exist(services: dict[str, dict[str, Any]], name: str) -> None:
    command = cli
    for word in services[name]["command"]:
        if word.startswith("--"):
            assert word in {option for parameter in command.params for option in parameter.opts}
            break
        command = command.commands[word]
    for variable in services[name]["environment"]:
        assert variable.removeprefix("SOFTWALLTIME_").lower() in Settings.model_fields


def test_pbs_is_mounted_read_only_and_the_file_has_no_password(services: dict[str, dict[str, Any]]) -> None:
    volumes = services["daemon"]["volumes"]
    assert [volume["target"] for volume in volumes if not volume.get("read_only")] == ["/run/softwalltime"]
    assert "PASSWORD:" not in (FOLDER / "compose.yaml").read_text()
    assert "ports" not in services["postgres"]


def test_missing_host_folders_are_not_created(services: dict[str, dict[str, Any]]) -> None:
    for volume in services["daemon"]["volumes"]:
        assert (volume["type"], volume["bind"]) == ("bind", {"create_host_path": False}), volume["target"]


def test_replaced_settings_are_seen_and_unreadable_settings_are_an_error(
    services: dict[str, dict[str, Any]],
) -> None:
    assert str(SYSTEM_FILE.parent) in [volume["target"] for volume in services["daemon"]["volumes"]]
    assert services["daemon"]["command"] == ["serve", "--config", str(SYSTEM_FILE)]


def test_a_crashed_daemon_restarts_and_a_stopped_one_has_time_to_finish(
    services: dict[str, dict[str, Any]],
) -> None:
    daemon = services["daemon"]
    assert (daemon["restart"], daemon["stop_signal"]) == ("always", "SIGTERM")
    assert not daemon["depends_on"]
    assert int(daemon["stop_grace_period"].removesuffix("s")) > RECORDER_STOP_TIMEOUT_S


def test_the_upgrade_waits_for_the_final_postgresql(
    services: dict[str, dict[str, Any]],
) -> None:
    assert services["upgrade"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert "--host=localhost" in services["postgres"]["healthcheck"]["test"]


def test_the_image_contains_only_the_package() -> None:
    copied = {
        source
        for line in (FOLDER / "Containerfile").read_text().splitlines()
        if line.startswith("COPY") and "--from" not in line
        for source in shlex.split(line)[1:-1]
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    # Of deploy only what the wheel holds: the folder may hold local settings.
    included = (*wheel["packages"], *wheel["force-include"])
    needed = {path if path.startswith("deploy/") else path.split("/")[0] for path in included}
    needed |= {"pyproject.toml", "README.md", *project["project"]["license-files"]}
    assert copied == needed


def test_the_checkout_contains_no_secret(compose: dict[str, Any], head: str) -> None:
    files = [Path(secret["file"]) for secret in compose["secrets"].values()]
    assert len(files) == 2
    for file in files:
        assert file.is_absolute()
        assert str(file.parent) in head


def test_the_documented_steps_create_all_files_with_their_owners(
    compose: dict[str, Any], head: str, debian: Path
) -> None:
    if not namespaces():
        pytest.skip("systemd-tmpfiles wants a /proc, and nothing can be mounted here for nobody else to see")
    with machine(debian) as host:
        (host.root / "checkout" / "deploy").mkdir(parents=True)
        (host.root / "checkout/deploy/softwalltime.toml").write_bytes((ROOT / "deploy/softwalltime.toml").read_bytes())
        if host.run("command -v openssl", check=False) == "":
            head = head.replace("openssl rand -hex 24", "od -An -N24 -tx1 /dev/urandom | tr -d ' \\n'")
        # However the administrator's shell keeps others out.
        host.run(f"set -e; umask 077; mount -t proc proc /proc; cd /checkout; {head}")
        password, pgpass = (compose["secrets"][name]["file"] for name in ("password", "pgpass"))
        seen = host.run(f"stat -c '%a %u %n' /run/softwalltime {SYSTEM_FILE.parent} {SYSTEM_FILE} {password} {pgpass}")
        assert seen.splitlines() == [
            f"700 {UID} /run/softwalltime",
            f"755 0 {SYSTEM_FILE.parent}",
            f"644 0 {SYSTEM_FILE}",
            f"600 0 {password}",
            f"600 {UID} {pgpass}",
        ]
        written = host.run(f"cat {password}")
        assert re.fullmatch("[0-9a-f]{48}", written)
        postgres = compose["services"]["postgres"]["environment"]
        user, database = postgres["POSTGRES_USER"], postgres["POSTGRES_DB"]
        assert host.run(f"cat {pgpass}") == f"postgres:5432:{database}:{user}:{written}"
        dsn = compose["services"]["daemon"]["environment"]["SOFTWALLTIME_DSN"]
        assert dsn == f"postgresql://{user}@postgres/{database}?passfile=/run/secrets/pgpass"
