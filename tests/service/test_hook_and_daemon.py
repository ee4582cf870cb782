"""The hook and the daemon together, from the submission of a job to its start."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from softwalltime.emulation.pbs.hook_runner import HookOutcome, HookScript
from softwalltime.emulation.pbs.pbs_events import Event, Site, altered, postqueued, queued, started
from tests.hooks.listening import open_sockets
from tests.samples import ROOT, job
from tests.service.running import Daemon, until
from tests.store.stored import add_jobs

HOOK = HookScript(ROOT / "hooks" / "softwalltime_hook.py")
SITE = Site(
    queues={"short": {"queue_type": "Execution", "resources_default": {"walltime": "01:00:00"}}},
    server={"default_queue": "short"},
)
HISTORY = [job(job_id=f"{n}.srv", runtime=600, end=1_700_000_000 + n) for n in range(3)]
NOW = 1_700_001_000
WAITING = job(job_id="70.srv", submitted=NOW, walltime=3600, queue="short").submission


@pytest.fixture
def daemon(tmp_path: Path, database: str, engine: Engine) -> Iterator[Daemon]:
    with engine.begin() as connection:
        add_jobs(connection, HISTORY)
    running = Daemon(tmp_path, database).start()
    yield running
    running.send(signal.SIGCONT)
    running.end(signal.SIGKILL)


def configured(daemon: Daemon, **configuration: object) -> Path:
    """Write the hook's configuration."""
    file = daemon.config.with_name("hook.json")
    # Far longer than an answer takes on a busy machine: tests/benchmarks measures the speed.
    settings = {"deadline_ms": 5000, "events": {"postqueuejob": True}}
    file.write_text(json.dumps({"socket": str(daemon.socket), **settings, **configuration}))
    return file


def run(daemon: Daemon, event: Event, **configuration: object) -> HookOutcome:
    """Run the hook file as pbs_server does; return its outcome."""
    return HOOK.run(event, configured(daemon, **configuration))


def test_a_job_gets_a_prediction_while_waiting_and_its_walltime_at_its_start(daemon: Daemon) -> None:
    submitted = run(daemon, postqueued(WAITING, site=SITE))
    assert (submitted.accepted, submitted.soft_walltime) == (True, 600)
    start = run(daemon, started(WAITING, site=SITE, now=NOW + 500, soft_walltime=600))
    assert (start.accepted, start.soft_walltime) == (True, 3600)


def test_without_postqueuejob_queuejob_uses_the_default_walltime(daemon: Daemon) -> None:
    site = Site(queues=SITE.queues, server=SITE.server, postqueuejob=False)
    without_walltime = job(job_id="", submitted=NOW, walltime=None, queue="").submission
    assert run(daemon, queued(without_walltime, site=site)).soft_walltime == 600


def test_an_altered_job_keeps_a_valid_soft_walltime(daemon: Daemon) -> None:
    lowered = run(daemon, altered(WAITING, {"walltime": "00:05:00"}, site=SITE, now=NOW, soft_walltime=600))
    assert (lowered.accepted, lowered.soft_walltime) == (True, 300)
    raised = run(daemon, altered(WAITING, {"walltime": "10:00:00"}, site=SITE, now=NOW, soft_walltime=300))
    assert (raised.accepted, raised.soft_walltime) == (True, 600)


def test_shadow_mode_sets_nothing_and_records_every_decision(daemon: Daemon, engine: Engine) -> None:
    daemon.configure('mode = "shadow"\nwaiting = "v1"\n')
    daemon.send(signal.SIGHUP)
    until(lambda: daemon.status()["policy"]["mode"] == "shadow")
    outcome = run(daemon, postqueued(WAITING, site=SITE))
    assert (outcome.accepted, outcome.soft_walltime) == (True, None)
    assert daemon.end() == 0
    with engine.connect() as connection:
        row = connection.execute(text("select job_id, soft_walltime, action from softwalltime.predictions")).one()
    assert tuple(row) == ("70.srv", 600, "shadow")
    daemon.start()


def test_without_a_daemon_requests_are_accepted_without_prediction(daemon: Daemon) -> None:
    daemon.send(signal.SIGSTOP)
    told = []
    for _ in range(10):
        outcome = run(daemon, postqueued(WAITING, site=SITE), deadline_ms=50, breaker_seconds=3600)
        assert (outcome.accepted, outcome.soft_walltime) == (True, None)
        told.append("no answer: timed out" in outcome.log[0][1])
    # Three timeouts, and then the breaker is open.
    assert told == [True] * 3 + [False] * 7
    daemon.send(signal.SIGCONT)
    daemon.end(signal.SIGKILL)
    outcome = run(daemon, started(WAITING, site=SITE, now=NOW, soft_walltime=600), breaker_seconds=0)
    assert (outcome.accepted, outcome.soft_walltime) == (True, 3600), "careful without an answer"
    daemon.start()
    assert run(daemon, postqueued(WAITING, site=SITE), breaker_seconds=0).soft_walltime == 600


def test_a_daemon_that_was_replaced_between_two_runs_answers_the_second(daemon: Daemon) -> None:
    for ending in (signal.SIGTERM, signal.SIGKILL):
        assert run(daemon, postqueued(WAITING, site=SITE)).soft_walltime == 600
        daemon.end(ending)
        daemon.start()
        # Not through the breaker: one failure would be seen.
        assert run(daemon, postqueued(WAITING, site=SITE), breaker_failures=1).soft_walltime == 600
    daemon.send(signal.SIGSTOP)
    assert "timed out" in run(daemon, postqueued(WAITING, site=SITE), deadline_ms=50).log[0][1]
    daemon.send(signal.SIGCONT)
    assert run(daemon, postqueued(WAITING, site=SITE)).soft_walltime == 600


def test_a_process_that_pbs_server_forked_uses_its_own_connection(daemon: Daemon) -> None:
    event, file = postqueued(WAITING, site=SITE), configured(daemon)
    before = open_sockets()
    assert HOOK.run(event, file).soft_walltime == 600
    ours = open_sockets() - before
    assert ours
    child = os.fork()
    if child == 0:
        status = 1
        try:
            answer = HOOK.run(event, file).soft_walltime
            status = int(answer != 600 or not open_sockets() - before or bool(open_sockets() & ours))
        finally:
            os._exit(status)  # Without pytest's cleanup.
    assert os.waitpid(child, 0)[1] == 0
    assert HOOK.run(event, file).soft_walltime == 600
    assert open_sockets() - before == ours, "the child has not ended this process's connection"


def test_answers_after_the_deadline_are_recorded_as_late(daemon: Daemon, engine: Engine) -> None:
    """A resumed daemon reads the requests and answers on closed connections."""
    daemon.send(signal.SIGSTOP)
    for _ in range(2):
        run(daemon, postqueued(WAITING, site=SITE), deadline_ms=50)
    daemon.send(signal.SIGCONT)
    until(lambda: daemon.status()["requests"].get("predict", 0) >= 2)
    run(daemon, postqueued(WAITING, site=SITE))
    run(daemon, started(WAITING, site=SITE, now=NOW + 5, soft_walltime=600))
    assert daemon.end() == 0
    with engine.connect() as connection:
        recorded = connection.execute(text("select event, action, had from softwalltime.predictions order by id"))
        assert [tuple(row) for row in recorded] == [
            ("postqueuejob", "late", 0),
            ("postqueuejob", "late", 0),
            ("postqueuejob", "set", 0),
            ("runjob", "set", 600),
        ]
    daemon.start()
