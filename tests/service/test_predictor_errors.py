"""A predictor that fails in the daemon: the others learn on, and administrators see it."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from softwalltime.accounting.writer import queue_record
from softwalltime.deployment.check_service import check_daemon
from softwalltime.deployment.probes import DaemonProbe
from softwalltime.predict.drive import PredictorFailure
from softwalltime.service.metrics import families
from softwalltime.service.status import Status
from softwalltime.service.status_problems import problems
from tests.samples import job
from tests.service.running import Daemon, until
from tests.service.statuses import working_status
from tests.spy import file_spy_environment, read_entries

STEPS = ("history", "observe", "learn", "fit", "predict")


@pytest.fixture
def daemon(tmp_path: Path, database: str) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path, database, 'mode = "on"\nwaiting = "failing-spy"\nordering = "v1"\n')
    daemon.environment = {**file_spy_environment(tmp_path), "SPY_FAILS": ",".join(STEPS)}
    yield daemon
    if daemon.process is not None and daemon.process.poll() is None:
        daemon.end(signal.SIGKILL)


@pytest.mark.postgres
def test_the_daemon_learns_on_and_starts_again(daemon: Daemon, tmp_path: Path) -> None:
    def taught() -> list[str]:
        return [entry.job_id for entry in read_entries(tmp_path / "spied") if entry.did == "learn"]

    begin = 1_700_000_000
    daemon.append(job(job_id=f"{n}.srv", submitted=begin, end=begin + 900 + n, runtime=600) for n in range(3))
    waiting = job(job_id="9.srv", submitted=begin, end=begin + 900)
    with daemon.log.open("a") as log:
        log.write(f"11/20/2026 10:16:10;Q;9.srv;{queue_record(waiting)}\n")
    daemon.start()
    until(lambda: daemon.status()["learnt"] == 3)
    daemon.append([job(job_id="3.srv", submitted=begin, end=begin + 950, runtime=600)])
    until(lambda: daemon.status()["learnt"] == 4)
    assert taught() == ["0.srv", "1.srv", "2.srv", "3.srv"]
    explained = daemon.explain(walltime=3600)
    assert (explained["action"], explained["ordering"]) == ("none", 600)
    assert explained["basis"] == "predictor failing-spy failed: ArithmeticError, see softwalltime status"
    failures = {failure["step"]: failure for failure in daemon.status()["failures"]}
    assert failures.keys() == set(STEPS)
    assert failures["learn"] == {
        "predictor": "failing-spy", "step": "learn", "count": 4, "last": "ArithmeticError: no learn, job 3.srv",
    }  # fmt: skip
    daemon.end()
    daemon.start()
    until(lambda: daemon.status()["learnt"] == 4)
    assert taught()[4:] == ["0.srv", "1.srv", "2.srv", "3.srv"], "once after a restart"
    assert daemon.explain(walltime=3600)["ordering"] == 600
    assert daemon.output.read_text().count("predictor failing-spy failed in learn, job 0.srv") == 2


def failing_status() -> Status:
    return working_status(failures=(PredictorFailure("adaboost", "learn", 1234, "KeyError: 'x', job 7.srv"),))


def test_status_doctor_and_metrics_show_the_errors() -> None:
    status = Status.from_json(failing_status().to_json())
    assert status == failing_status()
    findings = check_daemon(DaemonProbe(0.1, status), 50, status.version)
    (finding,) = (found for found in findings if found.check == "daemon status")
    assert (finding.verdict, [finding.text]) == ("warning", list(problems(status)))
    assert finding.text.startswith("predictor adaboost: 1,234 errors in learn, the last: KeyError: 'x', job 7.srv; ")
    (errors,) = (family for family in families(status) if family.name == "softwalltime_predictor_errors")
    assert [(sample.labels, sample.value) for sample in errors.samples] == [
        ({"predictor": "adaboost", "step": "learn"}, 1234)
    ]
