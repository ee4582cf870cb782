"""Statuses of a real daemon with changes, for tests of their readers."""

import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from softwalltime.core.settings import Settings
from softwalltime.predict.policy.site import SitePolicy
from softwalltime.service.daemon import PredictionDaemon
from softwalltime.service.status import Status


@cache
def new_status() -> Status:
    """Return the status of a daemon before its start."""
    with tempfile.TemporaryDirectory() as folder:
        daemon = PredictionDaemon(Settings(socket=Path(folder) / "s"), SitePolicy(mode="on"), "1")
        try:
            return daemon.status()
        finally:
            daemon.server.close()


def working_status(**changes: Any) -> Status:
    """Return the status of a daemon that has loaded its history and follows a log."""
    return replace(
        new_status(), **{"ready": True, "store": "ok", "accounting": "ok", "logs_read": True, **changes}
    )  # fmt: skip
