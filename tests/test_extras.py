"""The installation without extras runs the daemon; a command that needs numpy or jinja2 says what to install."""

import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

from softwalltime.core.extras import EXTRAS
from tests.samples import RECORDED_LOG, ROOT

WITHOUT_EXTRAS = """
import sys
from importlib.abc import MetaPathFinder

class Blocked(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {packages!r} or name in {packages!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
"""
DAEMON = """
from softwalltime.cli import cli, daemon, doctor, install, policy, store
from softwalltime.deployment import doctor as checks
from softwalltime.predict.policy.site import site_policy
from softwalltime.service import daemon as service, live_values
for name in ("shadow", "safe", "order"):
    site_policy({"preset": name})
from softwalltime.predict.policy.presets import PRESETS
from softwalltime.predict.predictors import registry
print(*sorted(entry.name for entry in registry.entries() if entry.problem))
print(next(entry.problem for entry in registry.entries() if entry.name == "calibrated"))
"""


def without_extras(code: str, *arguments: str, more: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process in which the packages of the extras, and more modules, are not there."""
    blocked = WITHOUT_EXTRAS.format(packages=[*sorted(EXTRAS.keys() - {"markupsafe"}), "scipy", *more])
    return subprocess.run(
        [sys.executable, "-c", blocked + textwrap.dedent(code), *arguments], capture_output=True, text=True, check=False
    )


def softwalltime(*arguments: str) -> subprocess.CompletedProcess[str]:
    return without_extras("from softwalltime.cli import main; main()", *arguments)


def test_the_daemon_and_the_presets_need_no_extra() -> None:
    done = without_extras(DAEMON)
    assert done.returncode == 0, done.stderr
    unusable, problem = done.stdout.splitlines()
    assert unusable == "adaboost calibrated gaussier random-forest svr trip"
    assert "pip install 'pbs-softwalltime[measure]'" in problem


@pytest.mark.parametrize(
    "command", ["serve", "ingest", "db", "convert", "status", "doctor", "install", "files", "snapshot", "policy"]
)
def test_an_administrators_command_needs_no_extra(command: str) -> None:
    done = softwalltime(command, "--help")
    assert done.returncode == 0, done.stderr


def test_a_table_in_a_terminal_needs_no_extra() -> None:
    done = without_extras("""
        from softwalltime.cli.output import Output
        from softwalltime.core.text_table import TextColumn, TextTable
        Output(terminal=True, color=True).table(TextTable.of([TextColumn("accuracy")], [["0.5"]]))
    """)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "\x1b[1maccuracy\x1b[0m\n────────\n     0.5\n"


@pytest.mark.parametrize("wanted", ["", "python", "c"])
def test_without_libpq_a_command_says_what_to_install(wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PSYCOPG_IMPL", wanted)
    drivers = ("psycopg_binary", "psycopg_c", "psycopg.pq.pq_ctypes")
    done = without_extras(
        "from softwalltime.cli import main; main()", "db", "check", "--dsn", "dbname=none", more=drivers
    )
    assert (done.returncode, done.stdout) == (1, "")
    problem = "libpq is missing: install libpq5 (Debian) or libpq (RHEL)"
    if wanted == "c":
        problem = "psycopg cannot be loaded as PSYCOPG_IMPL asks: unset it"
    assert done.stderr == f"softwalltime: {problem}, or run pip install 'pbs-softwalltime[binary]'\n"


@pytest.mark.parametrize(
    "command",
    ["replay LOG", "report LOG -o PAGE", "simulate LOG", "sweep LOG -o PAGE.csv", "advise alice --log LOG"],
)
def test_a_command_that_needs_an_extra_says_in_one_line_what_to_install(command: str, tmp_path: Path) -> None:
    done = softwalltime(*command.replace("LOG", str(RECORDED_LOG)).replace("PAGE", str(tmp_path / "page")).split())
    assert done.returncode == 1
    assert done.stdout == ""
    # The page of a report imports its templates first.
    missing = "jinja2" if command.startswith("report") else "numpy"
    assert done.stderr == (
        f"softwalltime: {missing} is missing: "
        "run pip install 'pbs-softwalltime[report]', or install pbs-softwalltime-report\n"
    )


def test_the_pages_say_which_extra_to_install(tmp_path: Path) -> None:
    done = softwalltime("web", "--socket", str(tmp_path / "web.sock"))
    said = "softwalltime: waitress is missing: run pip install 'pbs-softwalltime[web]'\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)


def test_every_package_is_in_the_extra_that_the_message_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for package, extra in EXTRAS.items():
        named = project["optional-dependencies"][extra]
        assert any(requirement.startswith(f"{package}>=") for requirement in named), package
        assert not any(requirement.startswith(package) for requirement in project["dependencies"]), package
    assert "pbs-softwalltime[measure]" in project["optional-dependencies"]["report"]


def test_a_slack_says_what_to_install() -> None:
    done = without_extras("""
        from softwalltime.service.live.live_options import inert, read_policy
        print(inert(*read_policy({"preset": "balanced"}, {"mode": "on", "slack": 60})))
    """)
    assert done.returncode == 0, done.stderr
    assert "slack in [live] has no effect: numpy is missing: run pip install 'pbs-softwalltime[measure]'" in done.stdout
