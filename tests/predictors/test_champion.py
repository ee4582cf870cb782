"""The champion: which predictor it asks, when it switches, and what it says."""

import pickle
from importlib.resources import files

import pytest

from softwalltime.errors import OptionError
from softwalltime.jobs import CompletedJob, Prediction
from softwalltime.predictors.base import Predictor
from softwalltime.predictors.champion import Champion, best_place
from softwalltime.predictors.registry import make, split_specs
from tests.samples import job

DAY = 86400
OF = "of=factor:0.2/factor:share=0.9"
"""Jobs of 15% of their walltime suit the first one, those of 85% the second one."""


def history(days: range, share: float) -> list[CompletedJob]:
    return [
        job(job_id=f"{day}.{number}", submitted=day * DAY + number * 600, walltime=1000, runtime=round(1000 * share))
        for day in days
        for number in range(20)
    ]


def taught(spec: str, *parts: tuple[range, float]) -> Predictor:
    model = make(spec)
    for days, share in parts:
        for each in history(days, share):
            model.learn(each)
    return model


def seconds(model: Predictor) -> float:
    answer = model.predict(job(walltime=1000).submission, 10**9)
    assert isinstance(answer, Prediction)
    return answer.seconds


def test_it_reports_which_one_is_best_and_asks_the_first_one() -> None:
    model = taught(f"champion:{OF}", (range(1, 40), 0.85))
    assert seconds(model) == 200
    answer = model.predict(job(walltime=1000).submission, 10**9)
    assert isinstance(answer, Prediction)
    assert answer.basis == "factor:0.2 (set; best: factor:share=0.9): 0.2 of the walltime"
    assert "factor:0.2 answers, factor:share=0.9 was better (accuracy 0.944, 0.0% underestimated" in model.notice
    assert "set switch=yes to use it" in model.notice


def test_told_so_it_switches_to_the_best_and_back() -> None:
    spec = f"champion:{OF},switch=yes,days=10,target=1"
    assert seconds(make(spec)) == 200
    model = taught(spec, (range(1, 40), 0.85))
    assert seconds(model) == 900
    assert "factor:share=0.9 answers, the best of 2 since 1970-01-" in model.notice
    assert seconds(taught(spec, (range(1, 40), 0.85), (range(40, 80), 0.15))) == 200


def test_it_waits_until_another_one_was_better_by_the_margin_for_some_days() -> None:
    spec = f"champion:{OF},switch=yes,days=6,target=1"
    best_since = (range(1, 12), 0.15), (range(12, 18), 0.85)
    assert seconds(taught(f"{spec},steady=1", *best_since)) == 900
    assert seconds(taught(f"{spec},steady=5", *best_since)) == 200
    assert seconds(taught(f"{spec},margin=0.9", (range(1, 40), 0.85))) == 200
    # Some days of 20 jobs are too few.
    assert "too few jobs" in taught(spec, (range(1, 5), 0.85)).notice


def test_one_that_misses_the_target_is_replaced_without_a_margin() -> None:
    spec = f"champion:{OF},switch=yes,margin=0.99"
    assert seconds(taught(f"{spec},target=0.1", (range(1, 40), 0.85))) == 900
    assert seconds(taught(f"{spec},target=1", (range(1, 40), 0.85))) == 200


def test_predictors_are_judged_by_what_was_known_at_the_submission() -> None:
    # Twenty jobs at once run alike, and unlike those of the day before: who sees the first ones end knows the others.
    model = make("champion:of=last2/factor:0.5,days=10")
    for day in range(1, 30):
        for number in range(20):
            submitted, runtime = day * DAY, (100, 800)[day % 2]
            end = submitted + number * 1000 + runtime
            model.learn(job(job_id=f"{day}.{number}", submitted=submitted, end=end, runtime=runtime))
    assert model.notice.startswith("last2 answers, ")
    assert "(accuracy 0.125, 50.0% underestimated, mean absolute error 700 s, 200 jobs of 10 days)" in model.notice


def test_the_best_meets_the_target_or_underestimates_least() -> None:
    figures = [(0.4, 0.02, 500.0), (0.5, 0.05, 600.0), (0.7, 0.4, 300.0)]
    assert best_place(figures, "accuracy", 0.05) == 1
    assert best_place(figures, "absolute-error", 0.05) == 0
    assert best_place(figures, "accuracy", 1) == 2
    assert best_place(figures, "accuracy", 0.01) == 0


def test_a_pickled_champion_goes_on_where_it_was() -> None:
    spec = f"champion:{OF},switch=yes,steady=5,days=5,target=1"
    model = taught(spec, (range(1, 20), 0.15), (range(20, 24), 0.85))
    copy = pickle.loads(pickle.dumps(model))
    for each in history(range(24, 30), 0.85):
        model.learn(each)
        copy.learn(each)
    assert seconds(copy) == seconds(model) == 900
    assert copy.notice == model.notice


def test_its_predictors_observe_and_are_fitted() -> None:
    assert make("champion:of=calibrated/usage").observes
    assert make("champion:of=adaboost/usage").fits
    assert not make("champion").observes
    assert not make("champion").fits


@pytest.mark.parametrize(
    ("of", "message"),
    [
        ("usage", "name 2 to 8 predictors"),
        ("usage/usage", "each once"),
        ("usage/champion", "cannot choose a champion"),
        ("usage/v9", "no predictor is called 'v9'"),
        ("usage/percentile:p=999", "p=999"),
    ],
)
def test_wrong_predictors_get_one_line(of: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make(f"champion:of={of}")


def test_the_options_of_its_predictors_may_be_paths() -> None:
    missing = "calibrated:weights=/nowhere/site.json"
    with pytest.raises(OptionError, match=r"/nowhere/site\.json"):
        make(f"champion:of=v3/{missing}/usage")
    shipped = str(files("softwalltime") / "predictors" / "learned" / "attention.json")
    model = make(f"champion:of=v3/calibrated:weights={shipped};target=0.1/usage")
    assert isinstance(model, Champion)
    assert model.options.of == ("v3", f"calibrated:weights={shipped},target=0.1", "usage")


def test_a_champion_can_be_named_in_a_list() -> None:
    specs = split_specs("v1,champion:of=v3/percentile:p=95;keys=user,days=7,v4")
    assert specs == ["v1", "champion:of=v3/percentile:p=95;keys=user,days=7", "v4"]
    model = make(specs[1])
    assert isinstance(model, Champion)
    assert model.options.of == ("v3", "percentile:p=95,keys=user")
