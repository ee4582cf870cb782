"""calibrated takes the script of a job for its identity where a past job of the user has the same one."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from softwalltime.core.jobs import CompletedJob, Prediction
from softwalltime.predict.predictors.base import Predictor
from softwalltime.predict.predictors.learned.user_jobs import NAME, OTHER_NAME, QUEUE, by_script, row_of
from softwalltime.predict.predictors.registry import make
from tests.samples import job

HOUR = 3600
NOW = 200 * HOUR
RUNTIMES = {"a.sh": 120, "b.sh": 4000}


def mixed(count: int = 40, **changes: object) -> list[CompletedJob]:
    """Jobs of two scripts by turns, alike in all else."""
    jobs = []
    for number in range(count):
        script = sorted(RUNTIMES)[number % 2]
        submitted = NOW - (count - number) * 2 * HOUR
        jobs.append(
            job(
                job_id=f"{number}.srv", submitted=submitted, runtime=RUNTIMES[script] + number % 7, walltime=2 * HOUR,
                job_name="run", queue="q", script=script,
            )
        )  # fmt: skip
    return [replace(each, submission=replace(each.submission, **changes)) for each in jobs]


def taught(jobs: list[CompletedJob]) -> Predictor:
    model = make("calibrated:statistic=median")
    for each in jobs:
        model.learn(each)
    return model


def asked(model: Predictor, **of: object) -> Prediction:
    given = {"job_name": "run", "queue": "q", **of}
    answer = model.predict(job(submitted=NOW, walltime=2 * HOUR, **given).submission, NOW)  # type: ignore[arg-type]  # fields of several types
    assert isinstance(answer, Prediction)
    return answer


def distribution(answer: Prediction) -> list[float]:
    return answer.quantiles([number / 50 for number in range(1, 50)])


def test_a_known_script_decides_between_jobs_that_are_alike_in_all_else() -> None:
    model = taught(mixed())
    found = {script: asked(model, script=script) for script in RUNTIMES}
    for script, runtime in RUNTIMES.items():
        assert found[script].seconds == pytest.approx(runtime, rel=0.25)
        assert "20 with the same script (" in found[script].basis
    blind = taught(mixed(script=""))
    assert len({asked(blind, script=script).seconds for script in RUNTIMES}) == 1


def test_a_script_that_no_past_job_has_changes_nothing() -> None:
    model = taught(mixed())
    new, unknown = asked(model, script="new.sh"), asked(model)
    assert distribution(new) == distribution(unknown)
    assert new.basis == unknown.basis
    assert "same script" not in new.basis


def test_the_answer_does_not_depend_on_the_order_in_which_jobs_became_known() -> None:
    jobs = mixed()
    chance = Random(3)
    # Within half a day.
    late = sorted(jobs, key=lambda each: each.end + chance.randrange(10 * HOUR))
    assert late != jobs
    found = [asked(taught(each), script="a.sh") for each in (jobs, late)]
    assert distribution(found[0]) == distribution(found[1])


def test_past_jobs_without_a_script_count_by_their_names() -> None:
    def row(name: str, script: str) -> tuple[float, ...]:
        return row_of(job(job_name=name, queue="q", script=script).submission)

    mine = row("run", "a.sh")
    past = np.array([row(*each) for each in (("run", "b.sh"), ("x", "a.sh"), ("run", ""), ("x", ""), ("", ""))]).T
    named, changed, _ = by_script(mine, past, past[:, :0])
    same = changed[NAME] == named[NAME]
    assert same.tolist() == [False, True, True, False, False]
    assert (changed[QUEUE] == OTHER_NAME).tolist() == [True, False, False, False, False]
    assert (past[QUEUE] == mine[QUEUE]).all(), "the user's jobs stay as they are"
