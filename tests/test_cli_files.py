"""``softwalltime files``: the files for an installation, from the wheel or the checkout."""

from pathlib import Path

import pytest

from softwalltime.cli import run
from tests.samples import ROOT


def test_the_files_are_listed_and_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["files"]) == 0
    names = capsys.readouterr().out.split()
    assert {"softwalltime.toml", "systemd/softwalltime.service", "grafana/softwalltime.json"} <= set(names)
    for name in names:
        assert run(["files", name]) == 0
        assert capsys.readouterr().out == (ROOT / "deploy" / name).read_text()


def test_the_files_are_copied_and_never_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["files", "--copy-to", str(tmp_path)]) == 0
    assert (tmp_path / "sql/roles.sql").read_bytes() == (ROOT / "deploy/sql/roles.sql").read_bytes()
    (tmp_path / "softwalltime.toml").write_text("dsn = 'ours'\n")
    capsys.readouterr()
    assert run(["files", "softwalltime.toml", "--copy-to", str(tmp_path)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert (tmp_path / "softwalltime.toml").read_text() == "dsn = 'ours'\n"


@pytest.mark.parametrize("name", ["nothing", "../pyproject.toml", "/etc/passwd"])
def test_another_file_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["files", name]) == 2
    assert "no file is called" in capsys.readouterr().err


def test_a_folder_that_cannot_be_looked_into_gets_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["files", "--copy-to", 300 * "x"]) == 2
    err = capsys.readouterr().err
    assert "cannot be written: File name too long" in err
    assert err.count("\n") == 1
