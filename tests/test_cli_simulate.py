"""``softwalltime simulate`` as an administrator types it."""

import json
import re
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from softwalltime.cli import run
from softwalltime.measure.simulation.schedule_metrics import Metrics
from softwalltime.predict.policy.power_order import EXPANSION_FACTOR
from tests.dask_cluster import cluster

METRICS = [field.name for field in fields(Metrics)]
HALF = ["--processors", "128", "--waiting", "factor:0.5"]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("generated") / "accounting"
    assert run(["generate", str(folder), "--jobs", "1200", "--seed", "5"]) == 0
    return str(folder)


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    capsys.readouterr()
    assert run(["simulate", *arguments, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    for figures in found["policies"].values():
        # Wall-clock time differs from run to run.
        assert figures.pop("jobs_per_second") > 0
    return found


def test_a_policy_is_compared_with_todays(logs: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, logs, *HALF)
    today, half = "fcfs+easy", "fcfs+easy waiting=factor:0.5"
    assert list(found["policies"]) == [today, half]
    assert found["processors"] == 128
    assert found["jobs"] + sum(found["left_out"].values()) + found["refused"] == 1200
    for figures in found["policies"].values():
        assert list(figures) == [name for name in METRICS if name != "jobs_per_second"]
    assert list(found["differences"]) == [half]
    change = found["differences"][half]["wait_mean"]
    waits = [found["policies"][name]["wait_mean"] for name in (today, half)]
    assert change == {"mean": pytest.approx(waits[1] - waits[0]), "low": None, "high": None}
    assert found["relative_changes"][half]["wait_mean"]["mean"] == pytest.approx(waits[1] / waits[0] - 1)


def test_a_slack_adds_a_table_of_the_jobs_past_their_bound(logs: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    for kind, least, most in (("slack", 0, 0), ("easy", 0.1, 100)):
        arguments = ["simulate", logs, *HALF, "--order", "ljf", "--backfill", kind, "--slack", "60"]
        assert run([*arguments, "--slack-share", "0.5"]) == 0
        text = capsys.readouterr().out
        row = re.search(rf"\| ljf\+{kind} .* slack=60 slack_share=0.5 +\| +([0-9.]+)% \|", text)
        assert row is not None
        assert least <= float(row[1]) <= most
    assert run(["simulate", logs, *HALF]) == 0
    assert "past bound" not in capsys.readouterr().out


def test_the_table_shows_both_and_says_what_the_columns_mean(logs: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", logs, *HALF, "--by", "size"]) == 0
    text = capsys.readouterr().out
    assert "1,1" in text.splitlines()[0]
    assert "jobs on 128 processors" in text.splitlines()[0]
    assert "| fcfs+easy waiting=factor:0.5 |" in text
    assert "broken: of the starts promised" in text
    assert "fcfs+easy, by size:" in text
    assert re.search(r"\| fcfs\+easy waiting=factor:0\.5 \| +[+-]\d+\.\d% \|.* [+-]\d+\.\d pp \|", text)


def test_shaken_workloads_give_intervals_and_the_same_ones_again(logs: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [logs, *HALF, "--shake", "week", "--seeds", "31-33", "--by", "queue", "--by", "size"]
    found = document(capsys, *arguments)
    assert found["seeds"] == [31, 32, 33]
    change = found["differences"]["fcfs+easy waiting=factor:0.5"]["wait_mean"]
    assert change["low"] < change["mean"] < change["high"]
    assert set(found["classes"]) == {"queue", "size"}
    again = document(capsys, *arguments)
    for one in (found, again):
        one.pop("classes")
    assert again == found


def test_processes_of_their_own_give_the_same_figures(
    logs: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = [logs, *HALF, "--shake", "jitter", "--seeds", "1-3"]
    here = document(capsys, *arguments)
    # The module, not the command of the same name.
    monkeypatch.setattr(sys.modules["softwalltime.measure.simulation.runs"], "MAX_JOBS_IN_PROCESS", 0)
    assert document(capsys, *arguments, "--processes", "2") == here


def test_kept_figures_are_not_computed_again(
    logs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = tmp_path / "figures.jsonl"
    arguments = [logs, *HALF, "--shake", "week", "--seeds", "1,2", "--by", "size", "--keep", str(keep)]
    first = document(capsys, *arguments)
    assert len(keep.read_text().splitlines()) == 4
    # A process was killed while it wrote the last line.
    keep.write_bytes(keep.read_bytes()[:-40])
    simulated = []
    from softwalltime.measure.simulation import runs

    run_policy = runs.run
    monkeypatch.setattr(runs, "run", lambda *each: simulated.append(each[2].waiting) or run_policy(*each))
    assert document(capsys, *arguments) == first
    assert simulated == ["walltime", "factor:0.5"], "one figure was missing, and the baseline it is compared with"
    assert len(keep.read_text().splitlines()) == 4
    assert [file.name for file in tmp_path.iterdir()] == ["figures.jsonl"]


def test_a_file_of_policies_names_them(logs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policies = tmp_path / "policies.toml"
    policies.write_text('[today]\n["short first"]\nbackfill = "sjbf"\nwaiting = "v3"\n')
    found = document(capsys, logs, "--policies", str(policies))
    assert list(found["policies"]) == ["today", "short first"]


def test_the_header_of_a_trace_gives_the_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "t.swf"
    jobs = "".join(f"{number} {60 * number} 0 600 4 -1 -1 4 3600 -1 1 1 1 -1 -1 -1 -1 -1\n" for number in range(1, 40))
    trace.write_text(f"; MaxProcs: 64\n{jobs}")
    assert document(capsys, str(trace))["processors"] == 64
    assert document(capsys, str(trace), "--processors", "48")["processors"] == 48
    trace.write_text(jobs)
    assert document(capsys, str(trace))["processors"] == 40, "the most in use"


def test_jobs_that_are_too_large_are_refused_and_counted(logs: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, logs, "--processors", "16")
    assert found["refused"] > 0
    assert list(found["policies"]) == ["fcfs+easy"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--order", "lifo"], "'lifo' is not one of"),
        (["--waiting", "v9"], "no predictor is called 'v9'"),
        (["--seeds", "1"], "--seeds is for shaken workloads"),
        (["--shake", "week", "--seeds", "9-1"], "'9-1' is neither a number nor a range"),
        (["--processes", "2", "--scheduler", "tcp://x:1"], "--processes is for this machine"),
        (["--policies", "/nowhere.toml"], "/nowhere.toml: No such file or directory"),
        (["--keep", "/nowhere/x"], "/nowhere: cannot be written"),
        (["--processors", "0"], "0 is not in the range x>=1"),
    ],
)
def test_a_wrong_option_gets_one_clear_line(
    logs: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["simulate", logs, *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert message in captured.err


def test_a_file_of_something_else_is_left_alone(logs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep = tmp_path / "notes.txt"
    keep.write_text("buy milk\n")
    assert run(["simulate", logs, *HALF, "--keep", str(keep)]) == 2
    assert "holds something other than results" in capsys.readouterr().err
    assert keep.read_text() == "buy milk\n"


def test_a_dask_cluster_gives_the_same_figures(
    logs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = [logs, *HALF, "--shake", "week", "--seeds", "1,2"]
    here = document(capsys, *arguments)
    monkeypatch.chdir(tmp_path)
    with cluster(workers=2) as address:
        assert document(capsys, *arguments, "--scheduler", address) == here
        assert document(capsys, *arguments, "--scheduler", address, "--jobs-folder", f"file://{tmp_path}") == here
    assert list(tmp_path.iterdir()) == [], "nothing is left where the workers read the jobs"


def test_a_predictor_that_fails_is_named_in_one_line(
    logs: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: object, *_: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("softwalltime.predict.predictors.last2.Last2.predict", fail)
    assert run(["simulate", logs, "--waiting", "v1"]) == 1
    error = capsys.readouterr().err
    assert error == "softwalltime: policy fcfs+easy waiting=v1: ZeroDivisionError: division by zero\n"


def test_each_policy_is_saved_when_it_is_done(
    logs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: object, *_: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("softwalltime.predict.predictors.last2.Last2.predict", fail)
    keep = tmp_path / "figures.jsonl"
    assert run(["simulate", logs, "--waiting", "v1", "--keep", str(keep), "--processes", "1"]) == 1
    assert [json.loads(line)["policy"] for line in keep.read_text().splitlines()] == ["fcfs+easy"]


def test_a_dask_scheduler_without_workers_is_said(logs: str, capsys: pytest.CaptureFixture[str]) -> None:
    with cluster(workers=0) as address:
        assert run(["simulate", logs, *HALF, "--scheduler", address]) == 1
    assert capsys.readouterr().err == (
        f"softwalltime: the Dask scheduler at {address} has no workers: start some with dask worker {address}\n"
    )


def test_jobs_without_a_walltime_hold_processors_and_are_counted(
    logs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = [
        *(f"{n} {n * 50} 0 600 4 -1 -1 4 -1 -1 1 u 1 1 1 -1 -1 -1\n" for n in range(20)),
        *(f"{n} {n * 50} 0 60 1 -1 -1 1 120 -1 1 u 1 1 2 -1 -1 -1\n" for n in range(20, 50)),
    ]
    trace = tmp_path / "unlimited.swf"
    trace.write_text("".join(records))
    found = document(capsys, str(trace), "--processors", "8")
    assert (found["jobs"], found["scored"], found["left_out"]) == (50, 30, {})
    assert found["scored_processor_time"] == 30 * 60 / (30 * 60 + 20 * 600 * 4)
    assert found["policies"]["fcfs+easy"]["wait_mean"] > 0, "processors are held"
    found = document(capsys, str(trace), "--processors", "8", "--walltime-from", "queue1=0:20:00")
    assert (found["jobs"], found["scored"], found["scored_processor_time"]) == (50, 50, 1)
    assert run(["simulate", str(trace), "--processors", "8"]) == 0
    assert "20 of the jobs have no walltime." in capsys.readouterr().out
    trace.write_text("".join(records[:20]))
    assert run(["simulate", str(trace)]) == 2
    assert "none of the 20 jobs" in (error := capsys.readouterr().err)
    assert "--walltime-from queue=HH:MM:SS" in error


def test_the_presets_are_compared_with_today(logs: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["policy", "compare", logs, "--seeds", "1-2", "--processes", "1", "--simulated-jobs", "200"]
    assert run([*asked, "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert list(document["policies"]) == [
        "today", "as delivered", "WFP", "safe", "balanced", "balanced, live values off", "order",
        "order, live values off", "balanced, lengths up to 8 h", "waiting v1, with guard", "waiting v3, with guard",
        "waiting percentile, with guard", "waiting calibrated, with guard", "chance: walltimes x 0.98",
    ]  # fmt: skip
    assert document["seeds"] == [1, 2]
    assert document["advice"]["verdict"] in ("on", "off", "unknown")
    assert "min(walltime, 28800.0)" in document["settings"]["balanced, lengths up to 8 h"]["formula"]
    assert document["settings"]["order"]["formula"] == EXPANSION_FACTOR.formula("predicted")
    assert [name for name, policy in document["settings"].items() if policy["keep_promises"] == 60] == [
        "balanced", "order", "balanced, lengths up to 8 h",
    ]  # fmt: skip
    assert document["settings"]["safe"]["waiting"] == "factor:0.5"
    assert [document["settings"][name]["guard"] for name in ("safe", "balanced", "order, live values off")] == [
        3600,
        3600,
        None,
    ]
    # Another baseline comes first, and the others are compared with it.
    assert run([*asked, "--baseline", "WFP"]) == 0
    tables = capsys.readouterr().out
    tails = tables[tables.index(" half machine |") :].splitlines()[2:]
    assert tails[0].split("|")[1].strip() == "WFP"
    assert "%" not in tails[0]
    assert tails[1].split("|")[1].strip() == "today"
    assert tails[1].count("%") == 5
    assert {each["backfill"] for each in document["settings"].values()} == {"pbs"}


def test_presets_are_compared_on_the_newest_jobs(logs: str, capsys: pytest.CaptureFixture[str]) -> None:
    compare = ["policy", "compare", logs, "--seeds", "1-2", "--processes", "1", "--simulated-jobs", "150"]
    assert run([*compare, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["jobs"] == 150
    assert run(compare) == 0
    assert "earlier jobs of the log can be simulated too: --simulated-jobs." in " ".join(
        capsys.readouterr().out.split()
    )


def test_intervals_of_few_users_have_a_width_and_a_caution(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "accounting")
    assert run(["generate", folder, "--jobs", "400", "--seed", "5", "--users", "1"]) == 0
    compare = ["policy", "compare", folder, "--seeds", "1-3", "--processes", "1", "--processors", "128"]
    capsys.readouterr()
    assert run([*compare, "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["shake"] == "jitter"
    assert "fewer than 10 users" in document["caution"]
    change = document["relative_changes"]["safe"]["wait_mean"]
    assert change["low"] < change["mean"] < change["high"]
    # The user's own choice is not changed, and the caution stands.
    assert run(["simulate", folder, *HALF, "--shake", "week", "--seeds", "1,2", "--processes", "1"]) == 0
    assert "fewer than 10 users" in " ".join(capsys.readouterr().out.split())
    arguments = ["--predictors", "v3", "--simulated-jobs", "200", "--seeds", "1-3", "--processes", "1"]
    assert run(["tune", folder, *arguments, "--processors", "128", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["advice"]["name"] is None


def test_an_order_of_the_family_is_given_by_its_numbers(logs: str, capsys: pytest.CaptureFixture[str]) -> None:
    order = "powers:wait=3,size=0.5,predicted=0,days=2"
    found = document(capsys, logs, "--processors", "128", "--backfill", "pbs", "--order", order)
    policies = list(found["policies"])
    assert policies[1] == f"{order}+pbs"
    assert found["policies"][policies[0]] != found["policies"][policies[1]]
    assert run(["simulate", logs, "--order", "powers:wait=3,weight=1"]) == 2
    assert "'weight=1' is not of the form option=number; options: wait, length" in capsys.readouterr().err
    assert run(["simulate", logs, "--order", "power"]) == 2
