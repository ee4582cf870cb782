"""Machines for tests of packages: a missing feature of the host is no failure of the tests."""

from pathlib import Path

import pytest

from tests.deploy import machine as machines
from tests.deploy.debian import MACHINES, namespaces
from tests.deploy.machine import PACKAGES, built_packages, machine


def test_a_failed_start_of_systemd_is_reported_and_cleaned_up(debian: Path) -> None:
    if not namespaces():
        pytest.skip("no namespaces are allowed here")
    with machine(debian) as host:
        program = host.root / "lib/systemd/systemd"
        program.unlink()
        program.write_text("#!/bin/bash\nsleep 1\necho there is no cgroup\nexit 1\n")
        program.chmod(0o755)
        with pytest.raises(AssertionError, match="no systemd could be started: there is no cgroup"):
            host.boot()


def test_packages_are_not_built_with_an_old_system_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PACKAGES, raising=False)
    monkeypatch.setenv(MACHINES, "1")
    for unfit in ("/usr/bin/false", "/nonexistent/python3"):
        monkeypatch.setattr(machines, "PYTHON", unfit)
        with pytest.raises(pytest.skip.Exception, match=r"is not 3\.11 or later"), built_packages():
            pass
