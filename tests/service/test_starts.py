"""The daemon's forecasts of starts: published from an emulated server, and what stops them."""

import logging
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from pydantic import TypeAdapter
from sqlalchemy import Engine, text

from softwalltime.core.errors import UsageError
from softwalltime.core.settings import Settings
from softwalltime.service.forecast_thread import COMMAND, StartOptions, start_options
from softwalltime.service.live.connection import PbsConnection
from softwalltime.service.live.ifl import IflError
from softwalltime.service.start_process import OUT_OF_MEMORY
from softwalltime.service.start_publisher import StartPublisher, publish, shown_text, shown_times
from softwalltime.service.status import StartsStatus
from softwalltime.store.forecast_rows import StoredStart, publish_starts, read_expected
from tests.forecast.states import DATA
from tests.live.emulated import EmulatedServer, agent_at
from tests.samples import job
from tests.service.running import PATIENT, Daemon, until
from tests.store.stored import add_jobs

pytestmark = pytest.mark.postgres


@pytest.fixture
def now() -> int:
    return int(time.time())


class Site:
    """A server of 16 processors of which one job holds all, and a store whose jobs used half of their walltimes."""

    def __init__(self, folder: Path, engine: Engine, now: int) -> None:
        self.engine = engine
        self.now = now
        self.server = EmulatedServer(folder)
        self.connection: PbsConnection = self.server.connect()
        shape = {"Resource_List__ncpus": "16", "Resource_List__walltime": "02:00:00", "queue": "short"}
        self.server.add("1.pbs1", job_state="R", stime=str(now - 600), ctime=str(now - 700), **shape)
        for number in (2, 3):
            self.server.add(f"{number}.pbs1", ctime=str(now - 60 + number), **shape)
        self.server.add("4.pbs1", ctime=str(now - 50), job_state="H", Hold_Types="u", **shape)
        ends = [now - 2000 * number for number in range(1, 40)]
        with engine.begin() as connection:
            add_jobs(connection, [
                job("alice", submitted=end - 9000, end=end, runtime=3600, walltime=7200, job_id=f"{end}.pbs1",
                    server="pbs1")
                for end in ends
            ])  # fmt: skip

    def publisher(self, **options: object) -> StartPublisher:
        values = {"mode": "on", "runs": 20, "sched_config": DATA / "sched_config", "predictor": "v1", **options}
        return StartPublisher(
            Settings(), StartOptions.model_validate(values), self.connection, self.engine, "soft_walltime"
        )


@pytest.fixture
def site(tmp_path: Path, engine: Engine, now: int) -> Iterator[Site]:
    made = Site(tmp_path, engine, now)
    yield made
    made.connection.close()


def test_each_waiting_job_gets_its_expected_start_from_learnt_runtimes(site: Site) -> None:
    status = site.publisher().step(site.now)
    with site.engine.connect() as connection:
        found = {each.start.job_id: each for each in read_expected(connection)}
    # Jobs run for an hour; the first one has run for 10 minutes.
    assert found["2.pbs1"].start.expected == site.now + 3000
    assert found["3.pbs1"].start.expected == site.now + 3000 + 3600
    assert found["4.pbs1"].start.expected is None
    assert found["4.pbs1"].start.waits_for.startswith("it is held")
    assert {each.server for each in found.values()} == {"pbs1"}
    assert (status.waiting, status.forecast, status.learnt, status.problem) == (3, 2, 39, "")
    (queue,) = status.queues
    assert (queue.queue, queue.waiting, queue.forecast) == ("short", 3, 2)
    assert (queue.mean_wait, queue.longest_wait) == (4800, 6600)
    assert runtimes(site.engine) == {"1.pbs1": (3600, 3600, 3600), "2.pbs1": (3600,) * 3, "3.pbs1": (3600,) * 3}
    with site.engine.connect() as connection:
        probes = connection.execute(text("SELECT * FROM softwalltime.probe_starts")).all()
    # Both waiting jobs run for an hour first.  The queue is the server's default.
    assert {(row.server, row.queue, tuple(row.submit_to)) for row in probes} == {("pbs1", "short", ("", "short"))}
    assert {row.expected for row in probes if row.ncpus == 16} == {site.now + 3000 + 2 * 3600}


def runtimes(engine: Engine) -> dict[str, tuple[int, ...]]:
    """The predicted runtimes of the store: shortest, median and longest by job id."""
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT * FROM softwalltime.expected_runtimes")).all()
    return {row.job_id: (row.shortest, row.median, row.longest) for row in rows}


def test_jobs_that_end_between_looks_teach_and_judge_the_forecasts(site: Site) -> None:
    publisher = site.publisher()
    publisher.step(site.now)
    for number, start, runtime in ((1, site.now - 600, 1200), (2, site.now + 600, 1200)):
        ended = job(
            "alice", submitted=site.now - 700, end=start + runtime, runtime=runtime, walltime=7200,
            job_id=f"{number}.pbs1", start=start, server="pbs1",
        )  # fmt: skip
        with site.engine.begin() as connection:
            add_jobs(connection, [ended])
        site.server.remove(f"{number}.pbs1")
    later = site.now + 1800
    site.server.add("3.pbs1", job_state="R", stime=str(later))
    site.server.add("5.pbs1", ctime=str(later), Resource_List__ncpus="16", Resource_List__walltime="02:00:00")
    status = publisher.step(later)
    assert status.learnt == 41
    # Those of jobs that ended are gone.
    assert runtimes(site.engine) == {"3.pbs1": (1200,) * 3, "5.pbs1": (1200,) * 3}
    with site.engine.connect() as connection:
        (five,) = [each for each in read_expected(connection) if each.start.job_id == "5.pbs1"]
        (row,) = connection.execute(text("SELECT * FROM softwalltime.start_times WHERE job_id = '2.pbs1'")).all()
    # v1: the mean of the last two runtimes.
    assert five.start.expected == later + 1200
    assert row.started == site.now + 600
    (quality,) = status.quality
    assert (quality.queue, quality.forecasts, quality.bias) == ("short", 1, 2400)


def test_a_job_that_its_user_holds_is_judged_from_its_release_on(site: Site) -> None:
    publisher = site.publisher()
    publisher.step(site.now)
    site.server.add("2.pbs1", job_state="H", Hold_Types="u", etime="")
    publisher.step(site.now + 300)

    def forecasts() -> list[int]:
        with site.engine.connect() as connection:
            rows = connection.execute(text("SELECT forecast_at FROM softwalltime.start_times WHERE job_id = '2.pbs1'"))
            (now,) = [each.start for each in read_expected(connection) if each.start.job_id == "2.pbs1"]
        assert (now.expected is None) == now.waits_for.startswith("it is held by its user (Hold_Types = u)")
        return sorted(rows.scalars())

    assert forecasts() == []
    released = site.now + 7200
    site.server.add("2.pbs1", job_state="Q", Hold_Types="n", etime=str(released - 10))
    publisher.step(released)
    assert forecasts() == [released]
    site.server.add("2.pbs1", job_state="R", stime=str(released + 60))
    with site.engine.begin() as connection:
        add_jobs(connection, [
            job("alice", submitted=site.now - 58, end=released + 120, runtime=60, walltime=7200, job_id="2.pbs1",
                start=released + 60, server="pbs1")
        ])  # fmt: skip
    publisher.step(released + 120)
    with site.engine.connect() as connection:
        (row,) = connection.execute(text("SELECT * FROM softwalltime.start_scores")).all()
    assert (row.forecasts, row.wait) == (1, 60)


def test_judged_forecasts_correct_the_next_ones_also_after_a_restart(site: Site) -> None:
    begin = site.now - 60 * 1000
    with site.engine.begin() as connection:
        for number in range(45):
            at = begin + 900 * number
            # Each was expected after an hour, and started 10 to 20 minutes later.
            raw = (0.0, 60.0, 3600.0, 3600.0, 3600.0, 3000.0, 3300.0, 3900.0, 4200.0)
            start = StoredStart(
                f"{number}.pbs1", at, *(at + each for each in (3600, 3000, 3300, 3900, 4200)), pbs_estimate=None,
                walltime=7200, ncpus=1, user_name="bob", group_name="", project="", queue="short", waits_for="",
                raw=raw,
            )  # fmt: skip
            publish_starts(connection, "pbs1", [start], at, fresh=600)
            started = at + 3600 + 600 + 10 * number
            ended = job(
                "bob", submitted=at, end=started + 60, runtime=60, walltime=7200, job_id=f"{number}.pbs1",
                start=started, server="pbs1",
            )  # fmt: skip
            add_jobs(connection, [ended])

    def given(now: int) -> tuple[int, int]:
        """The 90% range that a process gives that starts."""
        status = site.publisher().step(now)
        assert status.judged == 45
        with site.engine.connect() as connection:
            found = {each.start.job_id: each.start for each in read_expected(connection)}
            kept = connection.execute(
                text("SELECT raw FROM softwalltime.expected_starts WHERE job_id = '2.pbs1'")
            ).scalar_one()
        assert kept[2] == 3000
        low, high = found["2.pbs1"].low90, found["2.pbs1"].high90
        assert low is not None
        assert high is not None
        return low, high

    first = given(site.now)
    assert site.now + 3000 < first[0] < first[1]
    # The second process judges nothing anew.
    assert given(site.now) == first
    # The two jobs wait still: that counts in a process that starts then, too.
    later = site.now + 2 * 86400
    site.server.add("1.pbs1", stime=str(later - 600))
    known = given(later)
    _execute(site.engine, "DELETE FROM softwalltime.start_times WHERE started IS NULL")
    assert known[1] > given(later)[1] > later + 3000


def test_only_the_first_jobs_of_the_queue_are_forecast(site: Site) -> None:
    status = site.publisher(jobs=1).step(site.now)
    assert (status.waiting, status.forecast) == (3, 1)


def test_starts_are_shown_on_the_jobs_and_again_when_they_change(site: Site) -> None:
    publisher = site.publisher(show=True, runs=0)
    assert publisher.step(site.now).shown == 2
    expected = site.now + 3000
    shown = site.server.all()["2.pbs1"]["Resource_List.predicted_start"]
    assert shown == shown_text(expected, expected, expected)
    assert shown_times(shown) == (expected - expected % 60,) * 3
    assert "Resource_List.predicted_start" not in site.server.all()["4.pbs1"]
    assert publisher.step(site.now + 60).shown == 0
    site.server.remove("1.pbs1")
    site.server.add("2.pbs1", job_state="H", Hold_Types="u")
    assert publisher.step(site.now + 120).shown == 2
    assert site.server.all()["2.pbs1"]["Resource_List.predicted_start"] == "unknown"
    # Another publisher sees what is shown, and the budget holds.
    again = site.publisher(show=True, runs=0, shows_per_minute=1, every=60)
    assert again.step(site.now + 180).shown == 0


def test_what_pbs_refuses_for_a_job_is_not_tried_again_and_a_missing_right_is_a_problem(site: Site) -> None:
    site.server.add("2.pbs1", refuse=15004)  # type: ignore[arg-type]  # a number in the file
    publisher = site.publisher(show=True, runs=0)
    assert publisher.step(site.now).refused == 1
    assert publisher.step(site.now + 5).refused == 0
    site.server.add("3.pbs1", refuse=15007)  # type: ignore[arg-type]
    with pytest.raises(IflError):
        site.publisher(show=True, runs=0, change_seconds=60).step(site.now + 3000)
    site.server.add("3.pbs1", refuse=15035)  # type: ignore[arg-type]
    with pytest.raises(IflError, match="create resource predicted_start type=string"):
        site.publisher(show=True, runs=0, change_seconds=60).step(site.now + 3000)


def test_wrong_options_are_named() -> None:
    with pytest.raises(UsageError, match=r"starts\.evry: unknown key; is every meant"):
        start_options({"evry": 3})
    with pytest.raises(UsageError, match=r"starts\.every: should be greater than or equal to 10 \('3'\)"):
        start_options({"every": 3})


class _EndError(BaseException):
    """Ends the loop of a publisher, which survives exceptions."""


def test_what_fails_is_reported_and_tried_again(
    site: Site, database: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    broken = site.server.path.with_suffix(".away")
    steps = [
        lambda: site.server.path.rename(broken),
        lambda: broken.rename(site.server.path),
        lambda: _execute(site.engine, "ALTER TABLE softwalltime.start_times RENAME TO elsewhere"),
        lambda: _execute(site.engine, "ALTER TABLE softwalltime.elsewhere RENAME TO start_times"),
    ]
    reports: list[StartsStatus] = []

    def wait(_seconds: float) -> None:
        if not steps:
            raise _EndError
        steps.pop(0)()

    with agent_at(tmp_path / "agent.sock", site.server) as agent:
        starts = {"mode": "on", "runs": 0, "agent": str(agent), "predictor": "v1"}
        with pytest.raises(_EndError):
            publish(Settings(dsn=database, starts=starts), reports.append, wait)
    assert ["" if not each.problem else each.problem[:30] for each in reports] == [
        "", "the process that talks to PBS ", "", reports[3].problem[:30], "",
    ]  # fmt: skip
    assert "start_times" in reports[3].problem
    assert [each.forecast for each in reports] == [2, 0, 2, 0, 2]
    assert caplog.text.count("starts: learnt 39 jobs") == 2, "at the start, and when the store was away, not PBS"


def _execute(engine: Engine, statement: str) -> None:
    with engine.begin() as connection:
        connection.execute(text(statement))


def test_the_daemon_publishes_through_a_process_that_is_replaced_and_ends_with_it(
    site: Site, database: str, tmp_path: Path
) -> None:
    with agent_at(tmp_path / "agent.sock", site.server) as agent:
        policy = 'mode = "on"\nwaiting = "v1"\n[starts]\nmode = "on"\nruns = 5\nevery = 10\npredictor = "v1"\n'
        daemon = Daemon(tmp_path, database, f'{policy}agent = "{agent}"\n')
        daemon.environment["SOFTWALLTIME_METRICS"] = "127.0.0.1:0"
        daemon.start()
        try:
            until(lambda: daemon.status()["starts"]["taken"])
            first = daemon.status()["starts"]
            assert (first["forecast"], first["problem"]) == (2, "")
            address = daemon.output.read_text().partition("metrics at ")[2].split()[0]
            page = urlopen(address, timeout=60).read().decode()
            assert 'softwalltime_starts_waiting_jobs{queue="short"} 3.0' in page
            assert "softwalltime_starts_up 1.0" in page
            assert 'mean_wait_seconds{queue="short"}' in page
            assert "alice" not in page
            (process,) = _publishers(daemon)
            assert os.getpriority(os.PRIO_PROCESS, process) == 19
            os.kill(process, signal.SIGKILL)
            until(lambda: daemon.status()["starts"]["problem"])
            until(lambda: not daemon.status()["starts"]["problem"])
            (process,) = _publishers(daemon)
            daemon.configure(policy.replace('[starts]\nmode = "on"', '[starts]\nmode = "off"'))
            daemon.send(signal.SIGHUP)
            until(lambda: not _publishers(daemon) and daemon.status()["starts"]["mode"] == "off")
            daemon.configure(f'{policy}agent = "{agent}"\n')
            daemon.send(signal.SIGHUP)
            until(lambda: daemon.status()["starts"]["taken"])
            (process,) = _publishers(daemon)
        finally:
            daemon.end(signal.SIGKILL)
        until(lambda: not Path(f"/proc/{process}").exists() or _state(process) == "Z")


def test_the_process_leaves_signals_to_the_daemon_and_is_the_first_to_be_killed_for_memory(tmp_path: Path) -> None:
    settings = Settings(dsn=f"host={tmp_path}", starts={"mode": "on"})
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(settings.model_dump_json().encode() + b"\n")
        process.stdin.flush()
        assert str(tmp_path) in TypeAdapter(StartsStatus).validate_json(process.stdout.readline()).problem
        assert Path(f"/proc/{process.pid}/oom_score_adj").read_text() == f"{OUT_OF_MEMORY}\n"
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process.send_signal(number)
        _, errors = process.communicate(timeout=PATIENT)
    assert (process.returncode, errors) == (0, b"")


def _publishers(daemon: Daemon) -> list[int]:
    """The processes of the daemon that forecast starts."""
    assert daemon.process is not None
    found = subprocess.run(
        ["ps", "--ppid", str(daemon.process.pid), "-o", "pid=,args="], capture_output=True, text=True, check=False
    ).stdout.splitlines()
    return [int(line.split()[0]) for line in found if "start_process" in line]


def _state(process: int) -> str:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


def test_jobs_that_request_too_much_learn_how_much_sooner_they_would_start(site: Site) -> None:
    # The user's jobs with this walltime ran for ten minutes; job 6 would delay job 2, with ten minutes it would not.
    ends = [site.now - 2000 * number for number in range(1, 40)]
    with site.engine.begin() as connection:
        add_jobs(connection, [
            job("ann", submitted=end - 9000, end=end, runtime=600, walltime=36_000, job_id=f"{end}.old", server="pbs1")
            for end in ends
        ])  # fmt: skip
    site.server.add("1.pbs1", job_state="R", stime=str(site.now - 600), Resource_List__ncpus="15")
    shape = {"Resource_List__ncpus": "1", "Resource_List__walltime": "10:00:00", "euser": "ann"}
    site.server.add("6.pbs1", ctime=str(site.now - 10), **shape)
    site.publisher().step(site.now)
    statement = text("SELECT * FROM softwalltime.expected_runtimes WHERE suggested IS NOT NULL")
    with site.engine.connect() as connection:
        rows = {row.job_id: (row.suggested, row.sooner) for row in connection.execute(statement)}
    # Job 6 would start at once, not after jobs 1 (50 min more), 2 and 3 (an hour each).  Of alice's two waiting jobs
    # the first is tried: it needs the whole machine.
    assert rows == {"2.pbs1": (5400, 0), "6.pbs1": (900, 3000 + 7200)}
