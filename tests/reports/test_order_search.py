"""The search of the order of the queue: it finds the best order within the limits, or recommends none."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from softwalltime.core.jobs import CompletedJob
from softwalltime.measure.replay.workload import Workload
from softwalltime.measure.simulation.engine import simulate
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.runs import SimulationResult, results
from softwalltime.measure.simulation.shaking import shaken
from softwalltime.predict.policy.plan_file import plan_text, read_plan
from softwalltime.predict.policy.power_order import PowerOrder
from softwalltime.reports import recommendation
from softwalltime.reports.candidates import STRICT_ARRIVAL, WITHOUT_LIVE, Candidate, chance_policy, common_candidates
from softwalltime.reports.order_search import (
    OrderSearch,
    order_candidate,
    parts_of,
    recommend_order,
    rule_of_thumb,
    search_order,
)
from softwalltime.reports.plan import plan_of
from softwalltime.reports.recommendation import Verdict, WaitLimits
from softwalltime.reports.simulation import (
    SimulationFigures,
    SimulationInput,
    SimulationOptions,
    compare_candidates,
    experiment_of,
    prepare,
)
from tests.samples import job

HOUR, WEEK = 3600, 7 * 86400
PROCESSORS = 2
OPTIONS = SimulationOptions(processors=PROCESSORS, seeds=(31, 32, 33), jobs=100_000)
LOOSE = WaitLimits(tail=1000.0, longest=1000.0, broken=1.0)


def workload() -> SimulationInput:
    """Each week long jobs are submitted first, then short ones for days: the sooner these start, the longer those wait.

    Users are many, and sizes and walltimes say nothing but the length, so a higher exponent of the length always gains.
    """

    def one(user: str, submitted: int, hours: int) -> CompletedJob:
        return job(user, submitted=submitted, runtime=hours * HOUR, walltime=hours * HOUR, ncpus=1)

    jobs: list[CompletedJob] = []
    for week in range(32):
        begin = week * WEEK
        jobs += [one(f"u{number}", begin + number, 10) for number in range(4)]
        jobs += [one(f"u{4 + number % 7}", begin + 600 + number * 2400, 1) for number in range(30)]
    found = prepare(Workload(jobs), OPTIONS)
    assert isinstance(found, SimulationInput)
    return found


class Simulator:
    """Simulations in this process, each once."""

    def __init__(self) -> None:
        self.known: dict[int, dict[tuple[SchedulerPolicy, int], SimulationResult]] = {}

    def __call__(self, recorded: SimulationInput, candidates: Sequence[Candidate]) -> SimulationFigures:
        site = OPTIONS.baseline.policy
        policies = list(dict.fromkeys([site, chance_policy(site), *(candidate.policy for candidate in candidates)]))
        experiment = experiment_of(recorded, site)
        known = self.known.setdefault(recorded.jobs.submitted[0], {})
        for seed in OPTIONS.seeds:
            new = [policy for policy in policies if (policy, seed) not in known]
            for result in results(shaken(recorded.jobs, experiment.shake, seed), experiment, new, seed) if new else ():
                known[result.policy, seed] = result
        return compare_candidates(recorded, candidates, OPTIONS, known)


@pytest.fixture(autouse=True)
def enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few jobs are enough, without a comparison with recorded waits, which they do not have."""
    monkeypatch.setattr(recommendation, "MIN_JOBS", 100)
    monkeypatch.setattr(recommendation, "doubts", lambda *_: ())


@pytest.fixture(scope="module")
def parts() -> list[SimulationInput]:
    return parts_of(workload(), 0.5, 272)


@pytest.fixture(scope="module")
def simulator() -> Simulator:
    return Simulator()


def longest_wait(recorded: SimulationInput, policy: SchedulerPolicy) -> float:
    """The mean of the longest waits in the workloads, without any code of the search."""
    found = []
    for seed in OPTIONS.seeds:
        jobs = shaken(recorded.jobs, "week", seed)
        found.append((simulate(jobs, PROCESSORS, policy).start - np.array(jobs.submitted)).max())
    return float(np.mean(found))


def search(parts: list[SimulationInput], simulator: Simulator, limits: WaitLimits) -> OrderSearch:
    return search_order(parts, STRICT_ARRIVAL, limits, simulator)


def test_parts_follow_each_other_and_are_the_newest_jobs_of_theirs() -> None:
    whole = workload()
    earlier, middle, last = parts_of(whole, 0.5, 200)
    assert [len(part.jobs) for part in (earlier, middle, last)] == [200, 200, 200]
    assert (earlier.of, middle.of, last.of) == (544, 272, 272)
    assert earlier.jobs.submitted == whole.jobs.submitted[344:544]
    assert middle.jobs.submitted == whole.jobs.submitted[616:816]
    assert last.jobs.submitted == whole.jobs.submitted[-200:]


def test_without_limits_the_order_that_is_known_to_gain_most_is_found(
    parts: list[SimulationInput], simulator: Simulator
) -> None:
    found = search(parts, simulator, LOOSE)
    assert found.last is not None
    assert found.last.order.length >= 1.5, "the greatest length of the grid, or beyond"
    gains = {trial.order.length: trial.gain for trial in found.tried[:24] if trial.waits.setting.guarded}
    assert list(gains) == [0.5, 1.0, 1.5]
    assert sorted(gains.values()) == list(gains.values())
    assert found.front[-1].gain == max(trial.gain for trial in found.tried)
    worst = [trial.worst[1].mean or 0.0 for trial in found.front]
    assert len(worst) > 1
    assert worst == sorted(worst), "more gain costs more in the worst class"


def test_limits_hold_on_each_part_when_measured_without_the_search(
    parts: list[SimulationInput], simulator: Simulator
) -> None:
    # The length may count more only where a limit of days bounds the wait.
    found = search(parts, simulator, WaitLimits(tail=1.2, longest=0.05, broken=0.1))
    loose = search(parts, simulator, LOOSE)
    assert found.last is not None
    assert loose.last is not None
    assert (found.last.exceeded, found.last.gain > 0.2) == ({}, True)
    assert found.last.order.days < loose.last.order.days
    assert found.last.gain < loose.last.gain
    assert not found.last.waits.setting.guarded, "half the walltime breaks half of the promises"
    today = [longest_wait(part, STRICT_ARRIVAL.policy) for part in parts]
    chosen, unlimited = (each.waits.setting.policy for each in (found.last, loose.last))
    growths = [longest_wait(part, chosen) / old - 1 for part, old in zip(parts, today, strict=True)]
    assert max(growths) <= 0.05
    assert longest_wait(parts[0], unlimited) / today[0] - 1 > 0.05, "without the limit it would be exceeded"


def test_where_no_order_stays_within_the_limits_none_is_recommended(
    parts: list[SimulationInput], simulator: Simulator
) -> None:
    limits = WaitLimits(tail=0.05, longest=0.05, broken=0.05)
    found = search(parts, simulator, limits)
    assert (found.middle, found.last) == ((), None)
    assert all(trial.exceeded for trial in found.tried)
    advice = recommend_order(found, limits)
    assert (advice.verdict, advice.waits) == (Verdict.OFF, None)
    assert advice.sentence.startswith("None: ")
    assert "p99 of longest tenth +" in advice.reasons[-1]
    assert "limit 5%" in advice.reasons[-1]


def test_an_order_that_fails_on_the_last_part_is_not_recommended(
    parts: list[SimulationInput], simulator: Simulator
) -> None:
    found = search(parts, simulator, LOOSE)
    assert recommend_order(found, LOOSE).verdict is Verdict.ON
    assert found.last is not None
    failed = replace(found, last=replace(found.last, exceeded={"longest wait": "+50%, limit 10%"}))
    advice = recommend_order(failed, LOOSE)
    assert (advice.verdict, advice.waits) == (Verdict.OFF, None)
    assert "best one on the last part" in advice.reasons[-1]
    assert "longest wait +50%, limit 10%" in advice.reasons[-1]


def test_the_plan_of_an_order_is_a_candidate_again(
    parts: list[SimulationInput], simulator: Simulator, tmp_path: Path
) -> None:
    found = search(parts, simulator, LOOSE)
    plan = plan_of(recommend_order(found, LOOSE), found.figures, datetime(2026, 11, 23, tzinfo=UTC))
    assert found.last is not None
    assert plan.pbs is not None
    assert plan.pbs.job_sort_formula == found.last.order.formula("predicted")
    file = tmp_path / "plan.toml"
    file.write_text(plan_text(plan, file.name))
    again = common_candidates(replace(STRICT_ARRIVAL, plan=read_plan(file)))[-1]
    assert again.policy == found.last.waits.setting.policy
    assert again.name.removesuffix(WITHOUT_LIVE) == f"plan {found.last.order}"


def test_orders_in_words() -> None:
    def words(order: PowerOrder, guard: int | None) -> str:
        return rule_of_thumb(order, order_candidate(order, guard, STRICT_ARRIVAL))

    assert words(PowerOrder(size=0.25, predicted=0.5, days=4), HOUR) == (
        "length counts 50% as much as wait; 16 times the processors count as much as +41% wait; 4 d bound the wait; "
        "the length is the walltime to 50% and the prediction to 50%; waiting jobs are planned with 0.7 of their "
        "walltimes, under the guard"
    )
    assert words(PowerOrder(wait=1, length=1.5, size=0, predicted=0.25, days=0), None) == (
        "length counts 150% as much as wait; the length is the walltime to 75% and the prediction to 25%; waiting "
        "jobs are planned with their walltimes"
    )
