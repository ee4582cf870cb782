"""The hook file runs on Python 3.6, the oldest interpreter that a pbs_server embeds."""

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.hooks.conftest import HASTY, HOOK, PATIENT, TRANSPORT
from tests.hooks.peer import Peer

LINES = 864
"""Of the hook, which PBS's server runs while all wait."""
STANDARD = {"contextlib", "json", "os", "re", "select", "socket", "sys", "time"}

STUB = '''
"""As much of pbs as one run at postqueuejob needs; accept() ends the hook, as PBS's does."""
import sys, types

class Job(object):
    id, queue, queue_type, euser, egroup, Job_Name, ctime = "7.pbs1", "short", 1, "alice", "staff", "x", 5
    Resource_List = {"walltime": 3600, "soft_walltime": None, "min_walltime": None, "select": "1:ncpus=1"}

class Event(object):
    type, requestor, job = 134217728, "root", Job()
    def accept(self):
        raise SystemExit("0")

pbs = types.ModuleType("pbs")
pbs.QUEUEJOB, pbs.MODIFYJOB, pbs.RUNJOB, pbs.POSTQUEUEJOB, pbs.QTYPE_EXECUTION = 1, 2, 16, 134217728, 1
pbs.EVENT_DEBUG2, pbs.LOG_WARNING = 256, 6
pbs.hook_config_filename = sys.argv[2]
pbs.duration = int
pbs.event = Event
pbs.logmsg = lambda level, message: print(level, message)
sys.modules["pbs"] = pbs
code = compile(open(sys.argv[1]).read(), sys.argv[1], "exec")
try:
    exec(code, {"__builtins__": __builtins__.__dict__})
except SystemExit as end:
    print("accepted", end)
print("soft_walltime", Job.Resource_List["soft_walltime"])
'''


def old_python() -> str:
    """A Python 3.6 interpreter from the path or from pyenv."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [shutil.which("python3.6")]
    with suppress(PermissionError):  # where they are another user's
        candidates += map(str, versions.glob("3.6.*/bin/python"))
    for candidate in candidates:
        # The path may have a shim of pyenv without an installed version.
        if candidate and subprocess.run([candidate, "-c", ""], capture_output=True, check=False).returncode == 0:
            return candidate
    pytest.skip("no Python 3.6 here")


@pytest.mark.parametrize("file", [HOOK, TRANSPORT])
def test_the_syntax_is_python_3_6(file: Path) -> None:
    ast.parse(file.read_text(), feature_version=(3, 6))


@pytest.mark.parametrize(
    ("file", "standard", "others"),
    [(HOOK, STANDARD, {"pbs"}), (TRANSPORT, {"os", "select", "sys"}, {"psycopg", "softwalltime_hook_kept"})],
)
def test_only_the_standard_library_is_imported(file: Path, standard: set[str], others: set[str]) -> None:
    """Exceptions are the module of PBS, and psycopg and the hook for the transport postgres."""
    imported = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])
    assert imported == standard | others
    assert sys.stdlib_module_names >= standard


def test_the_hook_can_be_read_in_one_sitting() -> None:
    assert len(HOOK.read_text().splitlines()) <= LINES


def test_importing_the_hook_has_no_effect() -> None:
    done = subprocess.run(
        [old_python(), "-c", f"import sys; sys.path.insert(0, {str(HOOK.parent)!r}); import softwalltime_hook"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize(
    ("behaviour", "soft_walltime", "said"),
    [
        ({"set": 600}, "600", "set 600 of 3600"),
        ({"raw": "nonsense\n"}, "None", "no answer: invalid answer"),
        ({"hang": True}, "None", "no answer: timed out"),
        ({"close": True}, "None", "no answer: "),
    ],
)
def test_the_hook_requests_and_sets_on_python_3_6(
    behaviour: dict[str, object],
    soft_walltime: str,
    said: str,
    peer: Peer,
    configured: Callable[..., Path],
    tmp_path: Path,
) -> None:
    peer.behave(**behaviour)
    stub = tmp_path / "stub.py"
    stub.write_text(STUB)
    configuration = configured(socket=str(peer.socket), deadline_ms=HASTY if "hang" in behaviour else PATIENT)
    done = subprocess.run(
        [old_python(), str(stub), str(HOOK), str(configuration)], capture_output=True, text=True, check=True
    )
    assert said in done.stdout
    assert "accepted 0" in done.stdout
    assert f"soft_walltime {soft_walltime}\n" in done.stdout
    # A hanging peer may read the request after the hook has ended.
    if "hang" not in behaviour:
        assert [request["job"]["user"] for request in peer.asked()] == ([] if "close" in behaviour else ["alice"])
