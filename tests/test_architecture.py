"""Who may import whom: a module that reaches over a wall fails here."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.samples import ROOT

PACKAGE = ROOT / "daemon" / "softwalltime"
ALLOWED = {
    "core": set(),
    "accounting": {"core"},
    "store": {"core"},
    "predict": {"core"},
    "predict.predictors": set(),
    "predict.policy": {"predict.predictors"},
    "predict.drive": {"predict.predictors"},
    "measure": {"accounting", "core", "predict"},
    "measure.replay": set(),
    "measure.simulation": {"measure.replay"},
    "measure.workloads": {"measure.simulation"},
    "measure.forecast": {"measure.replay", "measure.simulation"},
    "measure.training": {"measure.replay"},
    "measure.tuning": {"measure.replay"},
    "measure.experiments": {"measure.replay", "measure.simulation"},
    "api": {"accounting", "core", "measure", "predict"},
    "service": {"accounting", "core", "measure", "predict", "store"},
    "service.live": set(),
    "service.users": set(),
    "reports": {"core", "measure", "predict"},
    "emulation": {"accounting", "core", "measure", "predict", "service"},
    "deployment": {"accounting", "core", "predict", "service", "store"},
}
"""What a room may import, and a part of a room of the other parts; the command line stands on top of everything."""
MODULES = sorted(PACKAGE.rglob("*.py"))


def names_of(path: Path) -> list[str]:
    """The path of a module in the package: ``["measure", "replay", "workload"]``."""
    return list(path.relative_to(PACKAGE).with_suffix("").parts)


def imported(path: Path) -> set[str]:
    """The names that a module imports from the package, also in its functions: ``softwalltime.core.jobs.FIELDS``."""
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


def imports(path: Path) -> set[tuple[str, str]]:
    """The walls that a module's imports cross: who imports and what, rooms or parts of the same room."""
    room, part = [*names_of(path), ""][:2]
    crossed = set()
    for name in imported(path) - {"softwalltime.__version__"}:
        other, of_other = [*name.split("."), ""][1:3]
        if other != room:
            crossed.add((room, other))
        elif of_other != part and {f"{room}.{part}", f"{room}.{of_other}"} <= ALLOWED.keys():
            crossed.add((f"{room}.{part}", f"{room}.{of_other}"))
        elif f"{room}.{part}" in ALLOWED and f"{room}.{of_other}" not in ALLOWED:
            crossed.add((f"{room}.{part}", f"{room}: the modules above its parts"))
    return crossed


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_only_what_its_room_may(path: Path) -> None:
    here = names_of(path)[0]
    if here in ("cli", "__init__", "__main__"):
        return
    assert here in ALLOWED, f"{here} is a new room: say in this test what it may import"
    assert not {(who, what) for who, what in imports(path) if what not in ALLOWED[who]}


def test_there_are_at_most_a_dozen_rooms() -> None:
    assert len({names_of(path)[0] for path in MODULES} - {"__init__", "__main__"}) <= 12


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
    used = set().union(*(imports(path) for path in MODULES))
    assert not {(who, what) for who, permitted in ALLOWED.items() for what in permitted} - used


@pytest.mark.parametrize(
    "path", [path for path in MODULES if path.name == "__init__.py"], ids=lambda path: path.parent.name
)
def test_a_package_is_imported_by_its_modules(path: Path) -> None:
    if names_of(path)[0] not in ("__init__", "cli"):
        assert not imported(path), "imports name the module that defines a name, never a package"


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
    assert reads == {
        "measure/replay/checked_predictor.py", "predict/drive.py", "predict/predictors/base.py", "service/worker.py",
    }  # fmt: skip
