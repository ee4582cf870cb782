"""Fixtures for tests that follow a log: the log and a clock."""

import shutil
from pathlib import Path

import pytest

from tests.samples import RECORDED_LOG
from tests.service.log_helpers import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An accounting folder with the recorded log in it."""
    folder = tmp_path / "accounting"
    folder.mkdir()
    shutil.copy(RECORDED_LOG, folder / "20261120")
    return folder
