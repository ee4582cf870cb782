"""The documents as a site: it is built without a warning, and every document is a page."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.samples import ROOT

pytest.importorskip("mkdocs", reason="MkDocs is not installed")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built by what ``make docs`` runs; broken links, anchors and missing pages are errors."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


def test_every_document_is_a_page_with_links_to_pages(site: Path) -> None:
    patterns = ("*.md", "deploy/*.md", "hooks/*.md", "sql/*.md", "daemon/**/*.md")
    documents = [document for pattern in patterns for document in ROOT.glob(pattern)]
    assert len(documents) > 20
    generated = ("404", "commands", "reference", "settings", "views")
    assert len(list(site.rglob("*.html"))) >= len(documents) + len(generated)
    home = (site / "index.html").read_text()
    assert 'href="daemon/softwalltime/measure/replay/MEASURE.html#columns"' in home
    assert 'href="deploy/GUIDE.html"' in home
    assert 'src="deploy/pictures/report.png"' in home
    assert (site / "deploy" / "pictures" / "report.png").stat().st_size > 0
    assert "/blob/main/deploy/sql/roles.sql" in (site / "deploy" / "GUIDE.html").read_text()


def test_the_navigation_has_the_four_kinds_of_documents_and_the_laboratory(site: Path) -> None:
    navigation = (site / "index.html").read_text().partition('class="md-content"')[0]
    kinds = ("Tutorial", "How-to", "Reference", "Explanation", "Laboratory", "Project")
    positions = [navigation.find(kind) for kind in kinds]
    assert -1 not in positions
    assert positions == sorted(positions)


def test_commands_settings_views_and_reference_come_from_the_code(site: Path) -> None:
    commands = (site / "commands.html").read_text()
    assert "softwalltime db upgrade" in commands
    assert "--simulated-jobs" in commands
    settings = (site / "settings.html").read_text()
    assert "shows_per_minute" in settings
    assert "days to keep jobs and predictions in the store" in settings
    views = (site / "views.html").read_text()
    assert 'id="ingest_lag"' in views
    assert "accuracy of the users' walltimes" in views.replace("&#x27;", "'").replace("&#39;", "'")
    reference = (site / "reference.html").read_text()
    assert "one soft walltime for each job" in (site / "daemon" / "softwalltime" / "API.html").read_text()
    assert 'id="softwalltime.api.replay"' in reference
    assert ":class:" not in reference


def test_the_site_requests_nothing_from_other_hosts(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text()
        assert "fonts.googleapis.com" not in text
        assert '<script src="http' not in text
