"""What the report says, worked out by hand."""

import numpy as np
import pytest

from softwalltime.jobs import CompletedJob, DecisionRecord, Submission
from softwalltime.replay.metrics import score
from softwalltime.replay.workload import Workload
from softwalltime.reports.analysis import periods
from softwalltime.reports.analysis.groups import (
    Group,
    group_jobs,
    most_deteriorated,
    most_improved,
    summarize_users,
)
from softwalltime.reports.analysis.periods import Span, bounded_slowdown
from softwalltime.reports.analysis.predictions import analyze_predictions, evaluate
from softwalltime.reports.analysis.walltimes import analyze_walltimes
from softwalltime.reports.columns import make_columns
from tests.reports.fixtures import DAY, made, steady_jobs, table
from tests.samples import job

HOUR = 3600


def test_r_is_capped_at_1_and_cpu_hours_weigh_by_processors() -> None:
    jobs = [
        job(runtime=360, walltime=3600, ncpus=9),
        job(submitted=1, runtime=4000, walltime=3600, ncpus=1),
        job(submitted=2, runtime=0, walltime=3600),
    ]
    found = analyze_walltimes(table(jobs))
    assert found is not None
    assert found.jobs == 2
    assert found.mean_r == pytest.approx(0.55)
    assert found.killed == 0.5
    assert found.wasted == pytest.approx(1 - (9 * 360 + 3600) / (10 * 3600))
    assert found.r_jobs[2] == found.r_jobs[19] == 0.5
    assert found.r_cpu[2] == pytest.approx(9 * 360 / (9 * 360 + 4000))


def test_popular_walltimes_come_first_with_their_share_of_killed_jobs() -> None:
    jobs = [job(submitted=n, runtime=600 * (n + 1), walltime=w) for n, w in enumerate([1800, 3600, 3600, 1800, 1800])]
    found = analyze_walltimes(table(jobs))
    assert found is not None
    assert [(one.walltime, one.jobs) for one in found.popular] == [(1800, 3), (3600, 2)]
    assert found.popular[0].killed == pytest.approx(2 / 3)
    assert found.popular[1].mean_r == pytest.approx((1200 + 1800) / 2 / 3600)


def test_a_heat_map_counts_every_job_once() -> None:
    jobs = [
        job(submitted=n, runtime=runtime, walltime=DAY, ncpus=ncpus)
        for n, (ncpus, runtime) in enumerate([(1, 5), (2, 10), (3, 10), (4, 3600), (None, 59)])
    ]
    found = analyze_walltimes(table(jobs))
    assert found is not None
    heat = found.by_runtime
    assert heat.cpus == (1, 2, 4)
    assert heat.times[0] == 0
    assert heat.shares.sum() == pytest.approx(1)
    assert heat.shares[1, heat.times.index(10)] == pytest.approx(0.4)
    assert heat.shares[2, heat.times.index(3600)] == pytest.approx(0.2)


def test_r_is_by_quarter_or_by_month_for_few_quarters() -> None:
    few = analyze_walltimes(table([job(submitted=n * 30 * DAY, runtime=500) for n in range(4)]))
    many = analyze_walltimes(table([job(submitted=n * 30 * DAY, runtime=500) for n in range(24)]))
    assert few is not None
    assert many is not None
    assert (few.period, few.periods[0].label, few.periods[0].jobs) == ("month", "1970-01", 2)
    assert (many.period, many.periods[0].label, many.periods[1].label) == ("quarter", "1970 Q1", "1970 Q2")
    assert many.periods[0].mean_r == 0.5


@pytest.mark.parametrize(
    ("soft", "expected"),
    [(-1, (1, 0, 0, 0)), (6000, (0, 1, 0, 0)), (5000, (0, 1, 0, 0)), (4000, (0, 0, 1, 0)), (3000, (0, 0, 0, 1))],
)
def test_each_job_is_one_of_na_oe_ue_be(soft: int, expected: tuple[int, ...]) -> None:
    judged = evaluate(table([job(runtime=5000, walltime=7200)]), "x", np.array([soft]))
    assert judged.errors.outcomes == expected


def test_the_figures_of_a_predictor_agree_with_those_of_the_replay() -> None:
    jobs = steady_jobs(200)
    workload = Workload(jobs)
    found = make_columns(workload)
    soft = np.where(np.arange(200) % 4, found.walltime // np.array([2, 8])[np.arange(200) % 2], -1)
    judged, scores = evaluate(found, "x", soft), score(workload, soft)
    not_adjusted, over, under, badly = judged.errors.outcomes
    assert not_adjusted == pytest.approx(scores.not_adjusted)
    assert over == pytest.approx(scores.over)
    assert under + badly == pytest.approx(scores.underestimated)
    assert badly == pytest.approx(scores.badly_underestimated)
    assert judged.errors.accuracy.mean() == pytest.approx(scores.accuracy_mean)
    assert np.abs(judged.errors.error).mean() == pytest.approx(scores.mean_absolute_error)


def test_errors_are_sorted_and_boxes_are_by_runtime() -> None:
    runtimes = [2 * HOUR, 2 * HOUR + 1, 24 * HOUR, 24 * HOUR + 1]
    jobs = [job(submitted=n, runtime=runtime, walltime=48 * HOUR) for n, runtime in enumerate(runtimes)]
    found = analyze_predictions(table(jobs), evaluate(table(jobs), "x", np.full(4, 10 * HOUR)))
    assert found.errors.tolist() == [-14 * HOUR - 1, -14 * HOUR, 8 * HOUR - 1, 8 * HOUR]
    assert [box.jobs for box in found.by_runtime] == [1, 2, 1]
    assert found.by_runtime[0].percentiles == (8 * HOUR,) * 5
    assert found.extensions == (0.5, 0, 0.5, 0, 0, 0)
    assert found.accuracies[-1] == 1


def test_an_accuracy_by_cpu_hours_is_that_of_the_large_jobs() -> None:
    jobs = [job(runtime=100, walltime=1000, ncpus=1), job(submitted=1, runtime=1000, walltime=1000, ncpus=99)]
    found = analyze_predictions(table(jobs), evaluate(table(jobs), "x", np.array([-1, -1])))
    assert found.accuracy_by_cpu_hours == pytest.approx((0.1 * 100 + 1.0 * 99_000) / 99_100)


def test_a_group_improves_by_the_mean_absolute_error_of_its_jobs() -> None:
    jobs = [
        job("a", runtime=100, walltime=DAY * 2),
        job("a", submitted=1, runtime=300, walltime=DAY * 2),
        job("b", submitted=2, runtime=900, walltime=1000),
        job("c", submitted=3, runtime=900, walltime=1000),
    ]
    found = table(jobs)
    users = group_jobs(found, evaluate(found, "x", np.array([200, 200, 100, -1])), found.user)
    assert [user.name for user in users] == ["a", "b", "c"]
    first = users[0]
    assert (first.jobs, first.error, first.walltime_error) == (2, 100, 2 * DAY - 200)
    assert (first.underestimated, first.adjusted) == (0.5, 1)
    assert first.accuracy == pytest.approx((0.5 + 2 / 3) / 2)


def test_only_notable_changes_of_users_with_enough_jobs_count() -> None:
    users = [
        Group("a", 10, 2.0 * DAY, 0, 0.1, 0.5, 0.0, 1),
        Group("b", 10, 100, 800, 0.5, 0.1, 0.0, 1),
        Group("c", 10, 100, 100.4, 0.5, 0.5, 0.0, 1),
        Group("few", 9, 9000, 0, 0.1, 0.9, 0.0, 1),
        Group("too short", 10, 9000, 0, 0.1, 0.9, 0.52, 1),
        Group("less accurate", 10, 9000, 8000, 0.5, 0.46, 0.48, 1),
    ]
    told = summarize_users(users, 0.5)
    assert (told.users, told.better, told.worse, told.same, told.mixed) == (5, 0.2, 0.2, 0.2, 0.4)
    assert (told.better_by_a_day, told.worst) == (0.2, 700)
    assert [user.name for user in most_improved(users, 0.5)] == ["a"]
    assert [user.name for user in most_deteriorated(users)] == ["b"]
    assert summarize_users(users[3:4], 0.5).users == 0


def test_the_project_field_is_the_first_in_which_jobs_differ() -> None:
    default = "_pbs_project_default"
    assert table([job(project="a"), job(submitted=1, project="b")]).project_field == "project"
    by_account = table([job(project=default, account="x"), job(submitted=1, project=default, account="y")])
    assert (by_account.project_field, by_account.project.names) == ("account", ("x", "y"))
    assert table([job(project=default)]).project.names == ("(none)",)


def test_a_wait_begins_when_the_job_could_have_run() -> None:
    plain = job(submitted=100, end=700, runtime=100)
    held = job(submitted=100, end=700, runtime=100, etime=550)
    never = job(submitted=100, end=700, runtime=0, start=None)
    assert table([plain, held, never]).wait.tolist() == [500, 50, -1]


@pytest.mark.parametrize(("bound", "slowdown"), [(1, 21), (10, 10.5), (600, 1)])
def test_slowdown_is_bounded(bound: int, slowdown: float) -> None:
    assert bounded_slowdown(np.array([100]), np.array([5]), bound).tolist() == [slowdown]


def test_the_first_soft_walltime_separates_the_periods() -> None:
    jobs = [
        job(submitted=n * DAY, runtime=600, soft_walltime=700 if n >= 6 else None, ncpus=6, job_id=f"{n}.srv")
        for n in range(10)
    ]
    happened = made(jobs).happened
    assert happened.adjusted == 4
    assert happened.periods is not None
    before, after = happened.periods
    assert (before.jobs, after.jobs) == (6, 4)
    assert before.span == Span(0, 6 * DAY)
    assert before.load == pytest.approx(1.0)
    assert before.classes[0].mean == 10
    assert sum(week.jobs for week in happened.weeks) == 4
    assert happened.weeks[0].accuracy == pytest.approx(600 / 700)
    assert happened.weeks[0].walltime_accuracy == pytest.approx(0.6)
    assert {week.start % (7 * DAY) for week in happened.weeks} == {4 * DAY}, "weeks begin on Mondays"


def test_a_soft_walltime_raised_to_the_walltime_is_no_prediction() -> None:
    happened = made([job(soft_walltime=1000), job(submitted=DAY, soft_walltime=None)]).happened
    assert (happened.adjusted, happened.raised, happened.weeks) == (0, 1, [])


def decision(job_id: str, at: int, soft: int | None, *, walltime: int = 1000, action: str = "set") -> DecisionRecord:
    return DecisionRecord(
        at, "postqueuejob", Submission(job_id, "alice", at, walltime), "on", "v3", None, soft, action, ""
    )  # fmt: skip


def test_a_decision_without_job_id_belongs_to_the_job_submitted_at_that_time() -> None:
    jobs = [
        job(job_id="1.srv", submitted=1000, runtime=500),
        job(job_id="2.srv", submitted=1002, runtime=500),
        job(job_id="3.srv", submitted=2000, runtime=500),
        job(job_id="4.srv", submitted=3000, runtime=500, walltime=2000),
        job("bob", job_id="5.srv", submitted=4000, runtime=500),
        job(job_id="6.srv", submitted=5000, runtime=500),
    ]
    # By id, and without: one second before PBS's time of submission, two jobs at once, another walltime, another user.
    recorded = [
        decision("", 999, 700),
        decision("", 1002, 800),
        decision("3.srv", 2000, 600),
        decision("", 2000, 300),
        decision("", 3000, 400),
        decision("", 4000, 400),
        decision("", 4996, 400),
    ]
    workload = Workload(jobs)
    found = periods.from_decisions(workload, recorded, periods.recorded_predictions(make_columns(workload)))
    assert found.soft_walltime.tolist() == [700, 800, 600, -1, -1, -1]


def test_recorded_decisions_take_precedence_over_the_log() -> None:
    jobs = [
        job(job_id="1.srv", submitted=1000, runtime=500, soft_walltime=1000),
        job(job_id="2.srv", submitted=2000, runtime=500),
        job(job_id="3.srv", submitted=3000, runtime=500, soft_walltime=600),
        job(job_id="1.srv", submitted=10**6, runtime=500),
        job(job_id="4.srv", submitted=4000, runtime=500),
    ]
    recorded = [
        decision("1.srv", 1000, 700),
        decision("2.srv", 2000, 800, action="shadow"),
        decision("4.srv", 4000, 300),
        decision("4.srv", 4100, 1000),
        decision("9.srv", 5000, 300),
    ]
    workload = Workload(jobs)
    found = periods.from_decisions(workload, recorded, periods.recorded_predictions(make_columns(workload)))
    names = [
        found.names[code] if soft >= 0 else "" for code, soft in zip(found.predictor, found.soft_walltime, strict=True)
    ]
    assert found.soft_walltime.tolist() == [700, 800, 600, -1, -1]
    assert names == ["v3", "v3 (shadow)", periods.UNRECORDED, "", ""]
    assert found.applied.tolist() == [True, False, True, False, False]
    assert found.shadow.tolist() == [False, True, False, False, False]


def test_a_change_of_the_mean_wait_has_an_interval_over_weeks() -> None:
    def waiting(hours: list[int], first: int) -> list[CompletedJob]:
        return [
            job(submitted=(first + week) * 7 * DAY + n, end=(first + week) * 7 * DAY + n + wait * HOUR + 100)
            for week, wait in enumerate(hours)
            for n in range(5)
        ]

    before, after = [1, 2, 3, 2, 2], [4, 6, 5, 5, 5]
    found = table([*waiting(before, 0), *waiting(after, 10)])
    none = periods.recorded_predictions(found)
    spans = Span(0, 70 * DAY), Span(70 * DAY, 140 * DAY)
    pair = [periods.summarize_period(found, span, none) for span in spans]
    assert pair[0] is not None
    assert pair[1] is not None
    first, second = pair[0].classes[0], pair[1].classes[0]
    # Of weeks with the same number of jobs the jackknife gives the standard error of the mean of the weeks.
    assert first.error == pytest.approx(np.std(before, ddof=1) * HOUR / 5**0.5)
    change = periods.change_of_mean(first, second)
    half = 2.776 * np.hypot(np.std(before, ddof=1), np.std(after, ddof=1)) / 5**0.5
    assert change.mean == 3 * HOUR
    assert (change.low, change.high) == (pytest.approx((3 - half) * HOUR), pytest.approx((3 + half) * HOUR))
    few = table(waiting([1, 2, 3], 0))
    alone = periods.summarize_period(few, spans[0], periods.recorded_predictions(few))
    assert alone is not None
    assert alone.classes[0].error is None
    assert periods.change_of_mean(alone.classes[0], second).low is None
