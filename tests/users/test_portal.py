"""deploy/ondemand: the pages and the widget of a portal, which runs both as the user."""

import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from sqlalchemy import Engine

from softwalltime.cli.web_pages import make_app
from softwalltime.store.current import set_current
from tests.samples import ROOT
from tests.users.site import HOUR, OTHER, OwnJobsProcess, dsn_of, forecast, now, publish, waits

pytestmark = pytest.mark.postgres
PORTAL = ROOT / "deploy" / "ondemand"
AT = "/pun/sys/softwalltime"
RENDER = 'require "erb"; include ERB::Util; print ERB.new(File.read(ARGV[0]), trim_mode: "-").result(binding)'


@pytest.fixture(scope="module")
def own(module_engine: Engine, postgres: str) -> Iterator[Path]:
    """Socket of a server of own jobs: some of this account with hostile names, one of another."""
    at = now()
    jobs = [waits("1.srv", at, job_name="<script>x</script>"), waits("2.srv", at, OTHER, job_name="secret")]
    jobs += [waits(f"{number}.srv", at) for number in range(10, 16)]
    starts = [forecast(job.submission.job_id, at, HOUR + 60 * index, job.submission.user)
              for index, job in enumerate(jobs)]  # fmt: skip
    with module_engine.begin() as connection:
        set_current(connection, jobs)
        publish(connection, at, starts)
    with tempfile.TemporaryDirectory() as folder:
        process = OwnJobsProcess(Path(folder), dsn_of(module_engine, postgres))
        yield process.socket
        process.end()


def test_the_pages_are_those_of_the_user_who_runs_them_whatever_a_header_says(own: Path) -> None:
    client = make_app(None, own).test_client()
    for headers in ({}, {"X-Remote-User": OTHER}):
        page = client.get("/", environ_overrides={"SCRIPT_NAME": AT}, headers=headers)
        assert page.status_code == 200
        assert "10.srv" in page.text
        assert ">2.srv<" not in page.text
        assert "secret" not in page.text
        assert "<script>" not in page.text
        assert re.findall(r'<a href="(/[^"]*)"', page.text) == [f"{AT}/", f"{AT}/queue"]
    assert client.get("/queue").status_code == 200
    assert client.get("/staff").status_code == 403


def test_the_application_is_found_and_says_where_it_must_be_offered() -> None:
    assert yaml.safe_load((PORTAL / "softwalltime" / "manifest.yml").read_text())["name"] == "My jobs"
    application = runpy.run_path(str(PORTAL / "softwalltime" / "passenger_wsgi.py"))["application"]
    page = application.test_client().get("/")
    assert (page.status_code, "this host does not offer it" in page.text) == (503, True)


def widget(folder: Path, arguments: str) -> str:
    """Return the HTML of the widget that runs ``softwalltime me`` with these arguments added."""
    ruby = shutil.which("ruby")
    if ruby is None:
        pytest.skip("there is no ruby")
    command = folder / "softwalltime"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m softwalltime "$@" {arguments}\n')
    command.chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    render = [ruby, "-e", RENDER, str(PORTAL / "_softwalltime.html.erb")]
    done = subprocess.run(render, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=True)
    return done.stdout


def test_the_widget_shows_the_next_starts(own: Path, tmp_path: Path) -> None:
    shown = widget(tmp_path, f"--socket {own}")
    assert re.findall(r"(\d+\.srv)", shown) == ["1.srv", *(f"{number}.srv" for number in range(10, 14))]
    assert "&lt;script&gt;" in shown
    assert "<script>" not in shown
    assert "and 2 more" in shown
    time = r"\w{3} \d\d \w{3} \d\d:\d\d"
    assert len(re.findall(f"<strong>{time}</strong>", shown)) == 5
    assert len(re.findall(f"in 9 of 10 cases (?:now|{time}) to {time}<", shown)) == 5


def test_without_an_answer_the_widget_says_so(tmp_path: Path) -> None:
    assert "Not known at the moment" in widget(tmp_path, f"--socket {tmp_path}/none")
