"""CONTRIBUTING.md: the example predictor works and passes lint, and the table of packages is complete."""

import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from softwalltime.cli import run
from softwalltime.measure.replay.workload import Workload
from softwalltime.measure.workloads.synthetic import generate
from softwalltime.predict.predictors import registry
from softwalltime.predict.predictors.base import Predictor
from tests.predictors import test_conformance
from tests.samples import RECORDED_LOG, ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text()


class EntryPoint:
    """What ``importlib.metadata`` finds for an installed package."""

    name, value, dist = "longest", "longest:Longest", None

    def load(self) -> object:
        return importlib.import_module("longest").Longest


def example_code() -> str:
    """The code of the example predictor."""
    code = re.search(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert code is not None
    return code.group(1)


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Predictor]]:
    """The predictor of the page, in the registry."""
    (tmp_path / "longest.py").write_text(example_code())
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(registry, "entry_points", lambda group: [EntryPoint()])
    registry.entries.cache_clear()
    yield registry.find("longest")
    registry.entries.cache_clear()


@pytest.mark.parametrize(
    "check",
    [
        check
        for name, check in inspect.getmembers(test_conformance, inspect.isfunction)
        if name.startswith("test_") and set(inspect.signature(check).parameters) <= {"predictor", "workload"}
    ],
    ids=lambda check: check.__name__,
)
def test_the_example_passes_the_conformance_suite(check: Callable[..., None], example: type[Predictor]) -> None:
    given = {"predictor": example, "workload": Workload(generate(500, seed=7))}
    check(**{name: given[name] for name in inspect.signature(check).parameters})


def test_the_example_is_measured_by_replay(example: type[Predictor], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", str(RECORDED_LOG), "--predictors", example.name]) == 0
    assert "| longest " in capsys.readouterr().out


@pytest.mark.parametrize("tool", ["ruff check", "ruff format --check", "mypy"])
def test_the_example_passes_lint(tool: str, tmp_path: Path) -> None:
    name, *arguments = tool.split()
    pytest.importorskip(name, reason=f"{name} is not installed")
    (tmp_path / "longest.py").write_text(example_code())
    file = "--config-file" if name == "mypy" else "--config"
    command = [sys.executable, "-m", name, *arguments, file, "pyproject.toml", tmp_path / "longest.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_package_is_in_the_table() -> None:
    folder = ROOT / "daemon" / "softwalltime"
    packages = {path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()} - {
        "__init__",
        "__main__",
    }
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", TEXT, re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted(packages)


def test_it_is_one_page() -> None:
    assert len(TEXT.splitlines()) <= 120
