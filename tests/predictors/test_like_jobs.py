"""What predictors keep of jobs, compared with lists of all jobs: windows, last jobs, options."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softwalltime.core.errors import SoftwalltimeError
from softwalltime.core.jobs import CompletedJob, NoPrediction, Prediction
from softwalltime.core.reasons import Reason
from softwalltime.predict.predictors.keys import KEYS
from softwalltime.predict.predictors.last_jobs import LastJobs
from softwalltime.predict.predictors.like_jobs import RecentJobs
from softwalltime.predict.predictors.registry import make
from tests.samples import job

WINDOW = 5
entries = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 14), st.integers(0, 3)), max_size=14)


@given(entries, st.integers(0, 8))
def test_a_window_has_the_values_of_the_jobs_that_ended_in_it(jobs: list[tuple[str, int, int]], later: int) -> None:
    recent = RecentJobs(WINDOW)
    newest = 0
    for count, (key, end, value) in enumerate(jobs, 1):
        newest = max(newest, end)
        recent.add(key, end, float(value))
        for now in (newest, newest + later):
            for each in "ab":
                ended = [
                    value for of, end, value in jobs[:count] if of == each and now - WINDOW <= end <= now
                ]  # fmt: skip
                assert recent.values(each, now) == sorted(ended)
    recent.remove_before(newest + 1)
    assert not recent.by_end
    assert recent.like == {}


def test_memory_is_bounded_by_the_jobs_in_the_window() -> None:
    recent = RecentJobs(WINDOW)
    for end in range(100):
        recent.add(end % 2, end, 1.0)
    assert [end for end, _ in recent.by_end] == list(range(99 - WINDOW, 100))
    recent.remove_before(98)
    assert [end for end, _ in recent.by_end] == [98, 99]
    recent.add("other", 97, 1.0)
    assert [end for end, _ in recent.by_end] == [97, 98, 99]


def test_the_first_second_of_the_window_counts_between_older_and_newer_jobs() -> None:
    predictor = make("percentile:p=0,least=1,window=100s")
    for runtime, end in ((100, 899), (200, 900), (400, 990)):
        predictor.learn(job(runtime=runtime, walltime=1000, end=end))
    answers = [predictor.predict(job(walltime=1000).submission, now).seconds for now in (999, 1000, 1001)]
    assert answers == [100, 200, 400]


def jobs_of(entries: list[tuple[int, int, str, str]]) -> list[tuple[CompletedJob, int]]:
    return [
        (job(job_id=f"{number}{index}.{server}", server=server, end=end), value)
        for value, (number, end, index, server) in enumerate(entries)
    ]


tied = st.lists(
    st.tuples(
        st.sampled_from([9, 10, 11]), st.integers(0, 3), st.sampled_from(["", "[2]", "[10]"]), st.sampled_from("st")
    ),
    max_size=9,
)


@given(tied, st.integers(1, 4))
def test_the_last_jobs_are_those_of_a_sorted_list_in_whatever_order_they_come(
    entries: list[tuple[int, int, str, str]], limit: int
) -> None:
    last = LastJobs[int, float](limit)
    jobs = jobs_of(entries)

    def position(entry: tuple[CompletedJob, int]) -> tuple[int, int, str, int, str]:
        number, end, index, server = entries[entry[1]]
        return end, number, "", len(index), f"{index}.{server}"

    for count, (of, value) in enumerate(jobs, 1):
        last.summary = 1.0
        last.add(of, value)
        assert last.summary is None
        assert list(last.values) == [value for _, value in sorted(jobs[:count], key=position)][-limit:]


@pytest.mark.parametrize(
    ("written", "seconds"), [("30d", 30 * 86400), ("12h", 43200), ("90m", 5400), ("2w", 1209600), ("7s", 7), ("7", 7)]
)
def test_windows_have_units(written: str, seconds: int) -> None:
    assert make(f"percentile:window={written}").history.seconds == seconds


@pytest.mark.parametrize(
    "spec",
    [
        "percentile:window=0", "percentile:window=d", "percentile:window=1.5d", "percentile:window=3y",
        "percentile:keys=user+user", "percentile:keys=", "percentile:keys=user+size", "percentile:least=0",
        "percentile:p=-1", "percentile:p=101", "percentile:threshold=-0.1", "percentile:threshold=1.1",
        "last2:margin=-1", "last2+900:margin=-1", "usage:margin=-1", "usage:last=0",
        "usage:last=1001",
    ],
)  # fmt: skip
def test_wrong_options_are_refused(spec: str) -> None:
    with pytest.raises(SoftwalltimeError):
        make(spec)


@pytest.mark.parametrize(
    "spec",
    [
        "percentile:window=1", "percentile:least=1", "percentile:p=0", "percentile:p=100", "percentile:threshold=0",
        "percentile:threshold=1", "last2:margin=0", "last2+900:margin=0", "usage:margin=0", "usage:last=1",
        "usage:last=1000", "percentile:keys=walltime", f"percentile:keys={'+'.join(KEYS)}",
    ],
)  # fmt: skip
def test_the_edges_of_options_are_accepted(spec: str) -> None:
    make(spec)


@pytest.mark.parametrize(
    ("spec", "option", "value"), [("v2:margin=7", "margin", 7), ("v4:last=7", "last", 7), ("percentile:p=7", "p", 7)]
)
def test_a_predictor_has_its_options(spec: str, option: str, value: int) -> None:
    assert getattr(make(spec).options, option) == value


@pytest.mark.parametrize(("spec", "per_user"), [("v1", 2), ("v2", 2), ("v3", 15), ("v4", 15), ("usage:last=7", 7)])
def test_each_predictor_says_which_jobs_it_needs_after_a_restart(spec: str, per_user: int) -> None:
    assert make(spec).history.per_user == per_user


def test_least_and_window_have_their_documented_defaults() -> None:
    assert make("percentile").history.seconds == 30 * 86400
    few = [job(runtime=100, walltime=1000, end=100)] * 9
    predictor = make("percentile")
    for completed in few:
        predictor.learn(completed)
    assert "10 are needed" in predictor.predict(job(walltime=1000).submission, 200).basis


@pytest.mark.parametrize("spec", ["v1", "v3", "v4", "percentile:least=1"])
def test_jobs_that_did_not_run_teach_nothing_and_one_second_does(spec: str) -> None:
    predictor = make(spec)
    predictor.learn(job(runtime=0, walltime=1000, end=100))
    assert isinstance(predictor.predict(job(walltime=1000).submission, 200), NoPrediction)
    predictor.learn(job(runtime=1, walltime=1000, end=100))
    assert predictor.predict(job(walltime=1000).submission, 200).seconds == {"v1": 1, "v3": 901, "v4": 901}.get(spec, 1)


@pytest.mark.parametrize("spec", ["v3", "v4", "percentile:least=1"])
def test_walltimes_of_one_second_are_walltimes(spec: str) -> None:
    predictor = make(spec)
    predictor.learn(job(runtime=1, walltime=1, end=100))
    assert predictor.predict(job(walltime=1).submission, 200).seconds == (1 if "least" in spec else 901)


@pytest.mark.parametrize(
    ("spec", "basis"),
    [
        ("v1", "mean of the last 2 runtimes of user alice"),
        ("v2", "mean of the last 2 runtimes of user alice, plus 900 s"),
        ("v3", "user alice used at most 20% of the walltime in the last 2 jobs, plus 900 s"),
        ("v4", "user alice used at most 20% of the walltime in the last 2 jobs, doubled, plus 900 s"),
    ],
)
def test_the_basis_names_jobs_share_and_margin(spec: str, basis: str) -> None:
    predictor = make(spec)
    for runtime in (100, 200):
        predictor.learn(job(runtime=runtime, walltime=1000, end=100))
    answer = predictor.predict(job(walltime=100_000).submission, 200)
    assert isinstance(answer, Prediction)
    assert answer == Prediction(answer.seconds, answer.template, answer.values), "one number is no distribution"
    assert answer.basis == basis


def test_a_running_job_is_predicted_by_the_jobs_that_used_more_of_their_walltime() -> None:
    predictor = make("percentile:p=0,least=2")
    for runtime in (100, 300, 500):
        predictor.learn(job(runtime=runtime, walltime=1000, end=100))
    asked = job(walltime=1000).submission
    answers = [predictor.predict(asked, 200, elapsed).seconds for elapsed in (0, 99, 100, 300, 500, 900)]
    assert answers == [100, 100, 300, 500, 100, 100]


def test_the_threshold_lifts_nothing_above_it() -> None:
    predictor = make("percentile:least=1,threshold=0.5")
    for runtime, expected in ((500, 500), (600, 600)):
        predictor = make("percentile:least=1,threshold=0.5")
        predictor.learn(job(runtime=runtime, walltime=1000, end=100))
        assert predictor.predict(job(walltime=1000).submission, 200).seconds == expected


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("v1", Reason.NO_COMPLETED_JOBS), ("v2", Reason.NO_COMPLETED_JOBS),
        ("v3", Reason.NO_COMPLETED_JOBS_WITH_WALLTIME), ("v4", Reason.NO_COMPLETED_JOBS_WITH_WALLTIME),
        ("percentile", Reason.TOO_FEW_JOBS),
    ],
)  # fmt: skip
def test_without_jobs_there_is_a_cold_start_with_its_reason(spec: str, reason: Reason) -> None:
    cold = make(spec).predict(job(walltime=1000).submission, 200)
    assert isinstance(cold, NoPrediction)
    assert cold.reason is reason
    assert cold.basis


def test_a_share_needs_a_walltime() -> None:
    for spec in ("v3", "v4", "percentile:least=1"):
        predictor = make(spec)
        predictor.learn(job(runtime=100, walltime=1000, end=100))
        for walltime in (None, 0):
            cold = predictor.predict(job(walltime=walltime).submission, 200)
            assert isinstance(cold, NoPrediction)
            assert cold.reason is Reason.NO_WALLTIME


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("window=3y", "write 30d, 12h, 90m or plain seconds"),
        ("window=1.5d", "write 30d, 12h, 90m or plain seconds"),
        ("keys=user+user", "keys are one or more of user, group"),
    ],
)
def test_errors_of_options_say_what_to_write(option: str, message: str) -> None:
    with pytest.raises(SoftwalltimeError, match=message):
        make(f"percentile:{option}")


def test_a_waiting_job_has_not_run_yet() -> None:
    predictor = make("percentile:p=0,least=1")
    for runtime, end in ((1, 100), (900, 101)):
        predictor.learn(job(runtime=runtime, walltime=1000, end=end))
    asked = job(walltime=1000).submission
    assert predictor.predict(asked, 200) == predictor.predict(asked, 200, 0)
    assert predictor.predict(asked, 200).seconds == 1
