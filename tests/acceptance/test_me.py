"""``softwalltime me`` on a real server: each user sees what qstat shows of his own jobs, and when they start.

A job that is planned is expected when it was planned, once it is submitted.
"""

import pwd
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from softwalltime.cli.me_plan import plan
from softwalltime.cli.qsub_options import request_of_qsub
from softwalltime.service.users.own_jobs import ProbeStart
from tests.acceptance.lab import WHOLE, Lab, until
from tests.acceptance.publishing import Publishing
from tests.users.site import OwnJobsProcess

pytestmark = pytest.mark.postgres
USERS = ("alice", "bob", "carol")


@pytest.fixture
def process(database: str) -> Iterator[OwnJobsProcess]:
    if missing := set(USERS) - {account.pw_name for account in pwd.getpwall()}:
        pytest.skip(f"this host has no account of {', '.join(sorted(missing))}")
    folder = Path(tempfile.mkdtemp())
    made = OwnJobsProcess(folder, database)
    yield made
    made.end()
    shutil.rmtree(folder)


def by_qstat(lab: Lab, user: str) -> tuple[set[str], set[str]]:
    """The waiting and the running jobs of a user, subjobs in place of arrays."""
    jobs: dict[str, dict[str, Any]] = lab.json("qstat", "-t", "-f", "-F", "json").get("Jobs", {})
    own = {name: job["job_state"] for name, job in jobs.items() if job["euser"] == user and "[]" not in name}
    return {name for name, state in own.items() if state in "QH"}, {name for name, state in own.items() if state == "R"}


def test_each_user_sees_his_own_jobs_as_qstat_has_them(
    lab: Lab,
    publishing: Publishing,
    process: OwnJobsProcess,
) -> None:
    options = ("-q", "short", "-l", "walltime=600", "-l", WHOLE)
    command = ("/bin/sleep", "600")
    running = lab.qsub(*options, command=command)
    lab.wait(running, "R")
    lab.qsub(*options, command=command)
    lab.qsub(*options, "-J", "1-3", command=command)
    lab.qsub(*options, "-N", "x", user="bob", command=command)
    held = lab.qsub(*options, "-h", user="bob", command=command)

    def seen(user: str) -> tuple[set[str], set[str]]:
        answer = process.ask(user)
        return {job["job"] for job in answer["waiting"]}, {job["job"] for job in answer["running"]}

    def forecast(user: str) -> bool:
        return all(job["expected"] or job["waits_for"] for job in process.ask(user)["waiting"])

    for user in USERS:
        until(lambda user=user: seen(user) == by_qstat(lab, user), 60, f"{user} sees his jobs")  # type: ignore[misc]
        until(lambda user=user: forecast(user), 60, f"the starts of {user}")  # type: ignore[misc]
    assert [len(kind) for kind in seen("alice")] == [4, 1]
    assert [len(kind) for kind in seen("bob")] == [2, 0]
    assert seen("carol") == (set(), set())
    of_bob = {job["job"]: job for job in process.ask("bob")["waiting"]}
    assert of_bob[held]["waits_for"].startswith("it is held by its user")
    # What he waits for names no job of alice.
    assert not any(running.partition(".")[0] + "." in job["waits_for"] for job in of_bob.values())
    lab.must("qdel", "-W", "force", running)
    until(lambda: running not in seen("alice")[1] and seen("alice") == by_qstat(lab, "alice"), 60, "what alice sees")


def test_a_planned_job_is_expected_when_it_was_planned(
    lab: Lab, publishing: Publishing, process: OwnJobsProcess
) -> None:
    running = lab.qsub("-q", "short", "-l", "walltime=600", "-l", WHOLE, command=("/bin/sleep", "600"))
    lab.wait(running, "R")
    lab.qsub("-q", "short", "-l", "walltime=300", "-l", WHOLE, user="bob", command=("/bin/sleep", "300"))
    asked = request_of_qsub("-q short -l select=1:ncpus=1,walltime=1200")

    def probes() -> list[ProbeStart]:
        rows = process.ask("carol")["probes"]
        return [ProbeStart(**row) for row in rows if row["forecast_at"] > submitted]

    submitted = int(time.time())
    until(lambda: any("short" in probe.submit_to for probe in probes()), 60, "forecasts of jobs not yet submitted")
    planned = plan(probes(), asked, submitted)[0]
    assert planned.range90 is not None
    job = lab.qsub("-q", "short", "-l", "select=1:ncpus=1", "-l", "walltime=1200", user="carol")

    def expected() -> int | None:
        return next((row["expected"] for row in process.ask("carol")["waiting"] if row["job"] == job), None)

    until(expected, 60, "the start of the job")
    low, high = planned.range90
    assert low <= (expected() or 0) <= high
