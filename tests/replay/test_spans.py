"""Spans of a long log that are replayed apart give what one replay of the whole log gives."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings

from softwalltime.core.jobs import CompletedJob, NoPrediction, Prediction, Submission
from softwalltime.core.states import TEACHING
from softwalltime.measure.replay.accuracy_metrics import WARM_UP_SHARE, score
from softwalltime.measure.replay.fast_replay import drive
from softwalltime.measure.replay.job_columns import JobColumns
from softwalltime.measure.replay.sweep import jobs_file
from softwalltime.measure.replay.sweep import workers as workers_module
from softwalltime.measure.replay.sweep.jobs_file import Snapshot, load, take
from softwalltime.measure.replay.sweep.kept_lines import KeptLines
from softwalltime.measure.replay.sweep.pieces import TrialPiece, in_pieces
from softwalltime.measure.replay.sweep.shared_folder import shared_folder
from softwalltime.measure.replay.sweep.spans import load_span, spans_of
from softwalltime.measure.replay.sweep.trial import Part, Trial, TrialTask, run_trial
from softwalltime.measure.replay.sweep.trials import run_trials
from softwalltime.measure.replay.sweep.workers import Workers, dask_workers, local_workers
from softwalltime.measure.replay.workload import Workload
from softwalltime.measure.workloads.synthetic import generate
from softwalltime.predict.predictors.base import History, Predictor
from softwalltime.predict.predictors.registry import available, make
from tests.dask_cluster import cluster
from tests.samples import job, jobs_of_three_users

DAY = 86400
EXACT = [
    spec.name
    for spec in available()
    if (made := make(spec.name)).history.is_bounded and made.history.most is None and not made.fits
]
"""Predictors that a bounded history makes answer exactly as all jobs do."""
OTHERS = ("usage:last=3,margin=0", "percentile:least=2,window=400,keys=project", "percentile:least=1,window=90")
MANY = 99
"""More processes than trials."""
PARTS = (Part(), Part(WARM_UP_SHARE), Part(since=150, until=320), Part(0.3, until=300))


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_file, "GROUP", 2)


def snapshot(jobs: list[CompletedJob], path: Path) -> Snapshot:
    return take(Workload(JobColumns.of(jobs).by_submission()), path)


def trials(tasks: list[TrialTask], workers: Workers | None = None) -> dict[str, Trial]:
    """The trials by specification; without workers in this process, although divided as among many."""
    with closing(KeptLines(None)) as kept, pytest.MonkeyPatch.context() as patch:
        if workers is None:
            patch.setattr(workers_module, "_by_processes", lambda _, function, works: map(function, works))
        found = run_trials(tasks, workers or local_workers(MANY), kept)
        return {trial.spec: replace(trial, seconds=0) for _, trial in found}


def test_the_predictors_that_need_only_a_part_of_the_past() -> None:
    assert {"request", "last2", "last2+900", "usage", "usage-long", "percentile", "gaussier"} <= set(EXACT)
    assert not make("templates:method=lsterr").history.is_bounded


@pytest.mark.usefixtures("small_groups")
@settings(max_examples=15)
@pytest.mark.parametrize("spec", [*EXACT, *OTHERS])
@given(jobs=jobs_of_three_users(min_size=1))
def test_a_trial_of_spans_is_a_trial_of_the_whole_log(
    tmp_path_factory: pytest.TempPathFactory, spec: str, jobs: list[CompletedJob]
) -> None:
    jobs = [replace(known, submission=replace(known.submission, job_id=str(n))) for n, known in enumerate(jobs)]
    task = TrialTask("log", snapshot(jobs, tmp_path_factory.mktemp("spans") / "jobs"), spec, PARTS, 1)
    _, whole = run_trial(task)
    assert task.snapshot.groups == -(-len(jobs) // 2)
    assert trials([task]) == {spec: replace(whole, seconds=0)}


def test_each_span_gets_no_more_of_the_past_than_its_predictor_needs(tmp_path: Path, small_groups: None) -> None:
    # A user's job each day, which ends at once, and one that runs for 40 days.
    jobs = [job(("alice", "bob")[n % 2], submitted=n * DAY, runtime=60, job_id=str(n)) for n in range(40)]
    jobs.append(job("carol", submitted=3 * DAY, runtime=40 * DAY, job_id="long"))
    path = snapshot(jobs, tmp_path / "jobs").path

    def earlier(history: History) -> list[list[str]]:
        found = []
        for span in spans_of(path, TEACHING, {history, History(per_user=9, seconds=9, most=1)})[history]:
            workload, before = load_span(path, span, TEACHING)
            assert len(workload) == before + span.jobs
            found.append([each.submission.job_id for each in workload.jobs[:before]])
        return found

    assert earlier(History()) == [[], *[["long"]] * 5]
    assert earlier(History(per_user=2))[2] == ["long", "11", "12", "13", "14"]
    assert earlier(History(seconds=3 * DAY))[2] == ["long", "12", "13", "14"]
    assert earlier(History(seconds=30 * DAY, most=1))[2] == ["long", "14"]
    assert earlier(History(seconds=30 * DAY, most=2))[2] == ["long", "13", "14"]


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[TrialTask]:
    monkeypatch.setattr(jobs_file, "GROUP", 100)
    of = snapshot(list(generate(1500, users=9, seed=2)), tmp_path / "jobs")
    parts = (Part(), Part(WARM_UP_SHARE))
    return [
        TrialTask("log", of, spec, parts, 60)
        for spec in ("v1", "v3", "percentile:keys=project", "templates:method=lsterr")
    ]


def test_processes_and_a_cluster_give_the_figures_of_one_replay(tasks: list[TrialTask]) -> None:
    wanted = {trial.spec: replace(trial, seconds=0) for _, trial in map(run_trial, tasks)}
    workload = load(tasks[0].snapshot.path)
    assert wanted["v3"].parts[0] == score(workload, drive(workload, make("v3")).soft_walltimes)
    assert trials(tasks) == wanted
    for processes in (1, 2, 8):
        assert trials(tasks, local_workers(processes)) == wanted
    with cluster(workers=2) as address, dask_workers(address) as workers:
        assert trials(tasks, workers) == wanted


def test_a_predictor_that_fails_or_is_too_slow_on_one_span_fails_once(
    tasks: list[TrialTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = [replace(task, timeout=1e-6) for task in tasks[:1]]
    assert {trial.failure for trial in trials(slow).values()} == {"took longer than 0 s: raise --time-limit"}

    def raising(_: object, submission: object, *__: object) -> None:
        raise ZeroDivisionError("no")

    monkeypatch.setattr(type(make("v1")), "predict", raising)
    found = trials(tasks[:2])
    assert found["v1"] == Trial("v1", (), 0, "ZeroDivisionError: no")
    assert found["v3"].parts


def test_trials_that_keep_all_processes_busy_are_not_divided(tasks: list[TrialTask]) -> None:
    calibrated = replace(tasks[0], spec="calibrated")
    inexact = in_pieces([*tasks, calibrated], local_workers(1))
    assert inexact[:4] == tasks
    assert [piece.task for piece in inexact[4:] if isinstance(piece, TrialPiece)] == [calibrated] * 4
    assert in_pieces(tasks, local_workers(4)) == tasks
    assert len(in_pieces(tasks, local_workers(5))) == 3 * 4 + 1


def test_a_piece_does_not_predict_the_jobs_before_it(tasks: list[TrialTask], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    predictor = type(make("v1"))
    predict: Callable[..., Prediction | NoPrediction] = predictor.predict

    def noted(self: Predictor, submission: Submission, now: int, elapsed: int = 0) -> Prediction | NoPrediction:
        asked.append(now)
        return predict(self, submission, now, elapsed)

    monkeypatch.setattr(predictor, "predict", noted)
    run_trial(tasks[0])
    once, asked[:] = list(asked), []
    assert trials(tasks[:1])["v1"].parts
    assert asked == once


def test_only_the_owner_may_read_the_jobs_of_a_shared_folder(tmp_path: Path) -> None:
    for address in (None, str(tmp_path), f"file://{tmp_path}"):
        with shared_folder(tmp_path, "jobs-", address) as folder:
            (local,) = tmp_path.iterdir()
            assert str(folder).endswith(local.name)
            assert local.stat().st_mode & 0o777 == 0o700
        assert list(tmp_path.iterdir()) == []
