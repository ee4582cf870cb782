"""What is expected of every predictor, ours or another package's: one suite, run over the registry."""

import pickle
import sys
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from functools import cache
from random import Random

import pytest

from softwalltime.core.events import Kind
from softwalltime.core.jobs import CompletedJob, NoPrediction, Prediction
from softwalltime.measure.replay.workload import Workload
from softwalltime.measure.workloads.synthetic import generate
from softwalltime.predict.policy.clamp import soft_walltime
from softwalltime.predict.predictors.base import History, Predictor
from softwalltime.predict.predictors.calibrated import CalibratedOptions
from softwalltime.predict.predictors.registry import available, make
from tests.samples import events, job

every_predictor = pytest.mark.parametrize("predictor", available(), ids=lambda predictor: predictor.name)


@pytest.fixture(scope="module")
def workload() -> Workload:
    """Five weeks, as TRIP is fitted first after a month, and few jobs, as each predictor is asked for all of them."""
    return Workload(generate(1000, seed=7, processors=8))


def fresh(predictor: type[Predictor]) -> Predictor:
    return predictor(predictor.options_type())


def answers(predictor: Predictor, workload: Workload) -> Iterator[Prediction | NoPrediction]:
    next_fit = 0
    for kind, number, now in events(workload):
        if now >= next_fit:
            predictor.fit(now)
            next_fit = now + predictor.fit_seconds
        if kind == Kind.ENDED:
            predictor.learn(workload.jobs[number])
        else:
            submission = workload.jobs[number].submission
            yield predictor.predict(submission, submission.submitted)


@cache
def kept_answers(predictor: type[Predictor], workload: Workload) -> list[Prediction | NoPrediction]:
    return list(answers(fresh(predictor), workload))


@every_predictor
def test_it_is_documented(predictor: type[Predictor]) -> None:
    assert predictor.__doc__
    assert predictor.summary
    assert predictor.source
    assert predictor.name == predictor.name.lower()
    assert not set(predictor.name) & set(" ,:=")
    for name, field in predictor.options_type.model_fields.items():
        assert field.description, f"option {name} says what it is"


@every_predictor
def test_without_history_it_says_in_a_sentence_why_it_predicts_nothing(predictor: type[Predictor]) -> None:
    model = fresh(predictor)
    # A predictor without history, such as a share of the walltime, still says nothing of a job without walltime.
    answer = model.predict(job(walltime=None if model.history == History() else 1000).submission, 0)
    assert isinstance(answer, NoPrediction)
    assert len(answer.basis) > 10
    assert "{" not in answer.basis


@every_predictor
def test_it_is_never_negative_and_says_what_it_rests_on(predictor: type[Predictor], workload: Workload) -> None:
    for answer in kept_answers(predictor, workload):
        if isinstance(answer, Prediction):
            assert 0 <= answer.seconds < float("inf")
            assert len(answer.basis) > 10
        else:
            assert answer.basis


@every_predictor
def test_it_is_deterministic(predictor: type[Predictor], workload: Workload) -> None:
    assert kept_answers(predictor, workload) == list(answers(fresh(predictor), workload))


@every_predictor
def test_asking_changes_no_later_answer(predictor: type[Predictor], workload: Workload) -> None:
    asked_often, asked_once = fresh(predictor), fresh(predictor)
    for kind, number, _ in events(workload):
        completed = workload.jobs[number]
        submission = completed.submission
        if kind == Kind.ENDED:
            asked_often.learn(completed)
            asked_once.learn(completed)
            asked_often.predict(submission, completed.end)
            asked_often.predict(submission, completed.end, elapsed=completed.runtime)
        else:
            now = submission.submitted
            first = asked_often.predict(submission, now)
            assert asked_often.predict(submission, now) == first == asked_once.predict(submission, now)


@every_predictor
def test_it_says_whether_it_takes_a_killed_job_for_a_lower_bound(
    predictor: type[Predictor], workload: Workload
) -> None:
    # One history in which every job ran into its walltime and was killed, and one in which all just finished in time.
    at_the_limit = [replace(each, runtime=each.submission.walltime or 60) for each in workload.jobs]
    killed, finished = fresh(predictor), fresh(predictor)
    for each in sorted(at_the_limit, key=lambda completed: completed.end):
        killed.learn(replace(each, exit_status=-29))
        finished.learn(replace(each, exit_status=0))
    now = max(each.end for each in at_the_limit)
    submissions = [each.submission for each in workload.jobs[-300:]]
    same = all(killed.predict(each, now) == finished.predict(each, now) for each in submissions)
    assert predictor.censoring is not same


@every_predictor
def test_it_survives_pickling(predictor: type[Predictor], workload: Workload) -> None:
    original = fresh(predictor)
    list(answers(original, workload))
    copy = pickle.loads(pickle.dumps(original))
    now = max(completed.end for completed in workload.jobs)
    submissions = [completed.submission for completed in workload.jobs[-300:]]
    assert [copy.predict(each, now) for each in submissions] == [original.predict(each, now) for each in submissions]
    assert copy.options == original.options


@every_predictor
def test_memory_is_bounded_for_the_same_users_over_the_years(predictor: type[Predictor]) -> None:
    day = 86400
    model = fresh(predictor)

    def size_after(first_day: int) -> int:
        for number in range(first_day * 20, (first_day + 400) * 20):
            user = f"user{number % 7}"
            model.learn(job(user, submitted=number * day // 20, runtime=1 + number % 997))
        return len(pickle.dumps(model))

    assert size_after(400) <= 1.1 * size_after(0) + 1000


@every_predictor
def test_the_history_that_it_asks_for_is_all_that_it_needs(predictor: type[Predictor], workload: Workload) -> None:
    in_order = sorted(workload.jobs, key=lambda completed: completed.end)
    now = in_order[-1].end
    taught_all, taught_history = fresh(predictor), fresh(predictor)
    history = taught_all.history
    needed: set[int] = set()
    of_user: dict[tuple[str, bool], int] = {}
    for number in reversed(range(len(in_order))):
        completed = in_order[number]
        for kind in (True, False):
            if completed.scored if kind else completed.ran:
                count = of_user[completed.submission.user, kind] = of_user.get((completed.submission.user, kind), 0) + 1
                if history.per_user is None or count <= history.per_user:
                    needed.add(number)
        if history.seconds is None or completed.end >= now - history.seconds:
            needed.add(number)
    for number, completed in enumerate(in_order):
        taught_all.learn(completed)
        if number in needed:
            taught_history.learn(completed)
    for completed in workload.jobs[-500:]:
        assert taught_history.predict(completed.submission, now) == taught_all.predict(completed.submission, now)


@every_predictor
@pytest.mark.parametrize("odd", [{"runtime": 0}, {"walltime": None}, {"walltime": 0}, {"user": ""}, {"walltime": 1}])
def test_odd_jobs_are_survived_and_odd_submissions_answered(predictor: type[Predictor], odd: dict[str, object]) -> None:
    model = fresh(predictor)
    odd_job: CompletedJob = job(**odd)
    for number in range(20):
        model.learn(odd_job)
        model.learn(job(submitted=number))
    for asked in (odd_job, job()):
        answer = model.predict(asked.submission, 1000)
        seconds = soft_walltime(answer, asked.submission)
        assert seconds is None or 60 <= seconds < (asked.submission.walltime or 0)


@every_predictor
def test_jobs_that_never_ran_teach_nothing(predictor: type[Predictor]) -> None:
    model = fresh(predictor)
    for number in range(50):
        model.learn(job(submitted=number, runtime=0))
    assert model.predict(job().submission, 1000) == fresh(predictor).predict(job().submission, 1000)


@every_predictor
def test_the_answers_do_not_depend_on_the_order_in_which_a_days_jobs_became_known(predictor: type[Predictor]) -> None:
    """As with the logs of two servers, or one that comes late; many jobs end at the same moment."""
    day, chance = 86400, Random(8)
    jobs = [
        replace(
            job(
                f"user{chance.randrange(5)}", job_id=f"{number % 700}.srv", submitted=end - 2000, end=end,
                runtime=chance.randrange(1, 1000), walltime=chance.choice([None, 1000, 2000]),
            ),
            server=f"srv{chance.randrange(2)}",
        )
        for number in range(1500) for end in [3000 + chance.randrange(40) * day // 10]
    ]  # fmt: skip
    in_order = sorted(jobs, key=lambda each: each.end)
    shuffled = sorted(jobs, key=lambda each: (each.end // day, chance.random()))
    backwards = sorted(jobs, key=lambda each: (each.end // day, -each.end, each.submission.job_id))
    models = [fresh(predictor) for _ in range(3)]
    for model, order in zip(models, (in_order, shuffled, backwards), strict=True):
        for each in order:
            model.learn(each)
    now = in_order[-1].end
    for each in jobs[:300]:
        first, *others = (model.predict(each.submission, now) for model in models)
        assert others == [first, first]


def lines_executed(model: Predictor, jobs: list[CompletedJob]) -> list[int]:
    """How many lines of Python each job takes to be learnt: a measure that no other load of the machine changes."""
    counts = []
    count = 0

    def trace(*_: object) -> object:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    for each in jobs:
        count = 0
        sys.settrace(trace)
        try:
            model.learn(each)
        finally:
            sys.settrace(before)
        counts.append(count)
    return counts


@cache
def steady_year() -> list[CompletedJob]:
    """Return the jobs of a year in which nobody starts or stops; what is expensive belongs into fit."""
    return [
        job(f"user{n % 20}", job_id=str(n), submitted=n * 1800, end=n * 1800 + 900, runtime=1 + n * 37 % 800, ncpus=1)
        for n in range(17_520)
    ]


@every_predictor
def test_learning_is_cheap_and_stays_cheap(predictor: type[Predictor]) -> None:
    jobs = steady_year()
    model = fresh(predictor)
    early = lines_executed(model, jobs[:4000])
    for each in jobs[4000:-4000]:
        model.learn(each)
    late = lines_executed(model, jobs[-4000:])
    # One that estimates the first jobs again, at submission and at start, does so with numpy, in up to 1000 lines each.
    steps = 6 if isinstance(model.options, CalibratedOptions) else 1
    assert max(early + late) < 500 * steps, "some lines a job"
    assert sum(late) / len(late) < 100 * steps
    assert sum(late) <= 2 * sum(early[1000:]) / 3 * 4 + 4000, "the last jobs take no longer than the first"


@every_predictor
def test_a_copy_answers_as_the_original_and_learns_apart_from_it(
    predictor: type[Predictor], workload: Workload
) -> None:
    original = fresh(predictor)
    list(answers(original, workload))
    now = max(completed.end for completed in workload.jobs)
    submissions = [completed.submission for completed in workload.jobs[-300:]]
    before = [original.predict(each, now) for each in submissions]
    twin = deepcopy(original)
    for each in workload.jobs[-300:]:
        twin.learn(replace(each, end=now, runtime=each.runtime + 50))
    twin.fit(now)
    assert [original.predict(each, now) for each in submissions] == before


@every_predictor
def test_a_distribution_is_one(predictor: type[Predictor], workload: Workload) -> None:
    quantiles = [0.0, 0.1, 0.5, 0.85, 0.99, 1.0]
    for answer in answers(fresh(predictor), workload):
        if isinstance(answer, Prediction):
            seconds = answer.quantiles(quantiles)
            assert seconds == [answer.quantile(q) for q in quantiles]
            assert seconds == sorted(seconds)
            assert seconds[0] <= answer.mean * (1 + 1e-9)
            assert answer.mean <= seconds[-1] * (1 + 1e-9)
            if not answer.is_distribution:
                assert {*seconds, answer.mean} == {answer.seconds}


@pytest.mark.parametrize("spec", ["percentile:keys=user,least=1", "memorizer:keys=user"])
def test_what_a_job_has_run_already_is_taken_into_account(spec: str) -> None:
    model = make(spec)
    for number in range(100):
        model.learn(job(job_id=str(number), end=1000 + number, runtime=10 * (number + 1), walltime=1000))
    submission = job(walltime=1000).submission
    for elapsed in (0, 105, 500, 985):
        answer = model.predict(submission, 2000, elapsed)
        assert isinstance(answer, Prediction)
        assert answer.is_distribution
        assert answer.quantile(0) > elapsed
        assert answer.quantile(1) == 1000
    assert isinstance(model.predict(submission, 2000, 5000), Prediction), "one that outlasts all others is answered too"
