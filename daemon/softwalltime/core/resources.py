"""Locate files outside the package (deploy/, hooks/, migrations/, sql/), in the wheel or in the checkout."""

from pathlib import Path

from softwalltime.core.errors import SoftwalltimeError

_PACKAGE = Path(__file__).resolve().parents[1]


def hook() -> Path:
    return _find("hooks") / "softwalltime_hook.py"


def hook_transport() -> Path:
    """The file that the hook loads for the transport postgres."""
    return _find("hooks") / "softwalltime_postgres.py"


def migrations() -> Path:
    return _find("migrations")


def sql() -> Path:
    return _find("sql")


def deploy() -> Path:
    """The folder of systemd units, settings, dashboards, alerts and SQL of roles."""
    return _find("deploy")


def _find(name: str) -> Path:
    # A checkout holds the package in daemon/softwalltime; a wheel holds copies of the folders inside the package.
    for folder in (_PACKAGE / "_resources" / name, _PACKAGE.parents[1] / name):
        if folder.is_dir():
            return folder
    raise SoftwalltimeError(f"the folder {name}/ is missing from the installation in {_PACKAGE}: install it again")
