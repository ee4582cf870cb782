"""``softwalltime me`` as a user types it."""

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from softwalltime.cli import run
from softwalltime.core.formatting import local_time
from softwalltime.deployment.check_service import check_users
from softwalltime.service.users.own_jobs import (
    VERSION,
    NoOwnJobsError,
    OwnJobs,
    WaitingJob,
    ask_own_jobs,
    chance_by,
    next_midnight,
)
from softwalltime.service.users.own_jobs_server import BUSY
from tests.documented import documented, documented_rows
from tests.users.site import HOUR

Serve = Callable[[bytes], Path]
NOW = 1_795_610_000


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is NOW in every test: names of tests contain it, and must be the same in every process of pytest-xdist."""
    monkeypatch.setattr(time, "time", lambda: float(NOW))


def waiting(number: str = "1.srv", wait: int | None = HOUR, **more: Any) -> dict[str, Any]:
    start = None if wait is None else NOW + wait
    ranges = {} if start is None else {"range50": [start - 600, start + 600], "range90": [start - HOUR, start + HOUR]}
    return {
        "job": number, "name": "name", "queue": "long", "ncpus": 4, "ngpus": None, "mem": None, "walltime": 86400,
        "submitted": NOW - 600, "expected": start, "range50": None, "range90": None, "runtime": 1800,
        "runtime90": [600, 5400], "waits_for": "first in the queue" if start else "", "forecast_at": start and NOW - 60,
        "suggested": None, "sooner": None,
        **ranges, **more,
    }  # fmt: skip


RUNNING = {
    "job": "2.srv", "name": "name", "queue": "long", "ncpus": 4, "ngpus": None, "mem": None, "walltime": 7200,
    "started": NOW - 600, "expected_end": NOW + 1200, "range90": [NOW, NOW + 3000], "latest_end": NOW + 6600,
}  # fmt: skip
ENDED = {
    "job": "3.srv", "name": "name", "queue": "long", "state": "walltime exceeded", "ncpus": 4, "ngpus": None,
    "mem": 2 * 10**9, "mem_used": 3 * 10**8, "cput": 100, "walltime": 7200, "runtime": 7230, "submitted": NOW - 9000,
    "wait": 60, "started": NOW - 8000, "ended": NOW - 770,
}  # fmt: skip


def answer(**more: Any) -> bytes:
    values: dict[str, Any] = {
        "v": VERSION, "user": "ann", "read_at": NOW, "problem": "", "days": 28,
        "forecasts": [{"server": "srv", "forecast_at": NOW - 60}], "waiting": [], "running": [], "ended": [],
        "requests": [], "probes": [], **more,
    }  # fmt: skip
    counts = {f"{kind}_jobs": len(values[kind]) for kind in ("waiting", "running", "ended")}
    return json.dumps(counts | values).encode() + b"\n"


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """A socket at which each connection gets these bytes."""
    listener = socket.socket(socket.AF_UNIX)
    path = tmp_path / "me.sock"
    listener.bind(str(path))
    listener.listen()
    served = b""

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            with client:
                client.sendall(served)

    thread = threading.Thread(target=accept)
    thread.start()

    def given(text: bytes) -> Path:
        nonlocal served
        served = text
        return path

    yield given
    listener.shutdown(socket.SHUT_RDWR)
    thread.join()
    listener.close()


def printed(path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert run(["me", "--socket", str(path), *options]) == 0
    return capsys.readouterr().out


def test_text_json_and_csv(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    request = {"walltime": 86400, "jobs": 200, "suggested": 14400, "longer": 1}
    path = serve(answer(waiting=[waiting()], running=[RUNNING], ended=[ENDED], requests=[request]))
    text = printed(path, capsys)
    assert "1 waiting, 1 running, 1 ended in 28 days" in text
    assert f"the next start: about {local_time(NOW + HOUR, NOW)}\n" in text
    assert "first in the queue" in text
    assert "walltime exceeded" in text
    assert (
        "Request 4 h instead of 24 h: of your 200 jobs with it 1 ran longer.  A shorter job can start sooner.  "
        "To change a job: qalter -l walltime=04:00:00 1.srv.  A job that reaches its walltime is killed."
    ) in text
    document = documented("me", printed(path, capsys, "--format", "json"))
    assert document["waiting"][0]["range90"] == [NOW, NOW + 2 * HOUR]
    assert 0.05 <= document["waiting"][0]["today"] <= 0.95
    rows = documented_rows("me", printed(path, capsys, "--format", "csv"))
    assert [(row["kind"], row["job"], row["expected"]) for row in rows] == [
        ("waits", "1.srv", str(NOW + HOUR)), ("runs", "2.srv", str(NOW + 1200)), ("ended", "3.srv", ""),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sooner", "said"),
    [(16_200, "1.srv would probably start 4.5 h sooner."), (5, "1.srv would probably not start sooner.")],
)
def test_advice_says_what_it_would_change(
    sooner: int, said: str, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    request = {"walltime": 86400, "jobs": 200, "suggested": 14400, "longer": 0}
    path = serve(answer(waiting=[waiting(suggested=14400, sooner=sooner)], requests=[request]))
    assert f"of your 200 jobs with it none ran longer.  {said}  To change" in printed(path, capsys)


def test_many_jobs_are_summed_up_in_text_and_complete_in_json(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    array = [waiting(f"9[{index}].srv", HOUR * (index + 1)) for index in range(40)]
    path = serve(answer(waiting=[*array, *(waiting(f"{number}.srv", HOUR * number) for number in range(100, 2060))]))
    text = printed(path, capsys)
    assert "9[0].srv, first of 40" in text
    assert "9[39].srv, last of 40" in text
    assert "and 1,942 more that wait" in text
    assert len(text.splitlines()) < 30
    assert len(json.loads(printed(path, capsys, "--format", "json"))["waiting"]) == 2000


def test_hostile_names_are_harmless(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    name = "\x1b[2J\x9b\u202eevil\u200b\n| a |"
    ended = ENDED | {"name": name, "state": name}
    path = serve(answer(user=name, waiting=[waiting(name, name=name, queue=name, waits_for=name)], ended=[ended]))
    for form in ("table", "json", "csv"):
        text = printed(path, capsys, "--format", form)
        assert "evil" in text
        assert not set(text) & set("\x1b\x9b\u202e\u200b"), form


PROBES = [
    {"server": "srv", "queue": queue, "ncpus": ncpus, "walltime": walltime, "submit_to": ["", queue],
     "expected": NOW + wait, "range90": [NOW, NOW + 2 * wait], "forecast_at": NOW - 60}
    for queue, ncpus, walltime, wait in (
        ("long", 4, 86400, 5 * HOUR), ("long", 4, HOUR, 600), ("long", 64, HOUR, 0), ("fast\x1b", 4, 86400, 2 * HOUR)
    )
]  # fmt: skip


def test_a_plan_says_what_starts_sooner_and_what_is_not_known(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    path, options = serve(answer(probes=PROBES)), "-l select=3:ncpus=1:mem=1gb,walltime=23:00:00 -q long"
    text = printed(path, capsys, "--plan", options)
    assert f"3 processors for 23 h in queue long, submitted now; forecast at {local_time(NOW - 60, NOW)}\n" in text
    assert "rounded up to a job that is forecast: 4 processors for 24 h\n" in text
    lines = [re.split(r" *\| *", line)[1:-1] for line in text.splitlines() if line.startswith("|")][2:]
    assert [(line[0], line[3], line[5]) for line in lines] == [
        ("as requested", local_time(NOW + 5 * HOUR, NOW), ""), ("-q fast?", local_time(NOW + 2 * HOUR, NOW), "3 h"),
        ("-l walltime=01:00:00", local_time(NOW + 600, NOW), "4.8 h"),
    ]  # fmt: skip
    assert "your limits, your fair share, jobs that are submitted later and come first, mem.\n" in text
    document = documented("me --plan", printed(path, capsys, "--plan", options, "--format", "json"))
    assert [row["walltime"] for row in document] == [86400, 86400, HOUR]
    assert len(documented_rows("me --plan", printed(path, capsys, "--plan", options, "--format", "csv"))) == 3
    alone = printed(path, capsys, "--plan", "-l ncpus=64,walltime=60")
    assert "No shorter walltime and no other queue of those that are forecast starts clearly sooner." in alone


def test_the_waits_of_all_sizes_and_walltimes_are_a_table_for_each_queue(
    serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    # Nobody gets into the last queue with this walltime.
    path = serve(answer(probes=[*PROBES, {**PROBES[0], "queue": "hidden", "submit_to": []}]))
    text = printed(path, capsys, "--waits")
    assert "hidden" not in text
    assert re.search(r"queue long of srv.*\n\n\| processors \| +1 h \| +24 h \|", text)
    assert re.search(r"\| +4 \| 10 min \| +5 h \|\n\| +64 \| +now \| +\N{EN DASH} \|", text)
    assert len(documented("me --waits", printed(path, capsys, "--waits", "--format", "json"))) == 4
    assert len(documented_rows("me --waits", printed(path, capsys, "--waits", "--format", "csv"))) == 4


def test_another_walltime_for_all_jobs_that_wait_or_for_some(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    path = serve(answer(waiting=[waiting(), waiting("7.srv", 30 * HOUR), waiting("8.srv", None)], probes=PROBES))
    question = ("--if", "walltime=1:00:00")
    text = printed(path, capsys, *question)
    assert "with 1 h at the latest" in text
    assert re.search(rf"\| 7\.srv \| .* \| +{local_time(NOW + 600, NOW)} \| +1\.2 d \|", text)
    assert run(["me", "--socket", str(path), *question, "9"]) == 2
    assert "9: no such job of yours waits" in capsys.readouterr().err
    found = documented("me --if", printed(path, capsys, "7", *question, "--format", "json"))
    assert [(row["job"], row["at_the_latest"]) for row in found] == [("7.srv", NOW + 600)]
    assert len(documented_rows("me --if", printed(path, capsys, *question, "--format", "csv"))) == 3
    many = serve(answer(waiting=[waiting(f"{number}.srv") for number in range(30)], probes=PROBES))
    assert "and 10 more that wait" in printed(many, capsys, *question)


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (("--plan", "-q x", "--waits"), 2, "give one of them"),
        (("7",), 2, "a JOB goes with --if walltime=HH:MM:SS"),
        (("--if", "walltime=60", "7"), 1, "no job of yours waits"),
        (("--plan", "-q x"), 1, "no forecast of jobs that are not submitted: this site makes none, or has not begun"),
        (("--waits",), 1, "no forecast of jobs that are not submitted"),
    ],
)
def test_a_question_without_an_answer_is_one_line(
    options: tuple[str, ...], status: int, message: str, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["me", "--socket", str(serve(answer())), *options]) == status
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert message in captured.err


def test_old_forecasts_are_said_to_be_old_after_a_plan(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    old = [{**probe, "forecast_at": NOW - 3 * HOUR} for probe in PROBES]
    assert run(["me", "--socket", str(serve(answer(probes=old, forecasts=[]))), "--waits"]) == 0
    assert capsys.readouterr().err.startswith("! the forecasts are 3 h old, and starts may be wrong")


@pytest.mark.parametrize(
    ("job", "made", "reason"),
    [
        (waiting(wait=None), None, "no forecast: this site makes none"),
        (waiting(wait=None), NOW - 6000, "no forecast yet: it was submitted after the last one"),
        (waiting(wait=None), NOW, "no forecast: it is too far behind in the queue"),
        (waiting(wait=None, waits_for="queue long is stopped"), NOW, "queue long is stopped"),
    ],
)
def test_a_job_without_a_forecast_says_why(
    job: dict[str, Any], made: int | None, reason: str, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    forecasts = [] if made is None else [{"server": "srv", "forecast_at": made}]
    path = serve(answer(waiting=[job], forecasts=forecasts))
    assert reason in printed(path, capsys)


def test_old_data_is_said_to_be_old(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    old = [{"server": "srv", "forecast_at": NOW - 3 * HOUR}]
    text = printed(serve(answer(waiting=[waiting()], forecasts=old, problem="the store cannot be read")), capsys)
    first, second, *_ = text.splitlines()
    assert first.startswith("! the store cannot be read; what is shown is as of ")
    assert second.startswith("! the forecasts are 3 h old, and starts may be wrong: tell your administrators")


def test_a_user_without_jobs_is_told_so(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(serve(answer(user="")), capsys)
    assert text == "no job of yours waits, runs, or ended in the last 28 days\n"


@pytest.mark.parametrize(
    ("served", "message"),
    [
        (b"", "the answer was cut off"),
        (answer()[:-10], "the answer was cut off"),
        (BUSY, "asked too often"),
        (b'{"v": 1}\n', "of another version"),
        (b"[]\n", "of another version"),
        (answer(surprise=1), "of another version"),
        (answer(waiting=[{}]), "of another version"),
        (b"\xff\n", "of another version"),
        (answer(read_at=0, problem="the jobs are not read yet"), "the jobs are not read yet"),
    ],
)
def test_a_wrong_answer_is_one_line(
    served: bytes, message: str, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["me", "--socket", str(serve(served))]) == 1
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert message in captured.err


def test_without_the_process_the_line_says_who_must_act(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "dead"))
    for name, what in (("missing", "not there"), ("dead", "nobody answers: Connection refused")):
        assert run(["me", "--socket", str(tmp_path / name)]) == 1
        said = capsys.readouterr().err
        assert what in said
        assert "ask your administrators (root: systemctl status softwalltime-me.socket softwalltime-me)" in said


@pytest.mark.parametrize(
    ("served", "verdict", "text"),
    [
        (answer(), "ok", "answers users"),
        (answer(forecasts=[]), "warning", "there is no forecast"),
        (answer(forecasts=[{"server": "srv", "forecast_at": NOW - 5 * HOUR}]), "warning", "5.0 hours old"),
        (answer(problem="the store cannot be read"), "problem", "the store cannot be read"),
        (b"", "problem", "cut off"),
    ],
)
def test_doctor_says_whether_users_are_answered(served: bytes, verdict: str, text: str, serve: Serve) -> None:
    (finding,) = check_users(serve(served))
    assert finding.verdict == verdict
    assert text in finding.text
    assert bool(finding.act) is (verdict != "ok")


def test_a_full_backlog_is_waited_for(tmp_path: Path) -> None:
    """Any user can fill it, as fast as the server closes his connections."""
    path = tmp_path / "me.sock"
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as first:
        listener.bind(str(path))
        listener.listen(0)
        first.connect(str(path))

        def take() -> None:
            time.sleep(0.3)
            for _ in range(2):
                listener.accept()[0].close()

        taking = threading.Thread(target=take)
        taking.start()
        with pytest.raises(NoOwnJobsError, match="the answer was cut off"):
            ask_own_jobs(path)
        taking.join()


def test_doctor_says_nothing_where_the_site_does_not_offer_it(tmp_path: Path) -> None:
    assert list(check_users(tmp_path / "me.sock")) == []


def test_the_probability_follows_the_ranges() -> None:
    def job(**more: Any) -> WaitingJob:
        text = json.dumps(json.loads(answer(waiting=[waiting(wait=0, **more)]))).encode()
        return OwnJobs.from_json(text).waiting[0]

    moments = {-HOUR - 1: 0.05, -600: 0.25, -300: 0.375, 0: 0.5, 600: 0.75, HOUR: 0.95, 9 * HOUR: 0.95}
    for moment, chance in moments.items():
        assert chance_by(job(), NOW + moment) == pytest.approx(chance)
    assert chance_by(job(range90=[NOW, NOW], range50=[NOW, NOW]), NOW) is None
    assert chance_by(job(expected=None), NOW) is None


def test_a_day_ends_at_local_midnight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        # The day on which summer time begins has 23 hours.
        morning = int(datetime(2026, 3, 29, 0, 30).timestamp())
        assert next_midnight(morning) - morning == int(22.5 * HOUR)
    finally:
        monkeypatch.undo()
        time.tzset()
