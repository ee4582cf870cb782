"""Bounds of dependencies, the lock file and the workflows agree with each other."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.samples import ROOT

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
LOCKED = dict(
    re.findall(r"^([\w.-]+)==([\w.]+)", (ROOT / "requirements-dev.txt").read_text(), re.MULTILINE),
)
"""The newest locked version by name of the package."""
SETUP = ("apt-get update && apt-get install ", "dnf install ")
"""A container that has no make yet; all other commands are in the Makefile or in .ci/run."""
PUBLISH = ("mkdir dist && mv files/*.whl files/*.tar.gz dist", "gh release create ")


def requirements() -> dict[str, list[str]]:
    """The requirements by the table of pyproject.toml that has them."""
    project = PROJECT["project"]
    return {
        "build-system": PROJECT["build-system"]["requires"],
        "dependencies": project["dependencies"],
        **project["optional-dependencies"],
        **PROJECT["dependency-groups"],
    }


@pytest.mark.parametrize("table", requirements())
def test_every_dependency_has_a_lower_and_an_upper_bound(table: str) -> None:
    for requirement in map(Requirement, requirements()[table]):
        if requirement.name == "pbs-softwalltime":
            continue
        bounds = {bound.operator: Version(bound.version) for bound in requirement.specifier}
        if "==" in bounds:
            continue
        assert bounds.keys() == {">=", "<"}, str(requirement)
        # At most the next major version after the one that passed the tests; a version 0.x has no major version.
        if locked := LOCKED.get(requirement.name.replace(".", "-")):
            newest = Version(locked)
            assert newest in requirement.specifier, f"{requirement}: locked is {newest}: run make lock"
            assert bounds["<"].major <= newest.major + 1, f"{requirement}: nothing above {newest} was tested"


def test_the_lock_has_a_hash_for_each_file_and_no_address() -> None:
    text = (ROOT / "requirements-dev.txt").read_text()
    assert "://" not in text
    assert not re.search(r"^--", text, re.MULTILINE)
    packages = re.split(r"^(?=\w)", text, flags=re.MULTILINE)[1:]
    assert len(packages) >= len(LOCKED) > 50
    for package in packages:
        assert re.match(r"[\w.-]+==\S+[^\n]*( \\\n    --hash=sha256:[0-9a-f]{64})+\n$", package), package[:80]


def test_the_lock_has_everything_that_make_installs() -> None:
    makefile = (ROOT / "Makefile").read_text()
    (extras,) = re.findall(r"^EXTRAS := (.*)$", makefile, re.MULTILINE)
    tables = requirements()
    for table in ("dependencies", *extras.split(","), "dev"):
        for requirement in map(Requirement, tables[table]):
            if requirement.name != "pbs-softwalltime":
                assert requirement.name.replace(".", "-") in LOCKED, f"{requirement}: run make lock"


@pytest.fixture(params=WORKFLOWS, ids=lambda path: path.stem)
def workflow(request: pytest.FixtureRequest) -> dict[str, Any]:
    return dict(yaml.safe_load(Path(request.param).read_text()))


def steps(workflow: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for job in workflow["jobs"].values():
        yield from job.get("steps", ())


def test_a_workflow_runs_the_commands_of_the_makefile(workflow: dict[str, Any]) -> None:
    makefile = (ROOT / "Makefile").read_text()
    (phony,) = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    matrices = [job.get("strategy", {}).get("matrix", {}) for job in workflow["jobs"].values()]
    kinds = {entry["kind"] for matrix in matrices for entry in matrix.get("include", ()) if "kind" in entry}
    for step in steps(workflow):
        command = step.get("run", ".ci/run")
        if command == ".ci/run" or command.startswith((*SETUP, *PUBLISH)):
            continue
        name, *words = re.sub(r"\$\{\{ ([\w.]+) \}\}", r"\1", command).split()
        targets = {word for word in words if not word.startswith("PYTHON=")}
        targets = targets - {"matrix.kind"} | (kinds if "matrix.kind" in targets else set())
        assert name == "make"
        assert targets
        assert targets <= set(phony.split()), command


def test_a_workflow_has_limits_and_no_right_that_it_does_not_need(workflow: dict[str, Any]) -> None:
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["concurrency"]["group"]
    for name, job in workflow["jobs"].items():
        assert "uses" in job or 0 < job["timeout-minutes"] <= 90, name
        # GitHub replaces expressions before the shell runs: a title of a pull request would be a command.
        for step in job.get("steps", ()):
            assert not re.search(r"\$\{\{(?! matrix\.)", step.get("run", "")), name
    for step in steps(workflow):
        if action := step.get("uses"):
            assert re.fullmatch(r"actions/[\w-]+@v\d+|pypa/gh-action-pypi-publish@release/v1", action)
            assert "checkout@" not in action or step["with"]["persist-credentials"] is False


def test_all_supported_versions_are_tested() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]
    matrix = jobs["test"]["strategy"]["matrix"]["include"]
    versions = [
        name.removeprefix("Programming Language :: Python :: ")
        for name in PROJECT["project"]["classifiers"]
        if name.startswith("Programming Language :: Python :: 3.")
    ]
    assert sorted({entry["python"] for entry in matrix}) == versions
    assert sorted({entry["postgres"] for entry in matrix}) == list(range(14, 19))
    (setup,) = [step for step in jobs["lowest"]["steps"] if "setup-python" in step.get("uses", "")]
    assert PROJECT["project"]["requires-python"] == f">={setup['with']['python-version']}" == f">={versions[0]}"
