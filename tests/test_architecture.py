"""Who may import whom: a module that reaches over a wall fails here."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.samples import ROOT

PACKAGE = ROOT / "daemon" / "softwalltime"
ALLOWED = {
    "states": set(),
    "errors": set(),
    "extras": set(),
    "formatting": set(),
    "text_table": set(),
    "pbs_conf": set(),
    "quantiles": set(),
    "shorter_walltimes": {"formatting"},
    "progress": set(),
    "promises": set(),
    "reasons": set(),
    "jobs": {"quantiles", "reasons", "states"},
    "events": {"jobs"},
    "drive": {"events", "jobs", "predictors", "reasons"},
    "resources": {"errors"},
    "validation": {"errors"},
    "written": {"errors", "formatting"},
    "settings": {"errors", "states", "validation"},
    "accounting": {"errors", "jobs"},
    "api": {"accounting", "errors", "jobs", "policy", "predictors", "replay", "simulation", "workloads"},
    "predictors": {"errors", "events", "extras", "jobs", "quantiles", "reasons"},
    "policy": {"errors", "events", "jobs", "predictors", "promises", "reasons", "validation"},
    "store": {"errors", "formatting", "jobs", "promises", "reasons", "resources", "settings", "states"},
    "workloads": {"errors", "jobs"},
    "replay": {"drive", "errors", "events", "formatting", "jobs", "policy", "predictors", "states"},
    "simulation": {
        "accounting",
        "drive",
        "errors",
        "events",
        "jobs",
        "policy",
        "predictors",
        "progress",
        "promises",
        "replay",
        "states",
        "validation",
    },
    "forecast": {
        "accounting",
        "drive",
        "errors",
        "events",
        "formatting",
        "jobs",
        "predictors",
        "replay",
        "simulation",
        "states",
    },
    "emulation": {"accounting", "errors", "events", "jobs", "policy", "replay", "service", "states"},
    "live": {"accounting", "errors", "extras", "jobs", "pbs_conf", "policy", "reasons", "validation"},
    "service": {
        "accounting",
        "drive",
        "errors",
        "events",
        "extras",
        "forecast",
        "jobs",
        "live",
        "pbs_conf",
        "policy",
        "predictors",
        "promises",
        "quantiles",
        "reasons",
        "settings",
        "shorter_walltimes",
        "states",
        "store",
        "validation",
    },
    "users": {"errors", "formatting", "settings", "shorter_walltimes", "store"},
    "deployment": {
        "accounting",
        "errors",
        "live",
        "pbs_conf",
        "policy",
        "resources",
        "service",
        "settings",
        "store",
        "users",
        "validation",
    },
    "training": {"drive", "errors", "events", "jobs", "predictors", "progress", "replay"},
    "tuning": {
        "errors",
        "predictors",
        "progress",
        "replay",
        "states",
        "training",
        "written",
    },
    "reports": {
        "errors",
        "formatting",
        "jobs",
        "policy",
        "predictors",
        "progress",
        "replay",
        "shorter_walltimes",
        "simulation",
        "states",
        "text_table",
        "tuning",
    },
    "experiments": {
        "drive",
        "errors",
        "formatting",
        "jobs",
        "policy",
        "predictors",
        "progress",
        "replay",
        "simulation",
        "states",
        "text_table",
    },
}
# The command line stands on top of everything.
MODULES = sorted(PACKAGE.rglob("*.py"))


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """The names that a module imports from the package, also inside its functions: ``softwalltime.jobs.FIELDS``."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        found |= {name for name in names if name.startswith("softwalltime.")}
    return found


def imports(path: Path) -> set[str]:
    """The rooms that a module imports from."""
    return {name.split(".")[1] for name in imported(path)} - {"__version__"}


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


def test_each_class_name_is_defined_once_in_the_package() -> None:
    defined: dict[str, list[str]] = {}
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                defined.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
    assert not {name: paths for name, paths in defined.items() if len(paths) > 1}


def test_every_permitted_import_is_used() -> None:
    used: dict[str, set[str]] = {}
    for path in MODULES:
        used.setdefault(room(path), set()).update(imports(path) - {room(path)})
    unused = {here: permitted - used.get(here, set()) for here, permitted in ALLOWED.items()}
    assert not {here: names for here, names in unused.items() if names}


@pytest.mark.parametrize("path", [path for path in MODULES if path.name == "__init__.py"], ids=room)
def test_a_package_is_imported_by_its_modules(path: Path) -> None:
    if room(path) not in ("__init__", "cli"):
        assert not imports(path), "imports name the module that defines a name, never a package"


def test_no_modules_import_each_other() -> None:
    names = {
        ".".join(("softwalltime", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
        for path in MODULES
    }
    graph = {
        module: {name if name in names else name.rpartition(".")[0] for name in imported(path)}
        & names.keys() - {module}
        for module, path in names.items()
    }
    # It raises graphlib.CycleError, which names the modules of a circle; the package itself imports on demand.
    assert list(TopologicalSorter(graph | {"softwalltime": set()}).static_order())


def test_only_the_driver_decides_when_a_predictor_is_fitted() -> None:
    """A loop of its own over events would fit, ask and teach in another order than the daemon."""
    reads = {str(path.relative_to(PACKAGE)) for path in MODULES if "fit_seconds" in path.read_text()}
    assert reads == {"drive.py", "predictors/base.py", "replay/checked_predictor.py", "service/worker.py"}
