"""The figures of a schedule, on one that is worked out by hand."""

from dataclasses import asdict, replace

import numpy as np
import pytest

from softwalltime.core.errors import UsageError
from softwalltime.measure.simulation.differences import Interval, differences, interval, means, relative_changes
from softwalltime.measure.simulation.engine import ScheduleOutcome, simulate
from softwalltime.measure.simulation.names import CLASSES
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.schedule_metrics import OTHERS, Metrics, classes, measure, measure_classes
from softwalltime.measure.simulation.simulated_jobs import Jobs, jobs_of
from tests.samples import job

# Four processors.  The first two run at once; the third waits for both; the fourth overtakes it.
WORKLOAD = jobs_of(
    [
        job(submitted=0, runtime=10, walltime=20, ncpus=2, queue="a"),
        job(submitted=0, runtime=100, walltime=100, ncpus=1, queue="a"),
        job(submitted=5, runtime=5, walltime=50, ncpus=4, queue="b"),
        job(submitted=6, runtime=90, walltime=94, ncpus=1, queue="b"),
    ]
)


def test_every_figure_is_right() -> None:
    metrics = measure(WORKLOAD, simulate(WORKLOAD, 4, SchedulerPolicy(minimum=1)), 4)
    waits = [0, 0, 95, 0]
    area = [20, 100, 20, 90]
    expected = Metrics(
        wait_mean=np.mean(waits),
        wait_p50=0.0,
        wait_p95=np.percentile(waits, 95),
        wait_max=95.0,
        bsld10_mean=np.mean([1, 1, 10, 1]),
        bsld60_mean=np.mean([1, 1, 100 / 60, 1]),
        slowdown_mean=np.mean([1, 1, 20, 1]),
        weighted_wait=95 * 20 / sum(area),
        utilisation=sum(area) / (4 * 105),
        makespan=105.0,
        backfilled=0.25,
        promises=1,
        broken=0.0,
        extensions_mean=0.0,
        wide_wait_p99=np.percentile([0, 95], 99),
        wait_p99=np.percentile(waits, 99),
        # The third job is the widest and the second one runs longest.
        widest_wait_p99=95.0,
        longest_wait_p99=0.0,
    )
    assert replace(metrics, jobs_per_second=None) == expected


def test_a_tenth_holds_all_jobs_that_equal_its_smallest_one() -> None:
    # The 90th percentile of the sizes lies between 1 and 4 for one wide job, and is 4 for two of ten.
    for wide, waits in ((1, [70]), (2, [70, 10])):
        workload = jobs_of([job(submitted=n, ncpus=4 if n < wide else 1) for n in range(10)])
        start = np.array(workload.submitted) + np.array([70, 10, *[500] * 8])
        nothing = np.zeros(10, np.int64)
        schedule = ScheduleOutcome(start, nothing + 60, nothing - 1, nothing > 0, nothing, nothing, 1.0)
        metrics = measure(workload, schedule, 4)
        assert metrics.widest_wait_p99 == np.percentile(waits, 99)
        assert metrics.longest_wait_p99 == metrics.wait_p99 == 500, "all run for the same time"


def outcome(**columns: list[int]) -> ScheduleOutcome:
    nothing = np.zeros(4, np.int64)
    plain = {"start": nothing, "duration": nothing + 1, "promise": nothing - 1, "extensions": nothing}
    arrays = {name: np.array(values) for name, values in columns.items()}
    return ScheduleOutcome(**(plain | {"backfilled": nothing > 0, "waiting": nothing} | arrays), seconds=1.0)


def test_a_promise_is_broken_by_any_later_start() -> None:
    metrics = measure(WORKLOAD, outcome(start=[0, 0, 11, 40], promise=[-1, 0, 10, 20]), 4)
    assert (metrics.promises, metrics.broken, metrics.broken_seconds_mean) == (3, 2 / 3, 10.5)


def test_worse_and_better_count_jobs_that_wait_an_hour_more_or_less() -> None:
    before, after = outcome(start=[0, 5000, 5000, 5000]), outcome(start=[3600, 8599, 1400, 5000])
    metrics = measure(WORKLOAD, after, 4, before)
    assert (metrics.worse_1h, metrics.better_1h) == (0.25, 0.25)
    assert measure(WORKLOAD, after, 4).worse_1h is None


def test_a_damaged_record_does_not_overflow() -> None:
    workload = jobs_of([job(runtime=10**12, walltime=10**12, ncpus=2**31 - 1)])
    metrics = measure(workload, simulate(workload, 2**31 - 1, SchedulerPolicy()), 2**31 - 1)
    assert metrics.utilisation == 1


def test_without_jobs_there_are_no_figures() -> None:
    assert measure(WORKLOAD, outcome(), 4, chosen=np.zeros(4, np.bool_)) == Metrics()


@pytest.mark.parametrize("by", CLASSES)
def test_each_scored_job_is_in_one_class(jobs: Jobs, by: str) -> None:
    for largest in (None, 2):
        found = list(classes(jobs, by, 64, largest).values())
        assert sorted(np.concatenate(found).tolist()) == np.flatnonzero(jobs.scored).tolist()
        assert all(len(members) for members in found)


def test_only_the_largest_users_are_classes_of_their_own() -> None:
    users = "cabbddddee"
    found = classes(jobs_of([job(user, submitted=n, ncpus=1) for n, user in enumerate(users)]), "user", 4, 2)
    assert {name: "".join(users[index] for index in members) for name, members in found.items()} == {
        "d": "dddd", "b": "bb", OTHERS: "caee",
    }  # fmt: skip
    assert list(found) == ["d", "b", OTHERS]


def test_a_class_has_the_figures_of_its_jobs_alone() -> None:
    before, after = outcome(start=[0, 5000, 5000, 5000]), outcome(start=[3600, 8599, 1400, 5000])
    members = {by: classes(WORKLOAD, by, 4) for by in CLASSES}
    found = measure_classes(WORKLOAD, after, 4, members, before)
    assert set(found) == set(CLASSES)
    for by, each in found.items():
        for name, metrics in each.items():
            chosen = np.isin(np.arange(4), members[by][name])
            assert metrics == measure(WORKLOAD, after, 4, before, chosen)
    # Queue a holds the first two jobs: one waits 1 h longer, the other 1 s less than that.
    assert (found["queue"]["a"].wait_mean, found["queue"]["a"].worse_1h) == ((3600 + 8599) / 2, 0.5)


def test_classes_have_names_that_a_reader_knows() -> None:
    assert list(classes(WORKLOAD, "size", 4)) == [
        "1 processor",
        "up to 1/2 of the machine",
        "more than 1/2 of the machine",
    ]
    assert list(classes(WORKLOAD, "runtime", 4)) == ["up to 1 min", "up to 10 min"]
    assert list(classes(WORKLOAD, "month", 4)) == ["1970-01"]
    assert list(classes(WORKLOAD, "queue", 4)) == ["a", "b"]
    with pytest.raises(UsageError, match="no class is called 'colour'"):
        classes(WORKLOAD, "colour", 4)


def test_the_interval_is_students() -> None:
    # By hand: mean 2, standard deviation 1, t(2) = 4.303.
    found = interval([1.0, 2.0, 3.0])
    assert found.mean == 2.0
    assert found.high == pytest.approx(2 + 4.303 / 3**0.5)
    assert found.low == pytest.approx(2 - 4.303 / 3**0.5)
    assert interval([2.0]) == Interval(2.0, None, None)
    assert interval([]) == Interval(None, None, None)


def test_differences_are_paired() -> None:
    baseline = [Metrics(wait_mean=100.0, broken=0.0), Metrics(wait_mean=1000.0, broken=0.0)]
    policy = [Metrics(wait_mean=90.0, broken=0.1), Metrics(wait_mean=900.0, broken=0.1)]
    relative = relative_changes(policy, baseline)["wait_mean"]
    assert (relative.mean, relative.low, relative.high) == pytest.approx((-0.1, -0.1, -0.1))
    found = differences(policy, baseline)
    assert found["wait_mean"].mean == -55
    assert found["broken"].mean == 0.1
    assert found["wait_p95"].mean is None


def test_means_leave_out_what_is_missing() -> None:
    found = means([Metrics(wait_mean=1.0, promises=2), Metrics(wait_mean=None, promises=3), Metrics(wait_mean=3.0)])
    assert (found.wait_mean, found.promises, found.wait_p95) == (2.0, 2, None)
    assert set(asdict(found)) == set(asdict(Metrics()))
