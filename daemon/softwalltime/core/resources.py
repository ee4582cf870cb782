"""Locate files outside the package (deploy/, hooks/, migrations/, sql/), in the wheel or in the checkout."""

from pathlib import Path

from softwalltime.core.errors import SoftwalltimeError

_PACKAGE = Path(__file__).resolve().parents[1]


def hook() -> Path:
    return folder("hooks") / "softwalltime_hook.py"


def hook_transport() -> Path:
    """The file that the hook loads for the transport postgres."""
    return folder("hooks") / "softwalltime_postgres.py"


def folder(name: str) -> Path:
    """Return the folder deploy, hooks, migrations or sql."""
    # A checkout holds the package in daemon/softwalltime; a wheel holds copies of the folders inside the package.
    for place in (_PACKAGE / "_resources" / name, _PACKAGE.parents[1] / name):
        if place.is_dir():
            return place
    raise SoftwalltimeError(f"the folder {name}/ is missing from the installation in {_PACKAGE}: install it again")
