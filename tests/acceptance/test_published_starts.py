"""Starts forecast by the daemon on a real server: published, shown to the jobs' owners, judged by what happened."""

import re

import pytest
from sqlalchemy import Engine, text

from softwalltime.store.forecast_rows import read_expected
from tests.acceptance.lab import WHOLE, Lab, until
from tests.acceptance.publishing import Publishing

pytestmark = pytest.mark.postgres

SHOWN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d\(\d{4}-\d\d-\d\dT\d\d:\d\d\.\.\d{4}-\d\d-\d\dT\d\d:\d\d\)")


def test_the_daemon_publishes_starts_and_survives_what_may_happen(
    lab: Lab, publishing: Publishing, engine: Engine
) -> None:
    options = ("-q", "short", "-l", "walltime=600", "-l", WHOLE)
    running = lab.qsub(*options, command=("/bin/sleep", "600"))
    lab.wait(running, "R")
    first, second = (lab.qsub(*options, command=("/bin/sleep", "1")) for _ in range(2))

    def shown(job: str) -> str:
        return str(lab.job(job).get("Resource_List", {}).get("predicted_start", ""))

    until(lambda: SHOWN.fullmatch(shown(first)) and SHOWN.fullmatch(shown(second)), 60, "the starts are shown")
    # Users see it, and cannot set it.
    assert f"predicted_start = {shown(first)}" in lab.must("qstat", "-f", "-w", first, user="alice")
    assert not lab.qalter(first, "-l", "predicted_start=now").ok
    with engine.connect() as connection:
        expected = {each.start.job_id: each.start.expected or 0 for each in read_expected(connection)}
    assert 0 < expected[first] <= expected[second]
    # Killed: its process ends with it, and another daemon goes on.
    publishing.kill()
    publishing.start()
    # PBS restarted.
    lab.must("qterm", "-t", "quick")
    until(lambda: publishing.starts()["problem"], 120, "the problem is reported")
    lab.must("pbs_server")
    until(lambda: lab.run("qstat", "-B").ok, 60, "the server answers")
    until(lambda: not publishing.starts()["problem"], 120, "forecasts go on")
    # What happened judges the forecasts.
    until(lambda: "state = free" in lab.must("pbsnodes", "-a") or lab.job(running)["job_state"] == "R", 120, "the node")
    lab.must("qdel", "-W", "force", running)
    lab.qmgr("set server scheduling = True")

    def judged() -> set[str]:
        with engine.connect() as connection:
            rows = connection.execute(text("SELECT job_id FROM softwalltime.start_times WHERE started IS NOT NULL"))
            return set(rows.scalars())

    until(lambda: {first, second} <= judged(), 180, "the forecasts are judged")


def test_a_job_that_its_user_holds_is_judged_from_its_release_on(
    lab: Lab, publishing: Publishing, engine: Engine
) -> None:
    options = ("-q", "short", "-l", "walltime=600", "-l", WHOLE)
    running = lab.qsub(*options, command=("/bin/sleep", "600"))
    lab.wait(running, "R")
    job = lab.qsub(*options, command=("/bin/sleep", "1"))

    def kept() -> list[tuple[int, int | None]]:
        statement = text("SELECT forecast_at, started FROM softwalltime.start_times WHERE job_id = :job ORDER BY 1")
        with engine.connect() as connection:
            return [(row.forecast_at, row.started) for row in connection.execute(statement, {"job": job})]

    def waits_for() -> str:
        with engine.connect() as connection:
            return next((each.start.waits_for for each in read_expected(connection) if each.start.job_id == job), "")

    until(kept, 60, "a forecast is kept")
    lab.must("qhold", job, user="alice")
    until(lambda: waits_for().startswith("it is held by its user (Hold_Types = u)"), 60, "it is known to be held")
    assert kept() == []
    lab.must("qrls", job, user="alice")
    until(kept, 60, "it is forecast again")
    (released, _), *_ = kept()
    lab.must("qdel", "-W", "force", running)
    lab.qmgr("set server scheduling = True")
    until(lambda: all(started for _, started in kept()), 180, "the forecasts are judged")
    assert kept()[0][0] == released
