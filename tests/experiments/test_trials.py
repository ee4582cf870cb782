"""Many simulations of one study: parts, pairs, changes, processes."""

from dataclasses import replace

import numpy as np
import pytest

from softwalltime.core.errors import SourceError, UsageError
from softwalltime.measure.experiments import trials
from softwalltime.measure.experiments.study import Study, months_of, study_of
from softwalltime.measure.experiments.trials import WHOLE, Trials, month_names, part_of, schedule_figures, simulate_all
from softwalltime.measure.simulation.engine import simulate
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.schedule_metrics import measure
from tests.samples import job

POLICIES = {"today": SchedulerPolicy(), "half": SchedulerPolicy(waiting="factor:0.5")}


def test_a_month_is_simulated_after_the_month_before_it_which_is_not_counted(study: Study) -> None:
    names = month_names(study.jobs)
    assert names == sorted(set(months_of(study.jobs.submitted)))[1:]
    for name in names:
        part = part_of(study.jobs, name)
        months = months_of(part.jobs.submitted)
        assert set(months[part.counted]) == {name}
        assert len(set(months[~part.counted])) == 1
        assert max(months[~part.counted]) < name


def test_a_workload_of_one_month_is_not_split(study: Study) -> None:
    first = study.jobs.chosen(range(130))
    assert month_names(first) == [WHOLE]
    assert part_of(first, WHOLE).counted.all()


def test_all_policies_are_measured_on_the_same_jobs(study: Study) -> None:
    found = simulate_all(replace(study, shake="week", seeds=(31, 32)), POLICIES, monthly=True)
    for part in found.parts:
        for seed in (31, 32):
            jobs = {name: found.found[name][part, seed]["jobs"] for name in POLICIES}
            assert len(set(jobs.values())) == 1
    assert found.parts == month_names(study.jobs)


def test_processes_of_their_own_give_the_same_figures(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    shaken = replace(study, shake="week", seeds=(31, 32))
    for monthly in (False, True):
        here = simulate_all(shaken, POLICIES, monthly)
        monkeypatch.setattr(trials, "_MAX_JOBS_IN_PROCESS", 0)
        assert simulate_all(replace(shaken, processes=2), POLICIES, monthly) == here
        monkeypatch.undo()


def test_changes_are_paired_and_the_interval_is_over_the_parts() -> None:
    cells = {"jan": (100.0, 90.0), "feb": (10.0, 5.0)}
    found = Trials(
        {
            name: {
                (part, seed): {"wait_mean": both[place] * (1 + seed), "jobs": 3.0 if part == "jan" else 1.0}
                for part, both in cells.items()
                for seed in (0, 1)
            }
            for place, name in enumerate(("today", "new"))
        }
    )
    change = found.change("new", "today", "wait_mean")
    assert change.mean == pytest.approx((-0.1 - 0.5) / 2)
    assert change.low is not None
    assert found.pooled("new", "today", "wait_mean") == pytest.approx((3 * 90 + 5) / (3 * 100 + 10) - 1)
    assert found.better("new", "today", "wait_mean") == "2 of 2"
    assert found.mean("today", "wait_mean", "feb") == pytest.approx(15)


def test_without_parts_the_interval_is_over_the_seeds() -> None:
    waits = {"today": (100.0, 200.0), "new": (50.0, 150.0)}
    found = Trials(
        {name: {(WHOLE, seed): {"wait_mean": wait} for seed, wait in enumerate(both)} for name, both in waits.items()}
    )
    change = found.change("new", "today", "wait_mean")
    assert change.mean == pytest.approx((-0.5 - 0.25) / 2)
    assert change.low is not None


def test_figures_are_those_of_simulate_and_the_papers_own(study: Study) -> None:
    policy = SchedulerPolicy(order="wfp", waiting="v1", ordering="v1")
    outcome = simulate(study.jobs, 4, policy)
    found = schedule_figures(part_of(study.jobs, WHOLE), outcome, 4, policy)
    metrics = measure(study.jobs, outcome, 4)
    assert found["wait_mean"] == metrics.wait_mean
    assert found["bsld60_mean"] == metrics.bsld60_mean
    wait = outcome.start - np.array(study.jobs.submitted)
    priority = (wait / np.array(study.jobs.walltime)) ** 3 * np.array(study.jobs.processors)
    assert found["priority_wait"] == pytest.approx((wait * priority).sum() / priority.sum())


def test_a_study_may_be_of_some_months_or_the_first_jobs(study: Study) -> None:
    names = sorted(set(months_of(study.jobs.submitted)))
    part = study_of("s", study.completed, 4, months=(1, 3))
    assert sorted(set(months_of(part.jobs.submitted))) == [names[0], names[2]]
    assert len(study_of("s", study.completed, 4, limit=100).completed) == 100
    with pytest.raises(UsageError, match="spans 3 months: there is no month 4"):
        study_of("s", study.completed, 4, months=(4,))
    with pytest.raises(SourceError, match="no job in s has a runtime"):
        study_of("s", [job(runtime=0)], 4)
    with pytest.raises(UsageError, match="larger than 2 processors"):
        study_of("s", [job(ncpus=3)], 2)


def test_jobs_larger_than_the_machine_are_refused_and_counted(study: Study) -> None:
    small = study_of("s", study.completed, 1)
    assert small.refused > 0
    assert len(small.jobs) + small.refused == len(study.jobs)
    assert max(small.jobs.processors) <= 1
