"""What numba compiled is kept for the next process, until a module of the package changes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from softwalltime.predictors.learned.user_jobs import ROW
from tests.samples import ROOT

PROGRAM = """
import numpy as np
from softwalltime.predictors.learned.attention import compiled
running = np.zeros((20, 1))
compiled("present_at")(np.ones((20, 1)), 0, 1, -1, 5.0, np.empty(1, np.int64), running)
print(int(running.sum()), end="")
"""


def test_numbers_of_other_modules_are_not_taken_from_an_older_version(tmp_path: Path) -> None:
    pytest.importorskip("numba", reason="the extra fast is not installed")
    shutil.copytree(
        ROOT / "daemon" / "softwalltime", tmp_path / "softwalltime", ignore=shutil.ignore_patterns("__pycache__")
    )
    constants = tmp_path / "softwalltime" / "predictors" / "learned" / "user_jobs.py"

    def rows() -> int:
        env = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
        run = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=True)
        return int(run.stdout)

    assert rows() == ROW
    text = constants.read_text()
    assert text.count(f"\nROW = {ROW}\n") == 1
    constants.write_text(text.replace(f"\nROW = {ROW}\n", f"\nROW = {ROW + 1}\n"))
    assert rows() == ROW + 1
