"""Requests to PBS are bounded in time, and one that fails does not fail the next."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from softwalltime.service.live.connection import PbsConnection
from softwalltime.service.live.ifl import IflError
from tests.live.emulated import EmulatedServer, agent_at


@pytest.fixture
def server(tmp_path: Path) -> EmulatedServer:
    return EmulatedServer(tmp_path)


def test_jobs_are_read_and_altered(server: EmulatedServer) -> None:
    server.add("1.pbs1")
    connection = server.connect()
    try:
        assert connection.jobs(["job_state"]) == {"1.pbs1": {"job_state": "Q"}}
        connection.alter("1.pbs1", 600)
        assert server.soft("1.pbs1") == "600"
        with pytest.raises(IflError, match="Unknown Job Id") as refused:
            connection.alter("2.pbs1", 600)
        assert refused.value.code == 15001
    finally:
        connection.close()


def test_an_expected_start_is_shown_in_its_resource_only(server: EmulatedServer) -> None:
    server.add("1.pbs1")
    connection = server.connect()
    connection.alter("1.pbs1", "2026-11-22T14:10(2026-11-22T14:00..2026-11-22T15:00)", "predicted_start")
    connection.close()
    assert server.all()["1.pbs1"]["Resource_List.predicted_start"].startswith("2026-11-22T14:10(")
    assert server.soft("1.pbs1") is None


def test_an_agent_that_hangs_is_ended_and_the_next_request_has_another(server: EmulatedServer) -> None:
    server.add("1.pbs1", hang="yes")
    server.add("2.pbs1")
    connection = server.connect(timeout=5)
    with pytest.raises(IflError, match="did not answer within 5 s"):
        connection.alter("1.pbs1", 600)
    connection.alter("2.pbs1", 600)
    assert server.soft("2.pbs1") == "600"
    connection.close()


def test_an_agent_that_dies_is_replaced(server: EmulatedServer) -> None:
    server.add("1.pbs1", die="yes")
    server.add("2.pbs1")
    connection = server.connect()
    with pytest.raises(IflError, match="has ended"):
        connection.alter("1.pbs1", 600)
    assert set(connection.jobs(["job_state"])) == {"1.pbs1", "2.pbs1"}
    connection.close()


def test_a_command_that_is_not_there_is_an_error_of_pbs(tmp_path: Path) -> None:
    with pytest.raises(IflError, match="cannot be started"):
        PbsConnection(command=(str(tmp_path / "none"),)).jobs(["job_state"])


def test_without_pbs_the_agent_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PBS_CONF_FILE", str(tmp_path / "pbs.conf"))
    (tmp_path / "pbs.conf").write_text(f"PBS_EXEC={tmp_path}\n")
    connection = PbsConnection()
    missing = rf"no libpbs.so \(PBS_EXEC of {tmp_path}/pbs.conf\); run this on a host that has PBS's commands"
    with pytest.raises(IflError, match=missing):
        connection.jobs(["job_state"])
    connection.close()


def test_the_agent_ends_with_its_input() -> None:
    agent = subprocess.run(
        [sys.executable, "-m", "softwalltime.service.live.agent"],
        input=b"",
        timeout=60,
        capture_output=True,
        check=True,
    )
    assert agent.stdout == agent.stderr == b""


@pytest.fixture
def agent_socket(server: EmulatedServer, tmp_path: Path) -> Iterator[Path]:
    with agent_at(tmp_path / "agent.sock", server) as path:
        yield path


def test_an_agent_of_systemd_is_reached_at_its_socket(server: EmulatedServer, agent_socket: Path) -> None:
    server.add("1.pbs1")
    connection = PbsConnection(agent=agent_socket)
    connection.alter("1.pbs1", 600)
    connection.alter("1.pbs1", 700)
    assert server.soft("1.pbs1") == "700"
    server.add("1.pbs1", die="yes")
    with pytest.raises(IflError, match="has ended"):
        connection.alter("1.pbs1", 600)
    assert set(connection.jobs(["job_state"])) == {"1.pbs1"}
    connection.close()


def test_without_the_socket_the_error_says_what_to_start(tmp_path: Path) -> None:
    with pytest.raises(IflError, match=r"No such file or directory; run systemctl start softwalltime-live\.socket"):
        PbsConnection(agent=tmp_path / "agent.sock").jobs(["job_state"])


@pytest.mark.parametrize(
    "request_line",
    [
        '{"op": "alter", "id": "1.pbs1", "soft_walltime": 59}',
        '{"op": "alter", "id": "1.pbs1"}',
        '{"op": "alter", "id": "1.pbs1", "priority": "1023"}',
        '{"op": "alter", "id": "1.pbs1", "predicted_start": "soon"}',
        '{"op": "alter", "id": "1.pbs1", "predicted_start": "unknown\\n"}',
        '{"op": "alter", "id": "1.pbs1", "predicted_start": 5}',
        '{"op": "alter", "id": "1.pbs1", "predicted": "1,walltime=9"}',
        '{"op": "alter", "id": "1.pbs1", "predicted": null}',
        '{"op": "jobs"}',
        '{"op": "objects", "kind": "managers"}',
    ],
)
def test_the_agent_refuses_what_is_not_its_business(request_line: str) -> None:
    agent = subprocess.run(
        [sys.executable, "-m", "softwalltime.service.live.agent"], input=request_line.encode() + b"\n", timeout=60,
        capture_output=True, check=True,
    )  # fmt: skip
    answer = json.loads(agent.stdout)
    assert answer["code"] == 0
    assert "not understood" in answer["error"] or "there are no 'managers' to read" in answer["error"]
