"""What two commands create or replace at the same moment is complete, and neither command fails."""

import os
import socket
from contextlib import suppress
from datetime import UTC
from pathlib import Path

import pytest

from softwalltime.accounting.writer import write_logs
from softwalltime.core.errors import SoftwalltimeError, SourceError
from softwalltime.deployment.hook_folder import files_in, remove_files, write, write_state
from softwalltime.deployment.sched_config import rewrite
from softwalltime.reports.pseudonyms import read_key
from softwalltime.service.socket_server import ServerError, SocketServer
from softwalltime.store.embedded.postgres_process import _make_folder
from tests.at_once import at_once
from tests.deploy.installations import plan
from tests.samples import job

ATTEMPTS = 100


def test_a_data_folder(tmp_path: Path) -> None:
    for number in range(ATTEMPTS):
        folder = tmp_path / str(number) / "data"
        at_once(lambda _, folder=folder: _make_folder(folder))
        assert folder.is_dir()


def test_a_key_for_pseudonyms(tmp_path: Path) -> None:
    for number in range(ATTEMPTS):
        file = tmp_path / f"key{number}"
        keys = at_once(lambda _, file=file: read_key(file))
        assert set(keys) == {file.read_bytes().strip()}
    assert len(list(tmp_path.iterdir())) == ATTEMPTS


def test_an_installation(tmp_path: Path) -> None:
    made = plan()
    for number in range(ATTEMPTS // 10):
        folder = tmp_path / str(number)
        at_once(lambda _, folder=folder: write(made, folder))
        assert {file.name: file.read_text() for file in folder.iterdir()} == made.files
        at_once(lambda _, folder=folder: remove_files(folder))
        assert not folder.exists()


def test_an_unfinished_file_of_an_installation_is_removed(tmp_path: Path) -> None:
    (tmp_path / "hook").mkdir()
    unfinished = tmp_path / "hook" / ".softwalltime_hook.py.newx3k2"
    unfinished.touch()
    assert files_in(tmp_path / "hook") == [unfinished]
    remove_files(tmp_path / "hook")
    assert not (tmp_path / "hook").exists()


def test_the_earlier_settings_of_pbs(tmp_path: Path) -> None:
    for number in range(ATTEMPTS):
        folder = tmp_path / str(number)
        at_once(lambda index, folder=folder: write_state(folder, f"{{{index}}}"))
        assert len((folder / "softwalltime_scheduler.json").read_text()) == 4
        at_once(lambda _, folder=folder: write_state(folder, ""))
        assert not folder.exists()


def test_a_sched_config(tmp_path: Path) -> None:
    file = tmp_path / "sched_config"
    texts = ["a" * 100_000, "b" * 100_000]

    def change(index: int) -> None:
        try:
            rewrite(file, "before", texts[index])
        except SourceError as error:
            assert "changed by somebody else meanwhile" in str(error)

    for _ in range(ATTEMPTS):
        file.write_text("before")
        at_once(change, threads=2)
        assert file.read_text() in texts
        assert list(tmp_path.iterdir()) == [file]


def test_a_folder_of_logs_is_of_one_command_only(tmp_path: Path) -> None:
    jobs = [job(job_id=f"{number}.s", end=1_700_000_000 + number) for number in range(300)]
    write_logs(jobs, tmp_path / "alone", UTC)
    expected = {file.name: file.read_text() for file in (tmp_path / "alone").iterdir()}

    def generate(folder: Path) -> bool:
        try:
            write_logs(jobs, folder, UTC)
        except SoftwalltimeError:
            return False
        return True

    for number in range(ATTEMPTS // 5):
        folder = tmp_path / str(number)
        assert sum(at_once(lambda _, folder=folder: generate(folder))) == 1
        assert {file.name: file.read_text() for file in folder.iterdir()} == expected


def test_a_daemon_that_ends_leaves_the_socket_of_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "hook.sock"
    first, unlink, next_ones = _server(path), Path.unlink, []

    def start_before(file: Path) -> None:
        """Start the next daemon at the worst moment."""
        monkeypatch.undo()
        with suppress(ServerError):
            next_ones.append(_server(path))
        unlink(file)

    monkeypatch.setattr(Path, "unlink", start_before)
    first.close()
    next_ones = next_ones or [_server(path)]
    assert path.is_socket()
    next_ones[0].close()
    assert not path.exists()


def test_a_dead_socket_is_replaced_by_one_daemon_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "hook.sock"
    unlink, servers = Path.unlink, []
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))

    def start_before(file: Path) -> None:
        """Start another daemon after the first has seen that the socket is dead."""
        monkeypatch.undo()
        with suppress(ServerError):
            servers.append(_server(path))
        unlink(file)

    monkeypatch.setattr(Path, "unlink", start_before)
    servers.append(_server(path))
    assert len(servers) == 1
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
    servers[0].close()


def test_daemons_that_start_at_once_on_a_dead_socket(tmp_path: Path) -> None:
    def start(path: Path) -> SocketServer | str:
        try:
            return _server(path)
        except ServerError as error:
            return str(error)

    for number in range(ATTEMPTS):
        path = tmp_path / str(number)
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(path))
        results = at_once(lambda _, path=path: start(path))
        servers = [result for result in results if isinstance(result, SocketServer)]
        refusals = [result for result in results if isinstance(result, str)]
        assert len(servers) == 1
        assert all("another daemon" in refusal for refusal in refusals)
        servers[0].close()


def test_no_other_user_can_hold_the_lock_of_a_socket(tmp_path: Path) -> None:
    server = _server(tmp_path / "hook.sock")
    assert (tmp_path / "hook.sock.lock").stat().st_mode & 0o777 == 0o600
    server.close()
    (tmp_path / "hook.sock.lock").unlink()
    (tmp_path / "hook.sock.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ServerError, match="cannot listen here"):
        _server(tmp_path / "hook.sock")
    assert not (tmp_path / "elsewhere").exists()


def _server(path: Path) -> SocketServer:
    return SocketServer(path, lambda line: line, users=(os.geteuid(),))
