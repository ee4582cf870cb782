"""Who may import whom: a module that reaches over a wall fails here."""

import ast
from pathlib import Path

import pytest

from tests.workloads import ROOT

PACKAGE = ROOT / "daemon" / "softwalltime"
FREE = {"jobs", "states", "errors", "words"}
ALLOWED = {
    "states": set(),
    "jobs": {"states"},
    "errors": set(),
    "words": set(),
    "resources": {"errors"},
    "settings": {"errors", "states"},
    "policy": FREE,
    "accounting": FREE,
    "predictors": FREE,
    "store": FREE | {"resources", "settings"},
    "replay": FREE | {"policy", "predictors", "accounting"},
    "simulation": FREE | {"policy", "predictors", "accounting"},
    "service": FREE | {"policy", "predictors", "accounting", "store", "settings"},
    "deployment": FREE | {"accounting", "resources", "service", "settings", "store"},
    "reports": FREE | {"policy", "predictors", "accounting", "replay", "simulation", "service"},
}
# The command line stands on top of everything.
MODULES = sorted(PACKAGE.rglob("*.py"))


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    """The rooms that a module imports from, also inside its functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("softwalltime.")}
    return found - {"__version__"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_only_what_its_room_may(path: Path) -> None:
    here = room(path)
    if here in ("cli", "__init__", "__main__"):
        return
    assert here in ALLOWED, f"{here} is a new room: say in this test what it may import"
    assert imports(path) - {here} <= ALLOWED[here]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 400
