"""The figures on gaming in deploy/SECURITY.md are the benchmark's."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softwalltime.core.jobs import Prediction, Submission
from softwalltime.measure.workloads.synthetic import generate
from softwalltime.predict.policy.power_order import PowerOrder
from softwalltime.predict.policy.presets import MEDIAN
from softwalltime.predict.predictors.registry import make
from softwalltime.reports.candidates import preset_policy
from tests.benchmarks.bench_attacks import Attack, gains
from tests.benchmarks.bench_gaming import HONEST, OTHER, gamed, main
from tests.samples import ROOT, job


def test_the_table_equals_the_output_of_the_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    main()
    assert capsys.readouterr().out.strip() in (ROOT / "deploy" / "SECURITY.md").read_text()


def test_the_recommended_setting_prevents_gaming() -> None:
    assert gamed("percentile:threshold=0.5").minutes is None
    assert gamed("percentile:threshold=0.5", OTHER).minutes is None
    # At the 85th percentile more than five forged jobs are needed for each honest job, for any requested walltime.
    for walltime in (24 * 3600, OTHER):
        half = gamed("percentile:keys=user+project", walltime).half
        assert half is not None
        assert half > 5 * HONEST


SHARES = st.lists(st.integers(1, 86_400), min_size=1, max_size=40)


@given(fakes=SHARES, walltime=st.sampled_from([3600, 86_400]))
def test_no_fakes_make_the_ordering_value_shorter_than_an_eighth_of_the_walltime(
    fakes: list[int], walltime: int
) -> None:
    predictor, now = make(f"{MEDIAN},least=1"), 1_000_000
    for runtime in fakes:
        now += 60
        predictor.learn(job("alice", end=now, runtime=min(runtime, walltime), walltime=walltime, project="x"))
    prediction = predictor.predict(Submission("9.s", "alice", now, walltime, project="x"), now)
    assert isinstance(prediction, Prediction)
    assert walltime / 8 <= prediction.seconds <= walltime


def test_without_the_threshold_ten_fakes_are_enough() -> None:
    seconds = {}
    for spec in (MEDIAN.removesuffix(",threshold=0.125"), MEDIAN):
        predictor = make(spec)
        for number in range(60):
            predictor.learn(job("alice", end=1_000_000 + number, runtime=72_000, walltime=86_400, project="astro"))
        for number in range(10):
            predictor.learn(job("alice", end=1_000_100 + number, runtime=2, walltime=86_400, project="gx"))
        prediction = predictor.predict(Submission("9.s", "alice", 1_000_200, 86_400, project="gx"), 1_000_200)
        assert isinstance(prediction, Prediction)
        seconds[spec] = prediction.seconds
    assert list(seconds.values()) == [2, 10_800]


def test_ten_fakes_buy_no_more_than_a_place_under_the_presets() -> None:
    """The table in deploy/SECURITY.md in small: a synthetic workload in PBS's cycle, with eight attackers."""
    jobs = [job for job in generate(2500, seed=5, users=12, processors=64) if job.submission.walltime]
    attack = Attack(10, project=True, walltime=True)
    balanced = preset_policy("balanced")
    # Half of the length is the prediction, and nothing bounds that.
    formula = PowerOrder(size=0.25, predicted=0.5).formula("predicted")
    unbounded = replace(balanced, formula=formula, ordering=balanced.ordering.removesuffix(",threshold=0.125"))
    policies = {"safe": preset_policy("safe"), "balanced": balanced, "unbounded": unbounded}
    bought = {name: gains(jobs, 64, policy, [attack])[attack] for name, policy in policies.items()}
    assert bought["safe"].places == 0
    assert bought["safe"].attacking == bought["safe"].honest
    assert bought["balanced"].places <= 1
    assert bought["unbounded"].places > 4
    # A promised job keeps its place, whoever comes: so the unbounded order, too, gives less than it did.
    assert bought["balanced"].attacking > bought["unbounded"].attacking
