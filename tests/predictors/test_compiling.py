"""What numba compiled is kept for the next process, until a module of the package changes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from softwalltime.predict.predictors.learned.user_jobs import ROW
from tests.samples import ROOT

PROGRAM = """
import numpy as np
from softwalltime.predict.predictors.learned.sequence import present_at
running = np.zeros((20, 1))
present_at(np.ones((20, 1)), 0, 1, -1, 5.0, np.empty(1, np.int64), running)
print(int(running.sum()), end="")
"""


def test_numbers_of_other_modules_are_not_taken_from_an_older_version(tmp_path: Path) -> None:
    shutil.copytree(
        ROOT / "daemon" / "softwalltime", tmp_path / "softwalltime", ignore=shutil.ignore_patterns("__pycache__")
    )
    constants = tmp_path / "softwalltime" / "predict" / "predictors" / "learned" / "user_jobs.py"

    def rows() -> int:
        env = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
        run = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=True)
        return int(run.stdout)

    assert rows() == ROW
    text = constants.read_text()
    assert text.count(f"\nROW = {ROW}\n") == 1
    constants.write_text(text.replace(f"\nROW = {ROW}\n", f"\nROW = {ROW + 1}\n"))
    assert rows() == ROW + 1


def test_a_process_that_may_not_execute_what_it_compiles_says_which_setting_forbids_it() -> None:
    program = """
import ctypes
# prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN): what MemoryDenyWriteExecute of systemd does.
print(ctypes.CDLL(None).prctl(65, 1, 0, 0, 0))
from softwalltime.predict.predictors.registry import make
make("calibrated")
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    if run.stdout == "-1\n":
        pytest.skip("the kernel has no PR_SET_MDWE")
    assert "In the daemon's systemd unit set MemoryDenyWriteExecute=no" in run.stderr.splitlines()[-1]
