"""Whether v1, v2 and v3 come in the published order, and what is said if they do not."""

from dataclasses import replace

from softwalltime.replay.metrics import Scores
from softwalltime.reports.published import compare_published_order
from tests.reports.fixtures import made
from tests.samples import job


def told(*runtimes: int, walltime: int = 7200) -> str:
    jobs = [
        job(submitted=n * 5 * walltime, runtime=runtimes[n % len(runtimes)], walltime=walltime, job_id=f"{n}.srv")
        for n in range(200)
    ]
    return compare_published_order(made(jobs).scores)


def test_the_order_is_the_same_where_runtimes_vary() -> None:
    text = told(600, 1000, 5400, 1000)
    assert "published these shares of underestimated jobs: v1 over 40%, v2 31%, v3 under 12%." in text
    assert "the same order." in text


def test_v1_and_v2_are_equal_where_runtimes_jump() -> None:
    assert "another order: v2 adds 900 s to v1" in told(600, 5400)


def test_three_predictors_without_underestimates_are_equal() -> None:
    assert "another order: the three predict too few jobs" in told(7200)


def test_v3_may_be_behind_v2() -> None:
    some = Scores(100, 0.5, 0.5, 0.0, 0.0, 0.5, 0.5, 1.0, 0.0)
    under = {"v1": 0.4, "v2": 0.1, "v3": 0.2}
    scores = {spec: (replace(some, underestimated=share), some) for spec, share in under.items()}
    assert "another order: v3 uses the share of the walltime" in compare_published_order(scores)


def test_a_missing_predictor_gives_no_paragraph() -> None:
    scores = dict(made([job(), job(submitted=5)]).scores)
    del scores["v2"]
    assert compare_published_order(scores) == ""
