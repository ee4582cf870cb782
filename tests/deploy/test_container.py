"""The compose file, as far as it can be judged without a container engine."""

import shlex
import tomllib

import pytest

from softwalltime.cli import cli
from softwalltime.settings import Settings
from tests.workloads import ROOT

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
FOLDER = ROOT / "deploy" / "container"
OURS = ("upgrade", "daemon")


@pytest.fixture(scope="module")
def services() -> dict[str, dict]:
    return dict(yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"])


@pytest.mark.parametrize("name", OURS)
def test_our_containers_may_do_nothing_that_they_need_not(services: dict[str, dict], name: str) -> None:
    service = services[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "pid", "network_mode", "cap_add", "ports", "user"} & service.keys()
    assert "USER 10901:10901" in (FOLDER / "Containerfile").read_text()


@pytest.mark.parametrize("name", OURS)
def test_their_commands_and_settings_exist(services: dict[str, dict], name: str) -> None:
    command = cli
    for word in services[name]["command"]:
        command = command.commands[word]
    for variable in services[name]["environment"]:
        assert variable.removeprefix("SOFTWALLTIME_").lower() in Settings.model_fields


def test_nothing_of_pbs_can_be_written_and_no_password_stands_in_the_file(services: dict[str, dict]) -> None:
    volumes = services["daemon"]["volumes"]
    assert [volume for volume in volumes if not volume.endswith(":ro")] == ["/run/softwalltime:/run/softwalltime"]
    assert "PASSWORD:" not in (FOLDER / "compose.yaml").read_text()
    assert "ports" not in services["postgres"]


def test_the_image_is_made_of_the_package_and_nothing_else_of_the_checkout() -> None:
    copied = {
        source
        for line in (FOLDER / "Containerfile").read_text().splitlines()
        if line.startswith("COPY") and "--from" not in line
        for source in shlex.split(line)[1:-1]
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {path.split("/")[0] for path in (*wheel["packages"], *wheel["force-include"])}
    needed |= {"pyproject.toml", project["project"]["readme"], *project["project"]["license-files"]}
    assert copied == needed
