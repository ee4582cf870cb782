"""The hook, which runs as root, opens its configuration and the socket, and nothing that a user can write."""

import ast
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from softwalltime.core.jobs import Submission
from softwalltime.emulation.pbs.hook_runner import HookScript, restart_interpreter
from softwalltime.emulation.pbs.pbs_events import Site, queued
from tests.hooks import conftest as of_hooks
from tests.hooks.jobs import events
from tests.hooks.peer import Peer
from tests.hooks.test_python36 import STANDARD
from tests.samples import ROOT

site, transport = of_hooks.site, of_hooks.transport
Loading = Callable[[object], str]
HOOK = ROOT / "hooks" / "softwalltime_hook.py"
WATCHED = ("open", "os.", "socket.", "subprocess.", "shutil.", "exec", "import", "tempfile.", "ctypes.")
_seen: list[tuple[str, tuple[Any, ...]]] | None = None


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _seen is not None and event.startswith(WATCHED):
        _seen.append((event, arguments))


@pytest.fixture
def audited() -> Iterator[list[tuple[str, tuple[Any, ...]]]]:
    """Python's audit events of files, processes and sockets since the last call of ``clear``."""
    global _seen
    if not getattr(sys, "_softwalltime_audited", False):
        sys.addaudithook(_audit)
        sys._softwalltime_audited = True  # an audit hook cannot be removed
    _seen = []
    yield _seen
    _seen = None


def test_the_hook_opens_only_its_configuration_and_its_socket(
    audited: list[tuple[str, tuple[Any, ...]]], tmp_path: Path, site: Site
) -> None:
    configuration = tmp_path / "softwalltime_hook.json"
    with Peer(tmp_path) as peer:
        peer.behave(set=300)
        configuration.write_text(json.dumps({"socket": str(peer.socket), "deadline_ms": of_hooks.PATIENT}))
        script = HookScript(HOOK)
        asked = [*events(site)]
        script.run(asked[0], configuration)  # imports happen once
        configuration.touch()
        audited.clear()
        for event in asked:
            outcome = script.run(event, configuration)
            assert outcome.accepted
            assert not outcome.error
        seen = list(audited)
    files = {str(arguments[0]) for name, arguments in seen if name == "open"}
    # What managers gave is kept beside the configuration, where only root can write.
    assert files <= {str(configuration), str(configuration.with_suffix(".kept"))}
    connected = {arguments[1] for name, arguments in seen if name == "socket.connect"}
    assert connected == {str(peer.socket)}
    assert {name for name, _ in seen} <= {"open", "socket.connect", "socket.__new__", "exec", "import", "os.putenv"}


@pytest.fixture
def loading(site: Site, transport: Path, tmp_path: Path) -> Iterator[Callable[[object], str]]:
    """Run the hook with psycopg from this folder; return its log."""
    script = HookScript(HOOK)
    event = queued(Submission("7.pbs1", "alice", 1_795_000_000, 3600), site=site)
    paths = list(sys.path)

    def ask(folder: object) -> str:
        configuration = tmp_path / "softwalltime_hook.json"
        postgres = {"transport_path": str(transport), "dsn": "host=/nowhere", "psycopg_path": folder}
        configuration.write_text(json.dumps({"transport": "postgres", "deadline_ms": 5000, "postgres": postgres}))
        outcome = script.run(event, configuration)
        assert outcome.accepted
        assert not outcome.error
        assert outcome.soft_walltime is None
        said = "\n".join(line for _, line in outcome.log)
        refused = any(text in said for text in ("cannot be loaded", "FileNotFoundError", "SyntaxError"))
        assert [each for each in sys.path if each not in paths] == ([] if refused else [folder])
        sys.path[:] = paths
        return said

    yield ask
    sys.path[:] = paths


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A folder with psycopg that root or the user of this test owns."""
    folder = tmp_path / "lib" / "psycopg_path"
    (folder / "psycopg").mkdir(parents=True)
    (folder / "psycopg" / "__init__.py").touch()
    return folder


def test_psycopg_is_loaded_from_a_folder_that_only_root_can_write(loading: Loading, library: Path) -> None:
    assert "PostgreSQL: " in loading(str(library))


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o1777])
@pytest.mark.parametrize("which", ["", "psycopg", ".."])
def test_psycopg_is_not_loaded_from_a_folder_that_others_can_write(
    loading: Loading, library: Path, which: str, mode: int
) -> None:
    (library / which).resolve().chmod(mode)
    said = loading(str(library))
    if which == ".." and mode & 0o1000:
        # As in /tmp, nobody can replace another user's files in it.
        assert "PostgreSQL: " in said
    else:
        assert f"cannot be loaded: users other than root can change {(library / which).resolve()} " in said


@pytest.mark.skipif(os.geteuid() != 0, reason="files of another owner are made")
@pytest.mark.parametrize("which", ["", "psycopg", "..", "../link"])
def test_psycopg_is_not_loaded_from_another_users_files(loading: Loading, library: Path, which: str) -> None:
    (library.parent / "link").symlink_to(library)
    os.chown(library / which, 65534, 65534, follow_symlinks=False)
    assert "cannot be loaded: users other than root can change " in loading(str(library.parent / "link"))


def test_a_corrected_folder_is_used_at_once(loading: Loading, library: Path) -> None:
    library.chmod(0o777)
    assert f"{library} cannot be loaded: " in loading(str(library))
    library.chmod(0o755)
    assert "PostgreSQL: " in loading(str(library))


@pytest.mark.parametrize("folder", ["lib", "./lib", "../tmp"])
def test_a_relative_folder_is_refused(loading: Loading, folder: object) -> None:
    assert f"{folder!r} cannot be loaded: not an absolute path" in loading(folder)


def test_a_folder_without_psycopg_is_reported(loading: Loading, tmp_path: Path) -> None:
    assert f"No such file or directory: '{tmp_path}/psycopg'" in loading(str(tmp_path))


def test_the_transport_is_loaded_only_from_a_file_that_no_other_user_can_change(
    loading: Loading, library: Path, transport: Path
) -> None:
    folder = transport.parent
    for changed, mode in ((transport, 0o664), (transport, 0o646), (folder, 0o777), (folder, 0o775)):
        before = changed.stat().st_mode
        changed.chmod(mode)
        restart_interpreter()
        assert f"{transport} cannot be loaded: users other than root can change {changed} " in loading(str(library))
        changed.chmod(before)
    assert "PostgreSQL: " in loading(str(library))


@pytest.mark.skipif(os.geteuid() != 0, reason="files of another owner are made")
def test_the_transport_is_not_loaded_from_another_users_file_or_link(
    loading: Loading, library: Path, transport: Path
) -> None:
    os.chown(transport, 1, 65534)
    said = f"{transport} cannot be loaded: users other than root can change "
    assert said in loading(str(library))
    os.chown(transport, 0, 0)
    real = transport.rename(transport.with_suffix(".real"))
    transport.symlink_to(real)
    os.lchown(transport, 65534, 65534)
    assert said in loading(str(library))
    transport.unlink()
    assert "PostgreSQL: FileNotFoundError: " in loading(str(library))
    transport.write_text("an older or half a file")
    transport.chmod(0o644)
    assert "PostgreSQL: SyntaxError: invalid syntax" in loading(str(library))


@pytest.mark.parametrize(("path", "said"), [("", "'' cannot be loaded"), ("lib/x.py", "'lib/x.py' cannot be loaded")])
def test_the_transport_needs_an_absolute_path(path: str, said: str, site: Site, tmp_path: Path) -> None:
    configuration = tmp_path / "softwalltime_hook.json"
    configuration.write_text(json.dumps({"transport": "postgres", "postgres": {"transport_path": path}}))
    outcome = HookScript(HOOK).run(queued(Submission("7.pbs1", "alice", 1_795_000_000, 3600), site=site), configuration)
    assert outcome.accepted
    assert said in outcome.log[0][1]


def test_without_the_transport_nothing_of_it_is_read(
    audited: list[tuple[str, tuple[Any, ...]]], transport: Path, site: Site, tmp_path: Path
) -> None:
    configuration = tmp_path / "softwalltime_hook.json"
    configuration.write_text(json.dumps({"postgres": {"transport_path": str(transport)}}))
    audited.clear()
    HookScript(HOOK).run(queued(Submission("7.pbs1", "alice", 1_795_000_000, 3600), site=site), configuration)
    assert str(transport) not in {str(arguments[0]) for name, arguments in audited if name in ("open", "exec")}


@pytest.mark.parametrize("file", [HOOK, of_hooks.TRANSPORT])
def test_the_hook_imports_nothing_that_starts_processes_or_loads_code(file: Path) -> None:
    tree = ast.parse(file.read_text())
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""])
    }
    assert imported <= STANDARD | {"pbs", "psycopg", "softwalltime_hook_kept"}
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    methods = {function.attr for function in calls if isinstance(function, ast.Attribute)}
    assert not methods & {"system", "popen", "spawn", "fork", "chmod", "chown", "unlink", "remove", "rename", "mkdir"}


def test_texts_of_users_are_neither_executed_nor_paths() -> None:
    """Only values of the configuration and the hook file reach open, connect and exec."""
    tree = ast.parse(HOOK.read_text())
    calls = {
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and (
            ast.unparse(node.func)
            in (
                "open",
                "os.open",
                "exec",
                "eval",
                "compile",
                "__import__",
                "os.stat",
                "os.lstat",
                "self.peer.connect",
                "Connection",
            )
        )
    }
    assert calls == {
        "open(path, 'rb')",
        "open(path)",
        "open(os.open(path + '.new', os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 384), 'w')",
        "os.open(path + '.new', os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 384)",
        "os.stat(path)",
        "os.lstat(place)",
        "exec(_code, _kept.__dict__)",
        "exec(compile(file.read(), path, 'exec'), module.__dict__)",
        "compile(file.read(), path, 'exec')",
        "self.peer.connect(self.path)",
        "Connection(path)",
    }
