"""Trials of predictors over parts of a log, their choice, and what is recommended."""

import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from softwalltime.core.errors import SourceError
from softwalltime.measure.replay.accuracy_metrics import Scores, score
from softwalltime.measure.replay.fast_replay import drive
from softwalltime.measure.replay.sweep.jobs_file import Snapshot, take
from softwalltime.measure.replay.sweep.kept_lines import KeptLines
from softwalltime.measure.replay.sweep.trial import Part, Trial, TrialTask
from softwalltime.measure.replay.sweep.trials import run_trials, saved_trials
from softwalltime.measure.replay.sweep.workers import local_workers
from softwalltime.measure.replay.workload import Workload
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.runs import Experiment
from softwalltime.measure.tuning.choice import Chosen, candidates, choose, front, split_at
from softwalltime.measure.workloads.synthetic import generate
from softwalltime.predict.predictors.learned.network import SHIPPED, dump, load
from softwalltime.predict.predictors.registry import make

JOBS = generate(1500, seed=7)


def run_all(
    specs: Sequence[str], parts: tuple[Part, ...] = (Part(),), keep: Path | None = None, processes: int = 1,
    timeout: float = 100.0,
) -> dict[str, Trial]:  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, closing(KeptLines(keep)) as kept:
        snapshot = take(Workload(JOBS), Path(folder) / "jobs")
        tasks = [TrialTask("", snapshot, spec, parts, 60, timeout) for spec in specs]
        done = saved_trials(tasks, kept)
        done |= run_trials([task for task in tasks if task not in done], local_workers(processes), kept)
        return {task.spec: done[task] for task in tasks}


def test_a_part_has_the_jobs_of_its_time() -> None:
    workload = Workload(JOBS)
    split = split_at(workload, 0.5)
    assert split is not None
    parts = run_all(["v3"], (Part(), *split.parts, Part(since=10**12)))["v3"].parts
    assert parts[0] == score(workload, drive(workload, make("v3")).soft_walltimes)
    assert parts[1].jobs + parts[2].jobs < parts[0].jobs
    assert parts[2].jobs == int((workload.submitted[workload.scored] >= split.cut).sum())
    assert parts[3] == Scores(0, *[None] * 8)


def test_an_interrupted_command_continues_from_its_file(tmp_path: Path) -> None:
    keep = tmp_path / "kept"

    def tried(*specs: str, timeout: float = 100.0) -> tuple[dict[str, Trial], int]:
        before = keep.read_bytes().count(b"\n") if keep.exists() else 0
        found = run_all(specs, keep=keep, timeout=timeout)
        return found, keep.read_bytes().count(b"\n") - before

    first, new = tried("v1", "v3")
    assert new == 2
    with keep.open("ab") as stream:
        stream.write(b'{"key": "cut of')
    again, new = tried("v1", "v3", "v4")
    assert new == 1
    assert {spec: again[spec] for spec in first} == first
    slow, new = tried("calibrated", timeout=0.001)
    assert slow["calibrated"].failure == "took longer than 0 s: raise --time-limit"
    assert tried("calibrated", timeout=0.001)[1] == 0
    enough, new = tried("calibrated")
    assert new == 1
    assert not enough["calibrated"].failure
    keep.write_text("something else\n")
    with pytest.raises(SourceError, match="holds something other than results"):
        tried("v1")


def test_a_trial_counts_for_the_same_weights_only_whatever_the_name_of_their_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shipped, file = load(SHIPPED), Path("weights.json")
    file.write_text(dump(shipped))
    specs = (
        f"calibrated:weights={file}",
        "percentile",
        "v1",
    )

    def keys() -> dict[str, tuple[str, str]]:
        policies = [SchedulerPolicy(order="xf", ordering=spec) for spec in specs]
        experiment = Experiment("digest", 8, SchedulerPolicy())
        trials = [TrialTask("", Snapshot(tmp_path, "digest", 1), spec, (Part(),), 60).key for spec in specs]
        return dict(zip(specs, zip(trials, (experiment.key(each, 1) for each in policies), strict=True), strict=True))

    before = keys()
    assert keys() == before
    file.write_text(dump(replace(shipped, about={"seed": 2})))
    assert keys() == before, "the weights are the same"
    file.write_text(dump(replace(shipped, layers=(shipped.layers[0] + np.float32(0.5), *shipped.layers[1:]))))
    after = keys()
    assert not set(before[specs[0]]) & set(after[specs[0]])
    for spec in specs[1:]:
        assert before[spec] == after[spec]


def test_all_cores_find_what_one_process_finds() -> None:
    specs = ("request", "v1", "percentile:p=95")
    one, two = (run_all(specs, processes=processes) for processes in (1, 2))
    assert [trial.parts for trial in one.values()] == [trial.parts for trial in two.values()]
    assert list(two) == list(specs)


def test_the_parts_do_not_overlap_and_the_first_jobs_choose_nothing() -> None:
    workload = Workload(JOBS)
    split = split_at(workload, 0.25)
    assert split is not None
    submitted = workload.submitted[workload.scored]
    assert float((submitted < split.cut).mean()) == pytest.approx(0.25, abs=0.01)
    assert float((submitted < split.since).mean()) == pytest.approx(0.025, abs=0.005)
    assert split_at(Workload(JOBS[:1]), 0.5) is None


def figures(jobs: int, accuracy: float = 0.5, under: float = 0.0, error: float = 0.0) -> Scores:
    return Scores(jobs, accuracy, None, under, 0.0, 0.0, 0.0, error, 0.0)


def trial(spec: str, accuracy: float, under: float, error: float, failure: str = "") -> Trial:
    return Trial(spec, () if failure else (figures(10, accuracy, under, error), figures(10)), 1.0, failure)


def test_the_front_and_the_choice() -> None:
    trials = {
        each.spec: each
        for each in (
            trial("request", 0.3, 0.0, 900),
            trial("worse", 0.4, 0.06, 800),
            trial("v3", 0.45, 0.03, 500),
            trial("calibrated", 0.5, 0.052, 700),
            trial("v1", 0.6, 0.4, 400),
            trial("half", 0.55, 0.45, 300),
            trial("broken", 0, 0, 0, "took longer than 1 s"),
        )
    }
    assert front(trials) == ["request", "v3", "calibrated", "v1"]
    assert choose(trials, 0.05) == Chosen("calibrated", "v3", "half")
    assert choose(trials, 0.01) == Chosen(None, None, "half")
    assert choose({"broken": trials["broken"]}, 0.05) == Chosen(None, None, None)


def test_every_predictor_of_the_registry_is_a_candidate_but_for_those_that_name_no_options() -> None:
    found = candidates()
    names = {spec.partition(":")[0] for spec in found}
    assert found[0] == "request"
    assert {"last2", "usage", "percentile", "calibrated", "trip", "templates", "memorizer", "factor"} <= names
    assert "constant" not in names
    assert len(found) == len(set(found))
