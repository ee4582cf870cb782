"""The parts of a sweep: grids, snapshots and tasks."""

import resource
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softwalltime.core.errors import OptionError, SoftwalltimeError, SourceError
from softwalltime.core.jobs import CompletedJob
from softwalltime.core.states import TEACHING, State
from softwalltime.measure.replay.accuracy_metrics import WARM_UP_SHARE, score
from softwalltime.measure.replay.fast_replay import drive
from softwalltime.measure.replay.sweep.grid import expand, expand_all
from softwalltime.measure.replay.sweep.jobs_file import load, take
from softwalltime.measure.replay.sweep.trial import TrialTask, run_trial
from softwalltime.measure.replay.workload import Workload
from softwalltime.predict.predictors.learned.network import SHIPPED, dump
from softwalltime.predict.predictors.learned.network import load as read_weights
from softwalltime.predict.predictors.registry import make
from tests.replay.conftest import with_spec
from tests.replay.test_parquet_workload import events
from tests.samples import completed_jobs, job


@pytest.mark.parametrize(
    ("spec", "grid"),
    [
        ("v1", ["v1"]),
        ("percentile:p=85", ["percentile:p=85"]),
        (
            "percentile:p=75|85,keys=user|user+project",
            [
                "percentile:p=75,keys=user", "percentile:p=75,keys=user+project",
                "percentile:p=85,keys=user", "percentile:p=85,keys=user+project",
            ],
        ),
        ("v3|v4:last=5", ["v3:last=5", "v4:last=5"]),
        ("v3: last=5 | 15 ,", ["v3:last=5", "v3:last=15"]),
        ("percentile:p", ["percentile:p"]),
    ],
)  # fmt: skip
def test_alternatives_are_combined_and_the_last_option_varies_fastest(spec: str, grid: list[str]) -> None:
    assert expand(spec) == grid


def test_a_grid_holds_each_predictor_once() -> None:
    assert expand_all(["v1", "v1|v2", "usage:last=5|5"]) == ["v1", "v2", "usage:last=5"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("percentile:p=75|", "an alternative in '75|' is empty"),
        ("v1|", "an alternative in 'v1|' is empty"),
        ("v1|v9", "no predictor is called 'v9'"),
        ("percentile:p=75|high", "p=high: should be a valid number"),
        ("v1:p=1|2", "last2 has no option 'p'"),
    ],
)
def test_a_grid_with_one_predictor_that_cannot_be_made_is_refused(spec: str, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        expand_all([spec])
    assert message in str(caught.value)


@given(st.lists(completed_jobs(), max_size=8), st.frozensets(st.sampled_from(list(State))))
def test_a_snapshot_gives_the_same_workload_back(
    tmp_path_factory: pytest.TempPathFactory, jobs: list[CompletedJob], teaching: frozenset[State]
) -> None:
    path = tmp_path_factory.mktemp("snapshot") / "jobs"
    workload = Workload(jobs, teaching=teaching)
    snapshot, again = take(workload, path), load(path)
    assert snapshot.jobs == len(again) == len(jobs)
    found = again.chosen(np.arange(len(jobs)))
    assert list(found) == sorted(jobs, key=lambda completed: completed.submission.submitted)
    assert events(again, starts=True, everything=True) == events(workload, starts=True, everything=True)
    assert again.teaching == teaching


def test_a_digest_tells_apart_what_could_give_other_results(tmp_path: Path) -> None:
    def digest(name: str, jobs: list[CompletedJob], teaching: frozenset[State] = TEACHING) -> str:
        return take(Workload(jobs, teaching=teaching), tmp_path / name).digest

    jobs = [job(job_id="1.srv"), job(job_id="2.srv")]
    first = digest("first", jobs)
    assert digest("equal", [replace(each) for each in jobs]) == first
    others = {
        digest("order", jobs[::-1]),
        digest("runtime", [jobs[0], replace(jobs[1], runtime=101)]),
        digest("queue", [jobs[0], replace(jobs[1], submission=replace(jobs[1].submission, queue="q"))]),
        digest("teaching", jobs, TEACHING - {State.FAILED}),
    }
    assert len(others | {first}) == 5


def test_other_jobs_weights_and_versions_are_computed_again(task: TrialTask, tmp_path: Path) -> None:
    weights, shipped = tmp_path / "weights.json", read_weights(SHIPPED)
    of_weights = replace(task, spec=f"calibrated:weights={weights}")
    weights.write_text(dump(shipped))
    before = of_weights.key
    weights.write_text(dump(replace(shipped, layers=(shipped.layers[0] + np.float32(0.5), *shipped.layers[1:]))))
    tasks = [
        task,
        replace(task, snapshot=replace(task.snapshot, digest="other")),
        replace(task, version="99"),
        replace(task, source="elsewhere"),
    ]
    assert len({before, of_weights.key, *(changed.key for changed in tasks)}) == 6


def test_a_task_gives_what_a_replay_gives(task: TrialTask) -> None:
    done, trial = run_trial(task)
    workload = load(task.snapshot.path)
    soft_walltimes = drive(workload, make(task.spec)).soft_walltimes
    assert done == task
    assert trial.parts == (score(workload, soft_walltimes), score(workload, soft_walltimes, WARM_UP_SHARE))
    assert trial.parts[0].not_adjusted not in (0.0, 1.0)


def test_a_predictor_that_raises_is_a_failure_of_its_own(task: TrialTask, monkeypatch: pytest.MonkeyPatch) -> None:
    def raising(*_: object) -> None:
        raise ZeroDivisionError("division\nby zero")

    monkeypatch.setattr(type(make("v1")), "predict", raising)
    _, trial = run_trial(with_spec(task, "v1"))
    assert (trial.failure, trial.parts) == ("ZeroDivisionError: division by zero", ())


def test_a_process_that_cannot_do_any_task_says_so(task: TrialTask) -> None:
    with pytest.raises(SoftwalltimeError, match="and 99 where the command was started: install the same version"):
        run_trial(replace(task, version="99"))
    elsewhere = replace(task.snapshot, path=Path("/nowhere/jobs"))
    with pytest.raises(SourceError, match=r"^/nowhere/jobs: No such file .* a folder that all workers can read$"):
        run_trial(replace(task, snapshot=elsewhere))


def test_no_space_for_results_is_no_failure_of_the_predictor(task: TrialTask) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(SourceError, match=r"no space for 2,400 bytes of results: .*TMPDIR"):
            run_trial(task)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
