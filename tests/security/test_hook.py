"""What the hook, which is root, reads and does: its configuration, the socket, and nothing that a user can write."""

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from softwalltime.replay.emulation import HookScript, Site
from tests.hooks import conftest as of_hooks
from tests.hooks.peer import Peer
from tests.hooks.test_answers import events
from tests.workloads import ROOT

site = of_hooks.site
HOOK = ROOT / "hooks" / "softwalltime_hook.py"
WATCHED = ("open", "os.", "socket.", "subprocess.", "shutil.", "exec", "import", "tempfile.", "ctypes.")
_seen: list[tuple[str, tuple[Any, ...]]] | None = None


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _seen is not None and event.startswith(WATCHED):
        _seen.append((event, arguments))


@pytest.fixture
def audited() -> Iterator[list[tuple[str, tuple[Any, ...]]]]:
    """What Python's own audit tells of files, processes and sockets, from when ``clear`` is called on it."""
    global _seen
    if not getattr(sys, "_softwalltime_audited", False):
        sys.addaudithook(_audit)
        sys._softwalltime_audited = True  # type: ignore[attr-defined]  # an audit hook stays for the life of the process
    _seen = []
    yield _seen
    _seen = None


def test_it_opens_its_configuration_and_its_socket_and_nothing_else(
    audited: list[tuple[str, tuple[Any, ...]]], tmp_path: Path, site: Site
) -> None:
    configuration = tmp_path / "softwalltime_hook.json"
    with Peer(tmp_path) as peer:
        peer.behave(set=300)
        configuration.write_text(json.dumps({"socket": str(peer.socket), "deadline_ms": of_hooks.PATIENT}))
        script = HookScript(HOOK)
        asked = [*events(site)]
        script.run(asked[0], configuration)  # what is imported once is imported
        configuration.touch()
        audited.clear()
        for event in asked:
            outcome = script.run(event, configuration)
            assert outcome.accepted
            assert not outcome.error
        seen = list(audited)
    files = {str(arguments[0]) for name, arguments in seen if name == "open"}
    assert files <= {str(configuration)}
    connected = {arguments[1] for name, arguments in seen if name == "socket.connect"}
    assert connected == {str(peer.socket)}
    assert {name for name, _ in seen} <= {"open", "socket.connect", "socket.__new__", "exec", "import", "os.putenv"}


def test_what_could_start_a_process_or_load_what_lies_around_is_not_in_it() -> None:
    tree = ast.parse(HOOK.read_text())
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""])
    }
    assert imported <= {"contextlib", "json", "os", "pbs", "psycopg", "select", "socket", "sys", "time"}
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    methods = {function.attr for function in calls if isinstance(function, ast.Attribute)}
    assert not methods & {"system", "popen", "spawn", "fork", "chmod", "chown", "unlink", "remove", "rename", "mkdir"}


def test_nothing_that_users_send_is_executed_or_a_path() -> None:
    """The only things that reach open, connect and exec are the configuration's and the file itself."""
    tree = ast.parse(HOOK.read_text())
    calls = {
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and (
            ast.unparse(node.func)
            in ("open", "exec", "eval", "compile", "__import__", "os.stat", "peer.connect", "connected")
        )
    }
    assert calls == {
        "open(path, 'rb')",
        "os.stat(path)",
        "exec(_code, _kept.__dict__)",
        "peer.connect(path)",
        "connected(config['socket'], deadline)",
        "connected(self.config['socket'], self.deadline)",
    }
