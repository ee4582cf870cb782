"""Exit statuses: 0, 1 and 2, as the table in README.md has them, for every command."""

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from softwalltime.cli import run
from softwalltime.core import errors
from tests.samples import RECORDED_LOG, ROOT
from tests.service.running import PATIENT
from tests.test_cli import commands

LOG = str(RECORDED_LOG)
NO_STORE = ("--dsn", "postgresql://127.0.0.1:1/none")
NO_DAEMON = ("--socket", "/nowhere/hook.sock")
FAILING = {
    "replay": ("replay", "store", *NO_STORE),
    "report": ("report", "store", "-o", "/tmp/softwalltime-never-written.html", *NO_STORE),
    "sweep": ("sweep", "store", "-o", "/tmp/softwalltime-never-written.csv", *NO_STORE),
    "ingest": ("ingest", LOG, *NO_STORE),
    "status": ("status", *NO_DAEMON),
    "me": ("me", *NO_DAEMON),
    "explain": ("explain", "--user", "alice", "--walltime", "60", *NO_DAEMON),
    "db upgrade": ("db", "upgrade", *NO_STORE),
    "db check": ("db", "check", *NO_STORE),
    "db prune": ("db", "prune", *NO_STORE),
    "db reindex": ("db", "reindex", *NO_STORE),
    "db downgrade": ("db", "downgrade", "0001", *NO_STORE),
}
"""A call of each command that needs a store or a daemon, with none there."""


@pytest.mark.parametrize("command", list(commands()), ids=" ".join)
def test_wrong_use_of_a_command_exits_with_2(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command, "--no-such-option"]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)


@pytest.mark.parametrize("command", list(commands()), ids=" ".join)
def test_help_exits_with_0(command: tuple[str, ...]) -> None:
    assert run([*command, "--help"]) == 0


@pytest.mark.parametrize("arguments", FAILING.values(), ids=FAILING.keys())
def test_a_missing_store_or_daemon_exits_with_1(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(list(arguments)) == 1
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)


def test_the_readme_has_one_table_of_them() -> None:
    readme = (ROOT / "README.md").read_text()
    table = readme.split("\n## Exit statuses\n")[1].split("\n## ")[0]
    assert re.findall(r"^\| (\d+) \|", table, re.MULTILINE) == ["0", "1", "2"]


def subclasses(root: type) -> Iterator[type]:
    for each in root.__subclasses__():
        yield each
        yield from subclasses(each)


def test_every_error_has_exit_status_1_or_2() -> None:
    assert {error.exit_status for error in subclasses(errors.SoftwalltimeError)} == {1, 2}
    assert {error.exit_code for error in (click.ClickException, *subclasses(click.ClickException))} == {1, 2}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "softwalltime", *arguments]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_a_signal_ends_exits_with_1(number: signal.Signals) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        dsn = f"postgresql://127.0.0.1:{silent.getsockname()[1]}/none"
        with subprocess.Popen(command("db", "check", "--dsn", dsn), stderr=subprocess.PIPE, text=True) as process:
            silent.settimeout(PATIENT)
            connection, _ = silent.accept()
            process.send_signal(number)
            _, error = process.communicate(timeout=PATIENT)
            connection.close()
    assert process.returncode == 1
    assert error.strip() == "softwalltime: interrupted"


@pytest.mark.parametrize("service", [["serve"], ["ingest", "--follow", "."]])
def test_a_service_that_is_stopped_while_it_starts_has_not_failed(service: list[str]) -> None:
    signalled = (
        "import os, signal, sys; from softwalltime.core import settings; from softwalltime.cli import main; "
        "settings.load_settings = lambda *_, **__: os.kill(os.getpid(), signal.SIGTERM); main(sys.argv[1:])"
    )
    done = subprocess.run([sys.executable, "-c", signalled, *service], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_before_its_command_is_loaded_a_process_dies_of_the_signal() -> None:
    signalled = (
        "import os, signal; from softwalltime.cli import LazyGroup, main; "
        "LazyGroup.get_command = lambda *_: os.kill(os.getpid(), signal.SIGTERM); main(['serve'])"
    )
    done = subprocess.run([sys.executable, "-c", signalled], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGTERM, "", "")


def test_a_service_stops_though_a_library_swallowed_the_interruption() -> None:
    swallowed = (
        "import os, signal\nfrom softwalltime.cli.interruption import Interruption, handle_signals\n"
        "handle_signals(); stopping = Interruption(); print(stopping.is_set())\n"
        "try: os.kill(os.getpid(), signal.SIGTERM)\nexcept KeyboardInterrupt: print(stopping.is_set())"
    )
    done = subprocess.run([sys.executable, "-c", swallowed], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_an_ignored_sighup_stays_ignored() -> None:
    check = (
        "import os, signal; from softwalltime.cli.interruption import handle_signals; handle_signals(); "
        "os.kill(os.getpid(), signal.SIGHUP); print('still running')"
    )
    done = subprocess.run(["nohup", sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout == "still running\n"


def test_a_reader_that_stops_reading_costs_no_traceback() -> None:
    with subprocess.Popen(command("predictors"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        error = process.stderr.read()
    assert (process.returncode, error) == (1, "")
