"""Users replayed apart, in one process or several, give the figures of all users together."""

from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given, settings

from softwalltime.cli import run
from softwalltime.core.jobs import CompletedJob
from softwalltime.measure.replay import parquet
from softwalltime.measure.replay.fast_replay import drive
from softwalltime.measure.replay.workload import Workload
from softwalltime.predict.predictors.registry import available, make
from tests.replay.test_parquet_workload import exported, replayed_figures
from tests.samples import job, jobs_of_three_users

SPECS = [spec.name for spec in available() if make(spec.name).by_user]


def test_the_predictors_that_know_each_user_alone() -> None:
    assert set(SPECS) == {"request", "factor", "constant", "last2", "last2+900", "usage", "usage-long", "percentile"}
    assert not make("percentile:keys=project").by_user


@settings(max_examples=10)
@pytest.mark.parametrize(
    "spec",
    [*SPECS, "percentile:least=1,window=200", "percentile:least=2,keys=user,threshold=0.1", "usage:last=3,margin=0"],
)
@given(jobs=jobs_of_three_users())
def test_a_user_is_predicted_as_if_he_were_alone(jobs: list[CompletedJob], spec: str) -> None:
    assert make(spec).by_user
    jobs = [known for _, known in sorted(enumerate(jobs), key=lambda item: item[1].submission.submitted)]
    alone = defaultdict(list)
    for known in jobs:
        alone[known.submission.user].append(known)
    for running in ("walltime", spec):
        of_user = make(spec) if running == spec else running
        together = make(spec)
        found = drive(Workload(jobs), together, 1, running=together if running == spec else running)
        for user, own in alone.items():
            waiting = make(spec)
            expected = drive(Workload(own), waiting, 1, running=waiting if running == spec else of_user)
            which = [number for number, known in enumerate(jobs) if known.submission.user == user]
            assert found.soft_walltimes[which].tolist() == expected.soft_walltimes.tolist()
            assert found.at_start[which].tolist() == expected.at_start.tolist()


def test_several_processes_give_the_figures_of_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from softwalltime.measure.workloads.synthetic import generate

    monkeypatch.setattr(parquet, "GROUP", 400)
    path = str(exported(generate(1500, users=9, seed=2), tmp_path / "jobs.parquet"))
    for options in (
        (),
        ("--predictors", "v1,v4", "--running", "v3", "--limit", "1000", "--score", "2024-01-03..2025-01-01"),
    ):
        one, three = (replayed_figures(capsys, path, *options, "--processes", number) for number in ("1", "3"))
        assert one == three
        assert one["scored"] > 100


def test_predictors_and_sources_that_cannot_be_split_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(exported([job()], tmp_path / "jobs.parquet"))
    for arguments, message in (
        ((path, "--predictors", "v1,percentile:keys=project"), "percentile:keys=project learns from the jobs of all"),
        ((path, "--through-hooks"), "needs one file of softwalltime export"),
        ((path, path), "needs one file of softwalltime export"),
    ):
        assert run(["replay", *arguments, "--processes", "2"]) == 2
        assert message in capsys.readouterr().err
