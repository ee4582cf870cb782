"""A command that root types in a folder in which others can write runs no code of theirs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(sys.executable).with_name("softwalltime")
"""The installed command: Python's own ``-m`` would import from the working directory by itself."""
PLANTED = "open('ran', 'a').write('planted')\nraise SystemExit\n"


@pytest.mark.skipif(not PROGRAM.exists(), reason=f"no {PROGRAM}: the package is not installed")
def test_the_agent_of_snapshot_imports_no_module_of_the_working_directory(tmp_path: Path) -> None:
    for name in ("json", "socket", "softwalltime"):
        (tmp_path / f"{name}.py").write_text(PLANTED)
    (tmp_path / "pbs.conf").write_text(f"PBS_EXEC={tmp_path}\n")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    done = subprocess.run(
        [PROGRAM, "snapshot"], cwd=tmp_path, env=environment | {"PBS_CONF_FILE": str(tmp_path / "pbs.conf")},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert not (tmp_path / "ran").exists()
    assert "no libpbs.so" in done.stderr
