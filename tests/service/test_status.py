"""softwalltime status: its output."""

import csv
import io
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from softwalltime import __version__
from softwalltime.cli import run
from softwalltime.cli.overview import latency, overview
from softwalltime.core.formatting import size
from softwalltime.core.jobs import CurrentJob
from softwalltime.service.protocol import ask
from softwalltime.service.status import BOUNDS, DecisionCount, Histogram, Status, StatusError
from softwalltime.service.status_problems import problems
from softwalltime.store.connections import connect
from softwalltime.store.current import set_current
from softwalltime.store.quality import Quality
from tests.documented import documented
from tests.samples import job
from tests.service.running import PATIENT, Daemon, until
from tests.service.statuses import new_status, working_status


def hook(daemon: Daemon, job_id: str, **told: int) -> None:
    """Send a request as the hook does, with the outcome of its previous request."""
    asked = {"op": "predict", "event": "postqueuejob", "job": {"user": "alice", "walltime": 3600, "job_id": job_id}}
    assert ask(daemon.socket, {**asked, **told}, PATIENT)["soft_walltime"] == 600


@pytest.fixture
def daemon(tmp_path: Path, database: str) -> Iterator[Daemon]:
    """A daemon with three predictions and an overdue job."""
    now = int(time.time())
    engine = connect(database)
    with engine.begin() as connection:
        running = job(job_id="77.srv", submitted=now - 5000, walltime=7200, queue="long").submission
        set_current(connection, [CurrentJob(running, "srv", now - 4000, soft_walltime=600)])
    engine.dispose()
    daemon = Daemon(tmp_path, database)
    daemon.append([job(job_id=f"{n}.srv", submitted=now - 900, end=now - 60, runtime=600) for n in (1, 2)])
    daemon.start()
    until(lambda: daemon.status()["learnt"] == 2)
    hook(daemon, job_id="9.srv", previous_us=420)
    daemon.predict("postqueuejob", job_id="10.srv", user="\x1b[31mbob[bold]")
    daemon.predict("runjob", job_id="9.srv")
    until(lambda: daemon.status()["to_record"] == 0)
    yield daemon
    if daemon.process is not None and daemon.process.poll() is None:
        daemon.end()


def shown(daemon: Daemon, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run([*arguments, "--config", str(daemon.config)]) == 0
    return capsys.readouterr().out


@pytest.mark.postgres
def test_status_prints_mode_figures_and_latencies(daemon: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(daemon, capsys, "status")
    assert re.match(rf"softwalltime {re.escape(__version__)}, pid \d+, up .+: ok\n\npredictions\n", text)
    for line in (
        r"mode +on: soft walltimes are set",
        r"ready +yes, 2 jobs learned: 0 when the history was loaded [\d.]+ s ago, 2 since",
        r"at postqueuejob +set 1, none 1",
        r"at runjob +none 1", r"store +ok", r"predictions +3 stored, 0 waiting", r"read +2 lines, 2 jobs stored",
        r"round trip +p50 0\.\d+ ms, p95 0\.\d+ ms, p99 0\.\d+ ms",
    ):  # fmt: skip
        assert re.search(rf"^  {line}$", text, re.MULTILINE), line
    assert text.isprintable() or "\x1b" not in text


@pytest.mark.postgres
def test_status_prints_problems_first(daemon: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    with daemon.log.open("a") as log:
        log.write("rubbish\n")
    until(lambda: daemon.status()["malformed"] == 1)
    hook(daemon, job_id="11.srv", timeouts=3)
    lines = shown(daemon, capsys, "status").splitlines()
    assert lines[0].endswith("needs attention:")
    assert lines[1].startswith("  ! hook: 3 requests timed out since the start")
    assert lines[2].startswith("  ! log: 1 malformed line: ")
    assert json.loads(shown(daemon, capsys, "status", "--format", "json"))["timeouts"] == 3


@pytest.mark.postgres
def test_status_prints_json_and_csv(daemon: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    assert documented("status", shown(daemon, capsys, "status", "--format", "json"))["learnt"] == 2
    (row,) = csv.DictReader(io.StringIO(shown(daemon, capsys, "status", "--format", "csv")))
    assert (row["learnt"], json.loads(row["policy"])["waiting"]) == ("2", "v1")


def test_the_status_of_another_version_is_refused(tmp_path: Path) -> None:
    script = (
        "import socket, sys; listener = socket.socket(socket.AF_UNIX); listener.bind(sys.argv[1]); listener.listen()\n"
        "print(flush=True)\n"
        'peer, _ = listener.accept(); peer.recv(999); peer.sendall(b\'{"v": 1, "version": "0.0.1"}\\n\')\n'
    )
    path = tmp_path / "s"
    with subprocess.Popen([sys.executable, "-c", script, path], stdout=subprocess.PIPE) as old:
        assert old.stdout is not None
        old.stdout.readline()
        config = tmp_path / "c.toml"
        config.write_text(f'socket = "{path}"\ndsn = "postgresql://127.0.0.1:1/none"\n')
        command = [sys.executable, "-m", "softwalltime", "status", "--config", str(config)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "the daemon has version 0.0.1" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({}, None),
        ({"store": "away"}, "store: away; predictions continue"),
        ({"ready": False}, "not ready: "),
        (
            {"settings": "policy.mode: wrong"},
            "settings: rejected at the last reload, the old policy remains: policy.mode",
        ),
        ({"accounting": "not followed"}, None),
        ({"accounting": "no such folder"}, "accounting: no such folder"),
        ({"behind_bytes": 5_000_000, "behind_seconds": 299}, None),
        ({"behind_bytes": 5_000_000, "behind_seconds": 7300}, "log: 5.0 MB not stored for 2 h"),
        ({"timeouts": 1, "requests": {"predict": 2000}}, None),
        ({"timeouts": 3, "requests": {"predict": 2000}}, "hook: 3 requests timed out"),
        ({"requests": {"failed": 1}}, "predictors: 1 request "),
        ({"requests": {"refused": 2}}, "requests: 2 invalid lines"),
        (
            {"requests": {"unusable": 1}, "unusable": "walltime: 9; job 7.srv of user eve"},
            "requests: 1 job without a prediction, because of a value outside the limits; the last: walltime: 9;",
        ),
        ({"retention": "retention deletes nothing by age: why"}, "store: retention deletes nothing by age: why"),
        ({"unstorable": 2}, "predictions: 2 refused by PostgreSQL"),
        ({"dropped": 1}, "predictions: 1 lost"),
        ({"to_record": 10_001}, "predictions: 10,001 wait"),
        ({"malformed": 2}, "log: 2 malformed lines"),
        ({"from_the_future": 1}, "clock: 1 job "),
        ({"refused_users": 1}, "socket: 1 connection "),
    ],
)
def test_each_problem_is_one_line(wrong: dict[str, Any], expected: str | None) -> None:
    lines = list(problems(working_status(**{"requests": {"predict": 5}, **wrong})))
    if expected is None:
        assert lines == []
    else:
        (line,) = lines
        assert line.startswith(expected)


def test_empty_groups_are_omitted() -> None:
    policy = {**new_status().policy, "share": 0.1, "rules": [{}, {}]}
    groups = overview(working_status(policy=policy), 0)
    assert "last seven days" not in groups
    assert groups["predictions"]["mode"] == "on: soft walltimes are set, for 10% of the users (2 exceptions)"
    assert groups["hook"]["answer"] == "-"
    assert "read" not in overview(working_status(accounting="not followed"), 0)["accounting log"]


def test_the_lag_is_unknown_until_the_logs_have_been_read() -> None:
    before = overview(working_status(logs_read=False), 0)["accounting log"]["behind"]
    assert before == "unknown until the logs have been read"
    assert overview(working_status(), 0)["accounting log"]["behind"] == "nothing"


def test_jobs_learned_are_split_at_the_last_load_of_the_history() -> None:
    groups = overview(working_status(learnt=12, history=10, loaded=940), 1000)
    assert groups["predictions"]["ready"] == "yes, 12 jobs learned: 10 when the history was loaded 1 min ago, 2 since"


def test_a_status_is_the_same_after_json() -> None:
    status = working_status(
        week=(Quality("on", "v1", 1, 1.0, 0.0, 0.0, 1.0),), decisions=(DecisionCount("runjob", "on", "set", 1),)
    )
    response = json.loads(json.dumps(status.to_json()))
    read = Status.from_json({**response, "key_of_a_newer_daemon": 1})
    assert read.week == status.week
    assert json.loads(json.dumps(read.to_json())) == response


def test_a_status_with_other_fields_is_refused_in_one_sentence() -> None:
    response = new_status().to_json()
    with pytest.raises(StatusError, match=r"version 1, lacks learnt: restart the daemon"):
        Status.from_json({name: value for name, value in response.items() if name != "learnt"})
    with pytest.raises(StatusError, match="restart the daemon"):
        Status.from_json({**response, "answer_times": {"milliseconds": 1}})


def test_durations_and_sizes_have_units() -> None:
    assert [size(each) for each in (0, 999, 1000, 12_345, 5e6, 7e9)] == [
        "0 bytes",
        "999 bytes",
        "1.0 kB",
        "12 kB",
        "5.0 MB",
        "7.0 GB",
    ]
    counts = [0, 100, *[0] * 17, 1]
    assert latency(Histogram(BOUNDS, counts, 0)) == "p50 0.04 ms, p95 0.05 ms, p99 0.05 ms"
