"""What all tests share: fixtures by concern, in files of their own, and independence of the machine's own settings."""

import os
from pathlib import Path

import pytest

from softwalltime import settings

pytest_plugins = ("tests.fix_postgres",)


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests must not use, or fill, the store of a machine on which the daemon runs."""
    monkeypatch.setattr(settings, "SYSTEM_FILE", Path("/nonexistent/softwalltime.toml"))
    for name in [name for name in os.environ if name.startswith("SOFTWALLTIME_") and "_TEST_" not in name]:
        monkeypatch.delenv(name)
