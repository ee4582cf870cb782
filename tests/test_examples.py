"""The first example in the help of each command works in the demo's folder."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import click
import pytest

from softwalltime.cli import cli, run
from softwalltime.cli.man import STATUSES, pages
from softwalltime.deployment import qmgr
from tests.samples import ROOT
from tests.service.running import PATIENT, until
from tests.test_cli import commands

NEEDS_PBS = {"install", "uninstall", "policy set", "snapshot", "collect", "starts", "what-if", "me", "doctor"}
"""Commands whose example needs a PBS server; without one it ends with one clear line, doctor with its findings."""
NEEDS_A_TRACE = {"convert"}
NEEDS_A_PLAN = {"verify"}
NEEDS_PYTORCH = {"train"}
"""Commands that without PyTorch, which is an extra, end with one line that says what to install."""
SERVER = {"status", "explain"}
"""Commands that ask the daemon of the demo's folder."""
LAST = ("serve", "web", *SERVER, "db downgrade")


def example(command: tuple[str, ...]) -> list[str]:
    """The words of a command's first example."""
    found: click.Command = cli
    for name in command:
        assert isinstance(found, click.Group)
        found = found.commands[name]
    match = re.search(r"Example:\n +softwalltime (.*)", found.help or "")
    assert match is not None
    words = shlex.split(match[1].partition(" > ")[0])
    assert tuple(words[: len(command)]) == command or isinstance(found, click.Group)
    return words


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's folder, with fewer jobs."""
    folder = tmp_path_factory.mktemp("demo")
    assert run(["generate", str(folder / "accounting"), "--jobs", "250", "--seed", "1"]) == 0
    return folder


@pytest.fixture
def inside(demo: Path, database: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The demo's folder as the current one, with a test's own PostgreSQL, and no PBS."""
    settings = (ROOT / "deploy" / "demo.toml").read_text()
    assert 'data_dir = "data"' in settings
    (demo / "softwalltime.toml").write_text(settings.replace('data_dir = "data"', f'dsn = "{database}"'))
    monkeypatch.chdir(demo)
    monkeypatch.setattr(qmgr, "USUAL", Path("/nonexistent"))
    monkeypatch.setenv("PBS_CONF_FILE", str(demo / "none"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    # Variables for tests are no settings: config check would name them.
    for variable in [name for name in os.environ if name.startswith("SOFTWALLTIME_")]:
        monkeypatch.delenv(variable)
    return demo


ALONE = [path for path in commands() if " ".join(path) not in (*LAST, *NEEDS_A_TRACE, *NEEDS_A_PLAN)]


@pytest.mark.postgres
@pytest.mark.parametrize("command", ALONE, ids=" ".join)
def test_the_example_of_a_command_works(
    command: tuple[str, ...], inside: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    status = run(example(command))
    captured = capsys.readouterr()
    if " ".join(command) in NEEDS_PBS:
        assert captured.out or captured.err.count("\n") == 1
    elif " ".join(command) in NEEDS_PYTORCH and find_spec("torch") is None:
        assert (status, captured.err.count("\n")) == (1, 1)
        assert "torch is missing: run pip install" in captured.err
    else:
        assert (status, captured.err if status else "") == (0, "")
        assert captured.out
    assert "Traceback" not in captured.err


@pytest.mark.postgres
def test_the_examples_about_the_daemon_work_while_it_runs(inside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(example(("ingest",))) == 0
    command = [sys.executable, "-m", "softwalltime", *example(("serve",))]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as daemon:
        try:
            until(lambda: (inside / "hook.sock").exists() and run(example(("status",))) == 0)
            for name in sorted(SERVER):
                capsys.readouterr()
                assert run(example((name,))) == 0, name
                assert capsys.readouterr().out
        finally:
            daemon.terminate()
        assert daemon.wait(PATIENT) == 0
    assert run(example(("db", "downgrade"))) == 0


@pytest.mark.postgres
def test_the_example_of_the_pages_serves_them_until_it_is_stopped(inside: Path) -> None:
    with subprocess.Popen([sys.executable, "-m", "softwalltime", *example(("web",))]) as server:
        until((inside / "web.sock").exists)
        server.terminate()
        assert server.wait(PATIENT) == 0


def test_the_other_examples_are_of_commands_that_need_more() -> None:
    names = {" ".join(path) for path in commands()}
    assert {*LAST, *NEEDS_PBS, *NEEDS_A_TRACE, *NEEDS_A_PLAN, *NEEDS_PYTORCH} <= names
    help_text = " ".join((cli.help or "").split())
    assert (
        "those of install, uninstall, policy set, snapshot, site, collect, starts, what-if and me on a host with PBS"
        in help_text
    )


def test_manual_pages_are_of_all_commands_and_have_their_options() -> None:
    found = dict(pages(cli))
    names = {f"softwalltime-{'-'.join(path)}.1" for path in commands()}
    assert set(found) == names | {"softwalltime.1", "swt.1", "softwalltime.toml.5"}
    replay = found["softwalltime-replay.1"]
    assert ".SH NAME\nsoftwalltime\\-replay \\- Measure predictors on recorded jobs\n" in replay
    for text in ("\\fB\\-\\-walltime\\-from PAIRS|FILE\\fR", ".SH EXAMPLES\n.nf\nsoftwalltime replay accounting\n"):
        assert text in replay
    for setting in ("keep_days", "preset", "alters_per_minute", "shows_per_minute"):
        assert f"\\fB{setting}\\fR" in found["softwalltime.toml.5"]
    assert not [
        name for name, text in found.items() if re.search(r"^['.](?!SH|TP|TH|PP|B |nh|ad|nf|fi|so)", text, re.M)
    ]


def test_defaults_in_the_manual_page_of_the_settings_are_as_in_a_settings_file() -> None:
    page = dict(pages(cli))["softwalltime.toml.5"]
    assert "Default: finished, failed, walltime exceeded," in page
    assert not re.findall(r"Default: \.|True|False|None|[<>(]'?State", page)


@pytest.mark.skipif(shutil.which("mandoc") is None, reason="mandoc is not installed")
def test_manual_pages_have_no_errors(tmp_path: Path) -> None:
    for name, text in pages(cli):
        if name != "swt.1":
            (tmp_path / name).write_text(text)
    lint = ["mandoc", "-T", "lint", "-W", "warning", *sorted(map(str, tmp_path.iterdir()))]
    found = subprocess.run(lint, capture_output=True, text=True, check=False).stdout.splitlines()
    # The pages have no date: the header shows the version.
    assert [line for line in found if "missing date" not in line] == []


def test_manual_pages_and_readme_have_the_same_exit_statuses() -> None:
    rows = re.findall(r"^\| (\d) \| (.*) \|$", (ROOT / "README.md").read_text(), re.MULTILINE)

    def words(text: str) -> list[str]:
        return re.findall(r"[a-z]+", text.lower())

    assert [(int(status), words(text)) for status, text in rows] == [(status, words(text)) for status, text in STATUSES]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_complete_both_names(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"_SOFTWALLTIME_COMPLETE={shell}_complete" in script
    assert re.search(r"\bswt\b", script)


def completed(*words: str) -> Iterator[str]:
    """What bash offers after these words, with the printed script."""
    line = " ".join(words)
    script = (
        'eval "$(softwalltime completion bash)"\n'
        f"COMP_WORDS=({line} '')\nCOMP_CWORD={len(words)}\n_softwalltime_completion swt\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, env=environment)
    yield from done.stdout.split()


def test_bash_completes_commands_and_values() -> None:
    assert {"replay", "explain", "config"} <= set(completed("swt"))
    assert set(completed("swt", "config")) == {"check", "show"}
    assert list(completed("swt", "starts", "--format")) == ["table", "json", "csv"]
