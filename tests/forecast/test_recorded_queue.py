"""The queue at a time of a log: ``--at`` of what-if and starts."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from softwalltime.accounting.writer import write_logs
from softwalltime.cli import run
from softwalltime.measure.forecast.queue_model import model_of
from softwalltime.measure.forecast.recorded_queue import recorded_queue
from softwalltime.measure.replay.job_columns import JobColumns
from softwalltime.measure.simulation.engine import simulate
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.simulated_jobs import Jobs
from tests.forecast.states import NOW, server
from tests.samples import job

LOG = (
    job(job_id="1.srv", submitted=NOW - 500, start=NOW - 400, end=NOW, runtime=400, walltime=1000, ncpus=4),
    job(job_id="2.srv", submitted=NOW - 450, start=NOW - 400, end=NOW + 100, runtime=500, walltime=1000, ncpus=8),
    job(job_id="3.srv", submitted=NOW - 300, start=NOW + 100, end=NOW + 200, runtime=100, walltime=600, ncpus=12),
    job(job_id="4.srv", submitted=NOW - 200, start=NOW + 300, end=NOW + 400, runtime=100, walltime=60, etime=NOW + 50),
    job(job_id="5.srv", submitted=NOW - 100, start=None, end=NOW + 900, runtime=0, walltime=1200, ncpus=4),
    job(job_id="6.srv", submitted=NOW + 1, start=NOW + 400, end=NOW + 500, runtime=100, walltime=60, ncpus=1),
)


def test_what_ran_and_what_waited_is_the_queue_and_what_was_held_is_left_out() -> None:
    found = recorded_queue(JobColumns.of(LOG), NOW)
    assert [(job.submission.job_id, job.state, job.start) for job in found.jobs] == [
        ("2.srv", "R", NOW - 400), ("3.srv", "Q", None), ("5.srv", "Q", None),
    ]  # fmt: skip
    assert found.vnodes[0].ncpus == 12, "the most in use at one time"
    assert found.remarks[0] == "left out: 1 job that PBS could not start yet, such as held ones"
    settings = server(20, formula="walltime")
    other = recorded_queue(JobColumns.of(LOG), NOW, settings)
    assert (other.taken, other.jobs, other.vnodes, other.scheduler) == (
        NOW, found.jobs, settings.vnodes, settings.scheduler,
    )  # fmt: skip


def test_the_schedule_of_a_log_goes_on_from_its_queue(jobs: Jobs) -> None:
    schedule = simulate(jobs, 64, SchedulerPolicy())
    log = [
        replace(record, start=start, end=start + seconds, runtime=seconds, etime=None)
        for record, start, seconds in zip(
            jobs.completed, schedule.start.tolist(), schedule.duration.tolist(), strict=True
        )
    ]
    last = int(np.flatnonzero(schedule.start > np.array(jobs.submitted))[-1])
    now = jobs.submitted[last]
    queue = model_of(recorded_queue(JobColumns.of(log), now, server(64)))
    of = {record.submission.job_id: record for record in log}
    records = [of[job.submission.job_id] for job in queue.live]
    found = queue.model.run([record.runtime for record in records]).start.tolist()
    assert all(submitted > max(found) for submitted in jobs.submitted[last + 1 :])
    assert found[-1] > now
    assert found == [record.start for record in records]


def test_what_if_compares_the_queue_of_a_time_and_learns_only_what_was_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "none.toml").touch()
    monkeypatch.setenv("SOFTWALLTIME_CONFIG", str(tmp_path / "none.toml"))
    write_logs([replace(LOG[4], start=NOW + 200, runtime=700), *LOG], tmp_path / "logs", UTC)
    when = datetime.fromtimestamp(NOW, UTC).isoformat()
    command = ["what-if", "--log", str(tmp_path / "logs"), "--delete", "3", "--format", "json"]
    command += ["--predictor", "factor:1"]
    assert run([*command, "--at", when]) == 0
    document = json.loads(capsys.readouterr().out)
    assert "learnt from 1 job of" in document["runtimes"]
    starts = {row["job"]: (row["before"], row["after"]) for row in document["jobs"]}
    first, _ = starts["3.srv"]
    assert NOW < first < NOW + 600, "by the end of the walltime of 2.srv"
    assert starts == {"3.srv": (first, None), "5.srv": (first + 600, NOW)}
    assert run([*command, "--at", "2001-01-01"]) == 2
    assert "no job of the log waited at that time" in capsys.readouterr().err
    assert run(["what-if", "--at", when, "--hold", "3"]) == 2
    assert "give the log with --log" in capsys.readouterr().err
