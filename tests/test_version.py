"""The version is the tag of the checkout; a build without tags or without git still has one."""

import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.samples import ROOT

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def version(folder: Path) -> str:
    command = [sys.executable, "-m", "hatchling", "version"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


def git(folder: Path, *arguments: str) -> None:
    user = "-c", "user.name=test", "-c", "user.email=test@localhost"
    subprocess.run(["git", *user, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with one commit and what the version is made from."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "first")
    return folder


def test_the_version_is_the_tag_and_then_counts_commits(checkout: Path) -> None:
    git(checkout, "tag", "v9.8.7")
    assert version(checkout) == "9.8.7"
    git(checkout, "commit", "--quiet", "--allow-empty", "--message", "second")
    assert version(checkout).startswith("9.8.7.post1.dev1+g")


def test_a_clone_without_tags_and_files_without_git_have_a_version_below_the_first(checkout: Path) -> None:
    git(checkout, "tag", "v9.8.7")
    git(checkout, "commit", "--quiet", "--allow-empty", "--message", "second")
    shallow = checkout.with_name("shallow")
    git(checkout, "clone", "--quiet", "--depth=1", checkout.as_uri(), str(shallow))
    assert version(shallow).startswith("0.1a0.post1.dev1+g")
    shutil.rmtree(shallow / ".git")
    assert version(shallow) == "0.1a0"


def test_a_package_knows_versions_newer_than_those_before_it() -> None:
    if shutil.which("dpkg") is None:
        pytest.skip("dpkg is not installed")
    ordered = ["0.1a0", "0.1a0.post1.dev7+g1a2b3c4", "0.1.0", "0.1.0.post1.dev3+g1a2b3c4", "0.1.1", "0.2.0"]
    for older, newer in pairwise(ordered):
        subprocess.run(["dpkg", "--compare-versions", older, "lt", newer], check=True)
