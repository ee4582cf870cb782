"""The completion scripts in the shells that they are for: a command, an option, a value, a predictor, a file."""

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from softwalltime.cli import run

PATH = f"{Path(sys.executable).parent}:/usr/bin:/bin"
LINES = [
    ("swt replay-st", "replay-starts"),
    ("swt replay --through", "--through-hooks"),
    ("swt replay --predictor perc", "percentile"),
    ("swt replay --predictors v1,perc", "v1,percentile"),
    ("softwalltime policy set sha", "shadow"),
    ("softwalltime db downg", "downgrade"),
    ("softwalltime replay sto", "store"),
    ("softwalltime replay acc", "accounting/"),
]


@pytest.fixture
def folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A folder with accounting logs and the scripts."""
    (tmp_path / "accounting").mkdir()
    for shell in ("bash", "zsh", "fish"):
        assert run(["completion", shell]) == 0
        (tmp_path / f"script.{shell}").write_text(capsys.readouterr().out)
    return tmp_path


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes(folder: Path) -> None:
    lines = [*(line for line, _ in LINES), "swt replay --predictors"]
    asked = "; ".join(f"complete -C '{line}'; echo ==" for line in lines)
    done = subprocess.run(
        ["fish", "-c", f"source script.fish; {asked}"], cwd=folder, env={"PATH": PATH, "HOME": str(folder)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    *offered, described, _ = done.stdout.split("==\n")
    assert [text.partition("\t")[0].strip() for text in offered] == [expected for _, expected in LINES]
    assert described.startswith("--predictors\tPredictors (default: v1,v2,v3,v4,percentile), separated by commas")


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_completes(folder: Path) -> None:
    with Terminal(["zsh", "-f", "-i"], folder) as zsh:
        # Without -f's quotes the terminal's echo of the command would be taken for its output.
        zsh.type("PS1=; autoload -Uz compinit && compinit -u -D && source ./script.zsh; print rea''dy\n", "ready")
        for line, expected in LINES:
            space = "" if expected.endswith("/") else " "
            zsh.type(f"{line}\t", f"{line.rpartition(' ')[0]} {expected}{space}")
            # Ctrl-U: empty the line.
            zsh.type("\x15print ne''xt\n", "next")


@pytest.mark.parametrize("competing", [False, True])
def test_bash_completes(folder: Path, competing: bool) -> None:
    lines = LINES
    if competing:
        # bash completes either words or files: a file must not become unreachable.
        (folder / "storage").mkdir()
        lines = [("softwalltime replay sto", "storage/")]
    with Terminal(["bash", "--norc", "--noprofile", "-i"], folder) as bash:
        bash.type("PS1=; bind 'set enable-bracketed-paste off'; source ./script.bash; echo rea''dy\n", "ready")
        for line, expected in lines:
            space = "" if expected.endswith("/") else " "
            bash.type(f"{line}\t", f"{line.rpartition(' ')[0]} {expected}{space}")
            bash.type("\x15echo ne''xt\n", "next")


class Terminal:
    """A shell in a terminal of its own."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self._command, self._folder = command, folder

    def __enter__(self) -> "Terminal":
        self._process, self._descriptor = pty.fork()
        if not self._process:
            os.chdir(self._folder)
            settings = {"PATH": PATH, "HOME": str(self._folder), "TERM": "dumb", "COLUMNS": "200"}
            os.execvpe(self._command[0], self._command, settings)
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        os.close(self._descriptor)

    def type(self, keys: str, expected: str) -> None:
        """Type keys, and wait until the text appears."""
        os.write(self._descriptor, keys.encode())
        shown = ""
        deadline = time.monotonic() + 60
        while expected not in re.sub(r"[\r\x07\x08]|\x1b\[[\d;?]*\w", "", shown):
            assert time.monotonic() < deadline, f"{expected!r} is not in {shown!r}"
            if select.select([self._descriptor], [], [], 1)[0]:
                shown += os.read(self._descriptor, 4096).decode(errors="replace")
