"""What all tests share: fixtures by concern, in files of their own, and independence of the machine's own settings."""

import gc
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest
from hypothesis import HealthCheck

from softwalltime.core import settings
from softwalltime.emulation.pbs.hook_runner import restart_interpreter

pytest_plugins = ("tests.fix_postgres",)

# The same examples in each run, however slowly they come, so that nothing fails by luck.  New ones are met with
# --hypothesis-profile=explore; what fails then belongs into an @example.  A fixture that is made once for all examples
# is what our tests want.
unhurried = hypothesis.settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
hypothesis.settings.register_profile("explore", unhurried, print_blob=True)
hypothesis.settings.register_profile("suite", unhurried, derandomize=True)
hypothesis.settings.load_profile("suite")

# A shell without job control lets what it starts in the background ignore Ctrl-C, and so would all that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Under nohup the same holds for SIGHUP.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


MADE_ONCE = {"packages", "debian", "bootable"}
"""Fixtures that take minutes, or change a folder of the machine: the tests that use them run in one process."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return one more than there are cores: tests that wait for a process or a timeout leave a core idle."""
    return len(os.sched_getaffinity(0)) + 1


@pytest.hookimpl(tryfirst=True)  # before the hook of pytest-xdist, which reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where tests run in several processes, keep a file's tests together."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group(item)))


def _group(item: pytest.Item) -> str:
    return "machines" if MADE_ONCE.intersection(getattr(item, "fixturenames", ())) else str(item.path)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fail where pytest-xdist does not see the groups: two processes would each make every fixture of a file."""
    # All modules and tests stay until the end: garbage collection need not visit them.
    gc.freeze()
    grouped = getattr(session.config.option, "loadgroup", False)
    if grouped and not all(item.nodeid.endswith(f"@{_group(item)}") for item in session.items):
        raise pytest.UsageError("pytest-xdist does not see the groups of tests/conftest.py; pytest 9.1 does")


@pytest.fixture(autouse=True)
def _new_interpreter() -> Iterator[None]:
    """The hook keeps functions, a connection and what it has read between its runs, but not for another test."""
    yield
    restart_interpreter()


@pytest.fixture(autouse=True)
def no_pbs_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests must not find a PBS that is installed here, but for those of tests/acceptance."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    without_pbs = [folder for folder in folders if not (Path(folder) / "qmgr").exists()]
    monkeypatch.setenv("PATH", os.pathsep.join(without_pbs))
    monkeypatch.setenv("PBS_CONF_FILE", "/nonexistent/pbs.conf")


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests must not use, or fill, the store of a machine on which the daemon runs."""
    monkeypatch.setattr(settings, "SYSTEM_FILE", Path("/nonexistent/softwalltime.toml"))
    for name in [name for name in os.environ if name.startswith("SOFTWALLTIME_") and "_TEST_" not in name]:
        monkeypatch.delenv(name)


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Change the local time zone for this test."""

    def change(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield change
    monkeypatch.undo()
    time.tzset()
