"""``softwalltime what-if`` on small servers with a known answer: without history jobs run for their walltime."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softwalltime.cli import run
from softwalltime.measure.forecast.machine_use import IdleWindow, idle_windows
from softwalltime.measure.forecast.snapshot import LiveJob, QueueSettings, ServerSnapshot, VnodeState
from tests.documented import documented, documented_rows
from tests.forecast.states import NOW, recorded, running, server, waiting

HOUR = 3600
Starts = dict[str, tuple[float | None, float | None]]
"""Hours from now to the start of each waiting job by its number, as it is and after the changes."""
Compare = Callable[..., dict[str, Any]]


@pytest.fixture
def compare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Compare:
    """Return the command's document about a server; no settings of this host."""
    (tmp_path / "none.toml").touch()
    monkeypatch.setenv("SOFTWALLTIME_CONFIG", str(tmp_path / "none.toml"))

    def compare(snapshot: ServerSnapshot, *arguments: str) -> dict[str, Any]:
        file = tmp_path / "queue.json"
        file.write_text(snapshot.to_json())
        assert run(["what-if", "--snapshot", str(file), "--format", "json", *arguments]) == 0
        found: dict[str, Any] = documented("what-if", capsys.readouterr().out)
        return found

    return compare


def nodes(count: int, *jobs: LiveJob, **settings: Any) -> ServerSnapshot:
    """A server with vnodes n1, n2 and so on of 4 processors each, and a queue."""
    vnodes = tuple(VnodeState(f"n{number}", f"n{number}.site", "free", 4) for number in range(1, count + 1))
    queues = (QueueSettings("q", True, True, True, priority=10), QueueSettings("fast", True, True, True))
    return replace(server(4 * count, *jobs, **settings), vnodes=vnodes, queues=queues)


def on(node: str, number: int, walltime: int) -> LiveJob:
    """A job that has just started on all processors of a vnode."""
    return running(number, 4, walltime, elapsed=0, exec_vnode=f"({node}:ncpus=4)")


def in_queue(queue: str, job: LiveJob) -> LiveJob:
    return replace(job, submission=replace(job.submission, queue=queue))


def starts(document: dict[str, Any]) -> Starts:
    def hours(time: int | None) -> float | None:
        return None if time is None else (time - NOW) / HOUR

    return {row["job"].partition(".")[0]: (hours(row["before"]), hours(row["after"])) for row in document["jobs"]}


BUSY = (on("n1", 1, HOUR), on("n2", 2, 2 * HOUR), waiting(3, 4, HOUR), waiting(4, 4, HOUR, user="bob"))


def test_vnodes_that_are_drained_from_now_on_keep_their_jobs_and_take_no_others(compare: Compare) -> None:
    document = compare(nodes(2, *BUSY), "--drain", "n1,now,4h")
    assert starts(document) == {"3": (1, 2), "4": (2, 3)}
    (everybody,) = [row for row in document["classes"] if row["kind"] == "all"]
    assert everybody["wait"] == {"before": 1.5 * HOUR, "after": 2.5 * HOUR, "change": HOUR, "range90": None}
    by_user = {row["name"]: row["wait"]["change"] for row in document["classes"] if row["kind"] == "user"}
    assert by_user == {"alice": HOUR, "bob": HOUR}
    # The job on the drained vnode counts.
    assert (document["used"]["before"], document["used"]["change"]) == (pytest.approx(5 * 4 / 24), 0)
    # A job whose walltime ends after the drain keeps its vnode as long.
    long = nodes(2, on("n1", 1, 6 * HOUR), waiting(3, 4, HOUR), waiting(4, 8, HOUR))
    assert starts(compare(long, "--drain", "n1,now,4h")) == {"3": (0, 0), "4": (6, 6)}
    # The other vnode alone has too few processors in the meantime.
    assert starts(compare(nodes(2, waiting(4, 8, HOUR)), "--drain", "n2.site,now,4:00:00")) == {"4": (0, 4)}


def test_a_later_drain_delays_the_jobs_whose_walltimes_reach_into_it(compare: Compare) -> None:
    snapshot = nodes(2, on("n1", 1, HOUR), waiting(2, 4, 2 * HOUR), waiting(3, 4, 600))
    begin = datetime.fromtimestamp(NOW + 4000).astimezone()
    document = compare(snapshot, "--drain", f"n[1-2],{begin:%Y-%m-%dT%H:%M:%S},1h")
    assert starts(document) == {"2": (0, 7600 / HOUR), "3": (1, 0)}
    assert document["processors"] == [8, 8]
    document = compare(snapshot, "--drain", f"n[1-2],{datetime.fromtimestamp(NOW + 1800).astimezone():%H:%M},1h")
    assert any("1 job on n[1-2] may run beyond" in remark for remark in document["remarks"])


def test_vnodes_are_removed_and_added(compare: Compare) -> None:
    snapshot = nodes(2, *BUSY, waiting(5, 8, HOUR))
    document = compare(snapshot, "--remove", "n[2-2]")
    assert starts(document) == {"5": (3, None), "3": (1, 1), "4": (2, 2)}
    assert document["jobs"][0]["reason"] == "it needs 8 processors, the vnodes that are up have 4"
    document = compare(snapshot, "--add-nodes", "1")
    assert starts(document) == {"3": (1, 0), "4": (2, 1), "5": (3, 2)}
    assert document["processors"] == [8, 12]
    assert "added: 1 vnode, each with 4 processors and 0 GPUs" in document["remarks"]


def test_held_deleted_and_new_jobs_change_the_places_of_others(compare: Compare) -> None:
    document = compare(nodes(2, *BUSY), "--hold", "3")
    assert starts(document) == {"3": (1, None), "4": (2, 1)}
    assert "held by an operator" in document["jobs"][0]["reason"]
    assert starts(compare(nodes(2, *BUSY), "--delete", "1")) == {"3": (1, 0), "4": (2, 1)}
    document = compare(nodes(2, *BUSY), "--submit", "user=new,ncpus=8,walltime=1:00:00,queue=q,count=2")
    assert starts(document) == {"3": (1, 1), "4": (2, 2)}
    (new,) = [row for row in document["classes"] if row["kind"] == "submitted"]
    assert (new["jobs"], new["wait"]["after"], new["wait"]["change"]) == (2, 3.5 * HOUR, None)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--set", "set queue fast Priority = 100"], {"3": (1, 2), "4": (2, 1)}),
        (["--set", "sched_config by_queue = False"], {"3": (1, 1), "4": (2, 2)}),
        (["--set", "queue q started=False"], {"3": (1, None), "4": (2, 1)}),
        (["--set", "server max_run = [u:alice=1],[u:bob=1]"], {"3": (1, 2), "4": (2, 1)}),
        (["--formula", "ncpus - walltime"], {"3": (1, 1), "4": (2, 2)}),
        (["--formula", "ncpus - walltime", "--set", "sched_config by_queue = False"], {"3": (1, 2), "4": (2, 1)}),
        (["--preset", "balanced"], {"3": (1, 2), "4": (2, 1)}),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_settings_and_orders_change_who_is_next(arguments: list[str], expected: Starts, compare: Compare) -> None:
    jobs = (*BUSY[:3], in_queue("fast", waiting(4, 4, HOUR - 60, user="bob")))
    found = starts(compare(nodes(2, *jobs, by_queue=True), *arguments))
    assert {job: tuple(hours and round(hours) for hours in ends) for job, ends in found.items()} == expected


def test_a_preset_is_simulated_with_the_settings_that_it_needs(compare: Compare) -> None:
    need = "eligible_time_enable is off"
    site = {"formula": "eligible_time + ncpus", "eligible_time": False, "by_queue": True}
    found = compare(nodes(2, *BUSY, **site), "--formula", "eligible_time")["remarks"]
    assert any(need in remark for remark in found)
    found = compare(nodes(2, *BUSY, **(site | {"formula": ""})), "--preset", "balanced")["remarks"]
    assert not any(need in remark for remark in found)


def test_a_limit_is_lifted(compare: Compare) -> None:
    limited = nodes(3, *BUSY, limits=(("max_run", "[o:PBS_ALL=2]"),))
    assert starts(compare(limited, "--set", "unset server max_run")) == {"3": (1, 0), "4": (2, 1)}


def test_idle_processors_of_the_queue_as_it_is(compare: Compare) -> None:
    document = compare(nodes(2, on("n1", 1, HOUR), waiting(2, 8, HOUR)))
    found = [((row["start"] - NOW) / HOUR, (row["end"] - NOW) / HOUR, row["processors"]) for row in document["idle"]]
    assert found == [(0, 1, 4), (2, 24, 8)]


def test_an_idle_window_is_idle_as_a_whole_in_nine_of_ten_draws() -> None:
    # Each slot alone is idle in 19 of 20 draws, all of them together in none.
    free = np.full((20, 20), 5) - 5 * np.eye(20, dtype=np.int64)
    assert idle_windows(free[:, :12], NOW) == ()
    # Of the last eight slots one draw differs, of the first slot three do.
    free = np.full((20, 12), 2)
    free[1:, 4:] += 3
    free[:3, 0] = 0
    assert idle_windows(free, NOW) == (IdleWindow(NOW + 1200, NOW + 3600, 5),)


def test_without_jobs_all_processors_are_idle(compare: Compare) -> None:
    document = compare(nodes(2), "--remove", "n1")
    assert document["idle"] == [{"start": NOW, "end": NOW + 24 * HOUR, "processors": 8}]
    assert (document["classes"], document["jobs"], document["processors"]) == ([], [], [8, 4])


def test_a_job_that_waits_for_one_of_unknown_runtime_has_no_forecast(compare: Compare) -> None:
    unknown = replace(BUSY[0], submission=replace(BUSY[0].submission, walltime=None))
    document = compare(nodes(1, unknown, waiting(3, 4, HOUR)), "--add-nodes", "1")
    assert starts(document) == {"3": (None, 0)}
    assert document["jobs"][0]["reason"] == "its start depends on a job of unknown runtime"


@pytest.fixture(scope="module")
def accounting(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("what-if") / "accounting"
    assert run(["generate", str(folder), "--jobs", "500", "--seed", "3"]) == 0
    return str(folder)


def test_the_same_state_twice_differs_in_nothing(compare: Compare, accounting: str) -> None:
    arguments = ["--log", accounting, "--runs", "10", "--predictor", "v1"]
    # A change that changes nothing, with other queues in the same order.
    document = compare(recorded(), *arguments, "--set", "server backfill_depth = 20")
    assert document["runs"] == 10
    changes = [document["used"], *(row["wait"] for row in document["classes"])]
    assert {(change["change"], *change["range90"]) for change in changes} == {(0, 0, 0)}
    foreseen = [row for row in document["jobs"] if row["before"] is not None]
    assert foreseen
    assert any(low < high for low, high in (row["before90"] for row in foreseen))
    for row in foreseen:
        assert (row["after"], row["after90"], row["change"]) == (row["before"], row["before90"], 0)
        assert row["change90"] == [0, 0]


def test_processes_of_their_own_give_the_same_figures(
    compare: Compare, accounting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Limits and a formula are part of what goes to the processes.
    change = ("--set", "server max_run = [u:PBS_GENERIC=1]", "--formula", "1e6 / walltime")
    arguments = ["--log", accounting, "--runs", "9", "--predictor", "percentile", *change]
    here = compare(recorded(), *arguments)
    assert any(row["change"] for row in here["jobs"])
    monkeypatch.setattr("softwalltime.measure.forecast.comparison.MAX_JOBS_IN_PROCESS", 0)
    assert compare(recorded(), *arguments, "--processes", "2") == here


def test_vnodes_are_one_pool_after_the_changes_and_before_or_neither(compare: Compare) -> None:
    half = [running(number, 2, HOUR, elapsed=0, exec_vnode=f"(n{number}:ncpus=2)") for number in (1, 2)]
    job = waiting(3, 4, HOUR)
    snapshot = nodes(2, *half, replace(job, submission=replace(job.submission, select="1:ncpus=4")))
    assert starts(compare(snapshot, "--set", "server backfill_depth = 2")) == {"3": (1, 1)}
    # With a depth of 0 a free processor is one of a pool.
    assert starts(compare(snapshot, "--set", "server backfill_depth = 0")) == {"3": (0, 0)}


def test_a_queue_gets_a_backfill_depth_of_its_own(compare: Compare) -> None:
    first = running(1, 3, HOUR, elapsed=0, exec_vnode="(n1:ncpus=3)")
    snapshot = nodes(1, first, waiting(3, 3, HOUR), in_queue("fast", waiting(4, 4, HOUR)), waiting(5, 1, 3 * HOUR))
    # Job 5 delays job 4, unless that is a top job too.
    document = compare(snapshot, "--set", "queue fast backfill_depth = 1")
    assert starts(document) == {"3": (1, 1), "4": (3, 2), "5": (0, 3)}


def test_the_text_says_who_gains_and_which_jobs_move(
    compare: Compare, tmp_path: Path, accounting: str, capsys: pytest.CaptureFixture[str]
) -> None:
    compare(nodes(2, *BUSY))
    command = ["what-if", "--snapshot", str(tmp_path / "queue.json"), "--add-nodes", "1"]
    assert run(command) == 0
    captured = capsys.readouterr()
    assert ": 8 processors, 12 after the changes, 1 draw\n" in captured.out
    assert re.search(r"\| user +\| bob +\| +1 \| +2 h \| +1 h \| +.1 h \|", captured.out)
    assert re.search(r"\| 3\.srv +\| alice +\| q .* \| +.1 h \|", captured.out)
    assert "added: 1 vnode" in captured.err
    assert run([*command, "--format", "csv"]) == 0
    assert len(documented_rows("what-if", capsys.readouterr().out)) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--drain", "n9,now,4h"], "no vnode or host is called 'n9': pbsnodes -a lists them"),
        (["--drain", "n[1-9],now,4h"], "no vnode or host is called 'n3'"),
        (["--drain", "n1,2020-01-01T08:00,4h"], "2020-01-01T08:00 is past: the server's state is of 2026-11-20 "),
        (["--drain", "n1,25:00,4h"], "'25:00' is no time: write now, 08:00 or 2026-11-20T08:00"),
        (["--drain", "n1,now,soon"], "'soon' is no length: write 90min, 4h, 2d or 4:00:00"),
        (["--drain", "n1,now,0h"], "--remove takes vnodes away for ever"),
        (["--drain", "n1"], "not VNODES,BEGIN,LENGTH: write node[1-8],08:00,4h"),
        (["--remove", "n[1-x]"], "no vnode or host is called 'n[1-x]'"),
        (["--set", "queue slow Priority = 1"], "no queue is called 'slow'; there are q, fast"),
        (["--set", "queue q Priority = x"], "not a whole number"),
        (["--set", "server scheduling = maybe"], "not True or False"),
        (["--set", "server backfill_depth = -1"], "below 0"),
        (["--set", "server max_run = 5"], "the model does not know this limit"),
        (["--set", "server max_queued = [u:PBS_GENERIC=5]"], "does not know max_queued of server; it knows job_sort"),
        (["--set", "queue q"], "not an attribute with its value: write queue long Priority = 100"),
        (["--formula", "licences"], "the formula names 'licences'"),
        (["--formula", "ncpus", "--preset", "order"], "two orders: give one"),
        (["--hold", "1"], "1: no such job waits, to be held"),
        (["--delete", "99"], "99: no such job waits or runs, to be deleted"),
        (["--submit", "ncpus=4,count=0,queue=q"], "count is a number from 1 to 100,000"),
        (["--submit", "ncpus=4,queue=slow"], "no queue is called 'slow'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_named_in_one_line(
    arguments: list[str], message: str, compare: Compare, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "queue.json"
    file.write_text(nodes(2, *BUSY).to_json())
    assert run(["what-if", "--snapshot", str(file), *arguments]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert message in captured.err
