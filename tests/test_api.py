"""The Python interface: the examples of its page print what the page shows, and nothing is loaded before it is used."""

import inspect
import math
import pydoc
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import softwalltime
from softwalltime import (
    CompletedJob,
    NoPrediction,
    Options,
    Prediction,
    Predictor,
    Submission,
    api,
    generate,
    read_jobs,
    replay,
    simulate,
)  # fmt: skip
from softwalltime.core.errors import OptionError, SoftwalltimeError, SourceError
from softwalltime.core.reasons import Reason
from softwalltime.measure.replay import fast_replay
from tests.samples import RECORDED_LOG, ROOT, job

PAGE = (ROOT / "daemon" / "softwalltime" / "API.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("code", "output"), EXAMPLES, ids=["compare", "own predictor", "simulate"])
def test_an_example_prints_what_the_page_shows(code: str, output: str) -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout == output


def test_the_import_loads_neither_numpy_nor_the_interface() -> None:
    script = "import softwalltime, sys; print(dir(softwalltime)); print(*sys.modules)"
    names, modules = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert not {"numpy", "softwalltime.api", "pydantic"} & set(modules.split())
    assert set(softwalltime.__all__) <= set(re.findall(r"'(\w+)'", names))


def test_the_package_offers_all_names_of_the_interface() -> None:
    assert set(softwalltime.__all__) == {*api.__all__, "__version__"}
    assert Predictor is api.Predictor
    with pytest.raises(AttributeError, match="no attribute 'Frobnicator'"):
        softwalltime.Frobnicator  # noqa: B018


def test_replay_is_the_function_also_after_its_package_was_imported() -> None:
    jobs = generate(300, seed=2)
    found = replay(jobs, ["v1"])["v1"]
    workload = fast_replay.Workload(jobs)
    assert found.soft_walltimes.tolist() == fast_replay.drive_specs(workload, ["v1"])["v1"].soft_walltimes.tolist()
    assert found.row()["predictor"] == "v1"
    assert found.row()["jobs"] == int(found.scored.sum()) == found.scores.jobs


def test_jobs_are_read_from_logs_and_a_wrong_file_is_named(tmp_path: Path) -> None:
    jobs = read_jobs(RECORDED_LOG)
    assert jobs.numbers("runtime").tolist() == [job.runtime for job in jobs]
    (tmp_path / "empty").write_text("")
    for path in (tmp_path / "nowhere", tmp_path / "empty"):
        with pytest.raises(SourceError, match=path.name):
            read_jobs(path)


def test_a_schedule_has_an_entry_for_each_simulated_job() -> None:
    jobs = generate(300, seed=2)
    schedule = simulate(jobs, 64, order="sjf")
    assert schedule.policy.order == "sjf"
    assert len(schedule.starts) + sum(schedule.left_out.values()) == len(jobs)
    assert (schedule.starts - schedule.submitted == schedule.waits).all()
    assert schedule.left_out["larger than the machine"] > 0
    with pytest.raises(OptionError, match="unknown key ordr; is order meant"):
        simulate(jobs, ordr="sjf")


def test_a_job_takes_whole_vnodes_where_the_policy_has_them() -> None:
    jobs = [
        job(submitted=0, runtime=100, walltime=100, ncpus=1, place="excl", job_id=str(number)) for number in range(3)
    ]
    vnodes = [{"count": 2, "ncpus": 8}]
    assert simulate(jobs, 16, backfill="pbs").starts.tolist() == [0, 0, 0]
    assert simulate(jobs, 16, backfill="pbs", vnodes=vnodes).starts.tolist() == [0, 0, 100]


def test_two_results_of_one_name_are_refused() -> None:
    with pytest.raises(OptionError, match="two predictors are called 'v1'"):
        replay(generate(10), ["v1", "v1"])


NO_OPTIONS = Options()


class UserMax(Predictor):
    """The longest runtime of the user's jobs."""

    name, summary, source = "user-max", "", ""

    def __init__(self, options: Options = NO_OPTIONS, answer: Any = None) -> None:
        super().__init__(options)
        self._longest: dict[str, int] = {}
        self._answer = answer

    def learn(self, job: CompletedJob) -> None:
        user = job.submission.user
        self._longest[user] = max(job.runtime, self._longest.get(user, 0))

    def predict(self, submission: Submission, now: int, elapsed: int = 0) -> Prediction | NoPrediction:
        if self._answer is not None and self._longest:
            if isinstance(self._answer, Exception):
                raise self._answer
            return self._answer
        if seconds := self._longest.get(submission.user):
            return Prediction(seconds, "longest of {}", (submission.user,))
        return NoPrediction(Reason.NO_COMPLETED_JOBS, (submission.user,))


def test_a_predictor_that_has_learnt_is_refused() -> None:
    jobs, used, taught = generate(300, seed=2), UserMax(), UserMax()
    first = replay(jobs, [used])["user-max"].scores
    taught.learn(jobs[0])
    for predictor in (used, taught):
        with pytest.raises(OptionError, match="user-max has learnt already"):
            replay(jobs, [predictor])
        with pytest.raises(OptionError, match="user-max has learnt already"):
            simulate(jobs, 64, waiting=predictor)
    assert replay(jobs, [UserMax()])["user-max"].scores == first


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Prediction(math.nan, ""), "predict returned nan seconds"),
        (Prediction(-1.0, ""), "predict returned -1.0 seconds"),
        (Prediction("60", ""), "predict returned '60' seconds"),  # type: ignore[arg-type]  # that is the point
        (3600.0, "predict returned float, not Prediction or NoPrediction"),
        (KeyError("x"), "predict: KeyError: 'x'"),
    ],
)
def test_a_wrong_answer_names_predictor_and_job(answer: object, message: str) -> None:
    jobs = generate(300, seed=2)
    for call in (lambda own: replay(jobs, [own]), lambda own: simulate(jobs, 64, waiting=own)):
        with pytest.raises(SoftwalltimeError) as caught:
            call(UserMax(answer=answer))
        assert re.match(r"predictor user-max: job \d+\S*: ", str(caught.value))
        assert message in str(caught.value)


def test_results_say_which_jobs_they_are_of() -> None:
    jobs = generate(300, seed=2)
    found = replay(jobs, ["calibrated"], running="keep", quantiles=(0.5, 0.9))["calibrated"]
    ordered = sorted(jobs, key=lambda job: job.submission.submitted)
    table = found.to_table()
    assert table["job_id"] == [job.submission.job_id for job in ordered]
    assert table["user"] == [job.submission.user for job in ordered]
    assert table["submitted"].tolist() == [job.submission.submitted for job in ordered]
    assert {len(column) for column in table.values()} == {300}
    assert list(table)[-3:] == ["at_start", "quantile_0.5", "quantile_0.9"]
    known = ~np.isnan(table["quantile_0.5"])
    assert known.sum() > 100
    assert (table["quantile_0.5"][known] <= table["quantile_0.9"][known]).all()
    workload = fast_replay.Workload(jobs)
    expected = fast_replay.drive_specs(workload, ["calibrated"], "keep")["calibrated"]
    assert found.at_start is not None
    assert found.at_start.tolist() == expected.at_start.tolist()


def test_only_the_period_is_scored_and_all_jobs_teach() -> None:
    jobs = generate(600, seed=2)
    submitted = sorted(job.submission.submitted for job in jobs)
    cut = submitted[300]
    whole, part = replay(jobs, ["v1"])["v1"], replay(jobs, ["v1"], period=(cut, None))["v1"]
    assert part.soft_walltimes.tolist() == whole.soft_walltimes.tolist()
    assert part.scored.tolist() == (whole.scored & (whole.submitted >= cut)).tolist()
    moment = datetime.fromtimestamp(cut, UTC)
    assert replay(jobs, ["v1"], period=(moment, None))["v1"].scores == part.scores


def test_walltimes_are_taken_from_the_queues() -> None:
    jobs = [job for job in generate(2000, seed=2) if job.submission.walltime is None]
    assert jobs
    assert not replay(jobs, ["v1"])["v1"].scored.any()
    found = replay(jobs, ["v1"], walltime_from="*=48:00:00")["v1"]
    assert set(found.walltimes.tolist()) == {172_800}
    assert simulate(jobs, 128).scored_share == 0
    assert simulate(jobs, 128, walltime_from={"*": 172_800}).scored_share == 1


def test_a_schedule_can_be_made_with_an_own_predictor() -> None:
    jobs = generate(300, seed=2)
    own = UserMax()
    schedule = simulate(jobs, 64, waiting=own, running=own, order="sjf")
    assert schedule.policy.waiting == "user-max"
    assert schedule.starts.tolist() != simulate(jobs, 64, order="sjf").starts.tolist()


def test_signature_and_help_are_those_of_the_function() -> None:
    assert list(inspect.signature(softwalltime.replay).parameters)[:2] == ["jobs", "predictors"]
    assert "Replay recorded jobs through predictors" in pydoc.render_doc(softwalltime.replay)
