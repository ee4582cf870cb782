"""Walltimes by queue for logs without walltimes."""

import json
from pathlib import Path

import pytest

from softwalltime.accounting.queue_limits import read_queue_limits
from softwalltime.cli import run
from softwalltime.core.errors import SourceError, UsageError


def test_limits_are_pairs_or_a_file_of_them(tmp_path: Path) -> None:
    file = tmp_path / "limits"
    file.write_text("# queues of 2026\n\nshort = 1:00:00\nlong=48:00:00  # two days\n*=10\n")
    assert read_queue_limits(str(file)) == {"short": 3600, "long": 172_800, "*": 10}
    assert read_queue_limits("short=1:00:00, long=2:00:00:00") == {"short": 3600, "long": 172_800}


@pytest.mark.parametrize("text", ["short=soon", "=1:00:00", "short=1:00:00,short=2:00:00", "short=1:00,", "a=0"])
def test_malformed_limits_are_rejected(text: str) -> None:
    with pytest.raises(UsageError, match="queue limits: "):
        read_queue_limits(text)


def test_a_file_that_cannot_be_read_or_is_empty_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="No such file"):
        read_queue_limits(str(tmp_path / "missing"))
    (tmp_path / "empty").touch()
    with pytest.raises(UsageError, match="no line of the form"):
        read_queue_limits(str(tmp_path / "empty"))


def test_replay_reports_that_a_log_without_walltimes_cannot_be_scored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "metacentrum.swf"
    trace.write_text(
        "".join(
            f"{n} {n * 50} 0 60 1 -1 -1 1 -1 -1 1 u 1 1 1 -1 -1 -1 -1 {'short' if n % 2 else 'q'}\n" for n in range(40)
        )
    )
    assert run(["replay", str(trace), "--predictors", "v1"]) == 0
    captured = capsys.readouterr()
    assert "40 jobs, 0 scored" in captured.out
    assert captured.err == (
        "No job can be scored, because none that ran has a walltime.  Give the limits of the queues: "
        "--walltime-from q=HH:MM:SS,short=HH:MM:SS\n"
    )
    assert run(["replay", str(trace), "--predictors", "v1", "--walltime-from", "short=2:00", "--format", "json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["scored"] == 20
    assert captured.err == ""
    assert run(["replay", str(trace), "--walltime-from", "short"]) == 2
    assert "short: No such file or directory" in capsys.readouterr().err
