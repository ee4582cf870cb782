"""When a job submitted now would start: the daemon's grid, and the command that forecasts one job."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from softwalltime import read_jobs
from softwalltime.cli import run
from softwalltime.measure.forecast.calibration import Corrections
from softwalltime.measure.forecast.expected import Learnt
from softwalltime.measure.forecast.learning import learn_history, note_live
from softwalltime.measure.forecast.queue_model import model_of
from softwalltime.measure.forecast.runtimes import RuntimeModel
from softwalltime.measure.forecast.snapshot import QueueSettings, ServerSnapshot
from softwalltime.measure.forecast.start_times import distributions_of
from softwalltime.measure.forecast.what_if import PROBE, RUNS
from softwalltime.predict.predictors.registry import make
from softwalltime.service import probe_grid, spare_time
from softwalltime.service.probe_grid import ProbeGrid
from softwalltime.service.spare_time import MAX_TIME_SHARE, SpareTime
from softwalltime.store.forecast_rows import StoredProbe
from tests.forecast.states import NOW, recorded, running, server, waiting

HOUR = 3600
WALLTIMES = Learnt(RuntimeModel(None))
"""Nothing is known of runtimes but walltimes."""


def grid(snapshot: ServerSnapshot, learnt: Learnt = WALLTIMES) -> dict[tuple[str, int, int], StoredProbe]:
    """The grid after two steps with much time, by queue, processors and hours."""
    queue = model_of(snapshot)
    ids = [job.submission.job_id for job in queue.live]
    known = dict(zip(ids, distributions_of(queue, learnt.runtimes), strict=True))
    made = ProbeGrid("soft_walltime", 100_000)
    made.step(snapshot, queue, learnt, known)
    return {(row.queue, row.ncpus, row.walltime): row for row in made.step(snapshot, queue, learnt, known)}


def test_the_grid_has_what_the_command_starts_forecasts_of_the_same_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOFTWALLTIME_CONFIG", str(tmp_path / "softwalltime.toml"))
    (tmp_path / "softwalltime.toml").write_text("")
    snapshot, path, log = recorded(), tmp_path / "queue.json", tmp_path / "accounting"
    path.write_text(snapshot.to_json())
    assert run(["generate", str(log), "--jobs", "300", "--seed", "3"]) == 0
    learnt = Learnt(RuntimeModel(make("v1")))
    learn_history(learnt.runtimes, read_jobs(log), snapshot.taken)
    note_live(learnt.runtimes, snapshot.jobs)
    cells = grid(snapshot, learnt)
    # Short takes at most two hours, long at least two.
    assert {walltime for queue, _, walltime in cells if queue == "short"} == {900, HOUR, 2 * HOUR}
    assert min(walltime for queue, _, walltime in cells if queue == "long") == 4 * HOUR
    assert {ncpus for _, ncpus, _ in cells} == {1, 2, 4, 8, 16}
    command = ["starts", "--snapshot", str(path), "--log", str(log), "--predictor", "v1", "--runs", str(RUNS)]
    for queue, ncpus, walltime in cells:
        command += ["--if", f"user={PROBE},ncpus={ncpus},walltime={walltime},queue={queue}"]
    capsys.readouterr()
    assert run([*command, "--format", "json"]) == 0
    jobs = json.loads(capsys.readouterr().out)["jobs"]
    assert len({job["expected"] for job in jobs}) > 3
    assert [(job["expected"], job["range90"]) for job in jobs] == [
        (cell.expected, [cell.low90, cell.high90]) for cell in cells.values()
    ]


def test_a_job_gets_into_a_queue_directly_or_through_a_routing_queue() -> None:
    found = recorded()
    queues = {queue.name: queue for queue in found.queues}
    long, short, route = replace(queues["long"], from_route_only=True), queues["short"], queues["route"]
    cells = grid(replace(found, queues=(route, short, long)))
    assert {cell.submit_to for cell in cells.values() if cell.queue == "short"} == {("", "route", "short")}
    assert {cell.submit_to for cell in cells.values() if cell.queue == "long"} == {("", "route")}
    for closed in (replace(short, restricted=True), replace(short, enabled=False), replace(short, started=False)):
        assert {cell.queue for cell in grid(replace(found, queues=(route, closed, long))).values()} == {"long"}


def test_a_shorter_job_starts_in_a_gap_before_the_first_job_of_the_queue() -> None:
    busy = server(16, running(1, 12, 4 * HOUR, 0), waiting(2, 16, HOUR), default_queue="q")
    cells = grid(replace(busy, queues=(QueueSettings("q", True, True, True),)))
    assert cells["q", 4, 4 * HOUR].expected == NOW
    assert cells["q", 4, 12 * HOUR].expected == NOW + 5 * HOUR
    assert cells["q", 8, HOUR].expected == NOW + 5 * HOUR
    # A queue without a limit, and the whole machine.
    assert max(cells) == ("q", 16, 7 * 86400)


def test_of_many_jobs_there_are_fewer_runs_and_no_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    learnt = Learnt(RuntimeModel(make("v1")), correct=lambda _: Corrections())
    found = grid(recorded(), learnt)
    assert all(row.low90 is not None and row.high90 is not None for row in found.values())
    monkeypatch.setattr(probe_grid, "MANY_JOBS", 1)
    fewer = grid(recorded(), learnt)
    assert {key: row.expected for key, row in fewer.items()} == {key: row.expected for key, row in found.items()}
    assert {(row.low90, row.high90) for row in fewer.values()} == {(None, None)}


def test_results_are_computed_in_turn_as_time_permits(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 0.0
    monkeypatch.setattr(spare_time.time, "monotonic", lambda: clock)

    def compute(key: str) -> str:
        nonlocal clock
        clock += 10.0
        return f"{key} at {clock:g}"

    # There is time for four of six at each step.
    results = SpareTime[str, str](int(30 / MAX_TIME_SHARE), renew=1)
    assert list(results.step(1000, "abcdef", compute)) == list("abcd")
    assert results.affordable == pytest.approx(1800 * MAX_TIME_SHARE / 10)
    second = results.step(1300, "abcdef", compute)
    assert [second[key].made for key in "abcdef"] == [1300, 1300, 1000, 1000, 1300, 1300]
    # What is too old is not returned until its turn has come.
    assert sorted(results.step(3200, "abcdefgh", compute)) == list("cdgh")
    assert sorted(results.step(3500, "abcdefgh", compute)) == list("abcdefgh")


def test_what_is_new_enough_is_not_computed_again() -> None:
    results = SpareTime[str, int](100_000)
    computed: list[str] = []

    def compute(key: str) -> int:
        computed.append(key)
        return len(computed)

    for now in (1000, 2000, 2801):
        assert set(results.step(now, "ab", compute)) == {"a", "b"}
    assert computed == list("abab")
