"""How predictors are found and asked for."""

import sys
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest

from softwalltime.core.errors import OptionError
from softwalltime.core.jobs import CompletedJob, NoPrediction, Prediction, Submission
from softwalltime.predict.predictors import registry
from softwalltime.predict.predictors.base import Predictor
from softwalltime.predict.predictors.registry import ENTRY_POINT_GROUP, entries, find, make, split_specs
from tests.samples import job


def test_the_published_ones_answer_to_both_names() -> None:
    assert [find(f"v{n}").name for n in (1, 2, 3, 4)] == ["last2", "last2+900", "usage", "usage-long"]
    assert {entry.name for entry in entries()} >= {"request", "last2", "last2+900", "usage", "usage-long", "percentile"}


@pytest.mark.parametrize(
    ("text", "specs"),
    [
        ("v1", ["v1"]),
        ("v1, v2 ,v3", ["v1", "v2", "v3"]),
        ("v1,percentile:p=95,keys=user+project,v3", ["v1", "percentile:p=95,keys=user+project", "v3"]),
        ("percentile:p=95,percentile:p=50", ["percentile:p=95", "percentile:p=50"]),
    ],
)  # fmt: skip
def test_a_list_and_options_may_both_use_commas(text: str, specs: list[str]) -> None:
    assert split_specs(text) == specs


@pytest.mark.parametrize("text", ["", " ", "v1,,v2", "v1,", ",v1"])
def test_an_empty_entry_in_a_list_is_an_error(text: str) -> None:
    with pytest.raises(OptionError, match="has an empty entry"):
        split_specs(text)


def test_options_are_read_from_text() -> None:
    options = make("percentile:p=95,keys=user+project,window=12h,threshold=0.5,least=3").options
    assert options.model_dump() == {
        "p": 95.0, "keys": ("user", "project"), "window": 12 * 3600, "least": 3, "threshold": 0.5,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("v9", "no predictor is called 'v9'; there are "),
        ("percentile:q=1", "percentile has no option 'q'; it takes p, keys, window, least, threshold"),
        ("percentile:p=101", "p=101: should be less than or equal to 100"),
        ("percentile:p=high", "p=high: should be a valid number"),
        ("percentile:p", "'p' is not of the form option=value"),
        ("percentile:p=1,,keys=user", "'' is not of the form option=value"),
        ("percentile:p=1,p=2", "option 'p' is given twice"),
        ("percentile:keys=user+moon", "keys=user+moon: keys are one or more of user"),
        ("percentile:window=soon", "window=soon: write 30d, 12h, 90m or plain seconds"),
        ("request:x=1", "request has no option 'x'; it takes none"),
    ],
)
def test_a_wrong_option_is_named_with_what_is_allowed(spec: str, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        make(spec)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


class Tomorrow(Predictor):
    """Another package's predictor."""

    name = "tomorrow"
    summary = "a day"
    source = "nowhere"

    def learn(self, job: CompletedJob) -> None:
        """Nothing."""

    def predict(self, submission: Submission, now: int, elapsed: int = 0) -> Prediction | NoPrediction:
        """A day."""
        return Prediction(86400.0, "always a day")


@pytest.fixture
def other_package(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("other_package")
    module.Tomorrow = Tomorrow
    module.NoPredictor = dict
    module.Stolen = type("Stolen", (Tomorrow,), {"name": "v1"})
    monkeypatch.setitem(sys.modules, "other_package", module)
    points = [
        EntryPoint("tomorrow", "other_package:Tomorrow", ENTRY_POINT_GROUP),
        EntryPoint("broken", "package_that_is_not_there:X", ENTRY_POINT_GROUP),
        EntryPoint("wrong", "other_package:NoPredictor", ENTRY_POINT_GROUP),
        EntryPoint("v1", "other_package:Stolen", ENTRY_POINT_GROUP),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: [point for point in points if point.group == group])
    entries.cache_clear()
    yield
    entries.cache_clear()


@pytest.mark.usefixtures("other_package")
def test_a_predictor_of_another_package_appears_by_itself() -> None:
    assert find("tomorrow") is Tomorrow


@pytest.mark.usefixtures("other_package")
def test_one_that_cannot_be_used_is_listed_with_the_reason() -> None:
    problems = {entry.name: entry.problem for entry in entries() if entry.predictor is None}
    assert problems == {
        "broken": "ModuleNotFoundError: No module named 'package_that_is_not_there'",
        "wrong": "TypeError: dict is not a subclass of softwalltime.predict.predictors.base.Predictor",
        "v1": "its name 'v1' is taken by softwalltime",
    }
    with pytest.raises(OptionError, match="'broken' of package_that_is_not_there:X cannot be used"):
        make("broken")


@pytest.mark.usefixtures("other_package")
def test_nobody_takes_a_name_of_ours() -> None:
    assert find("v1").name == "last2"


def test_the_main_option_may_stand_without_its_name() -> None:
    assert make("factor:0.25").options == make("factor:share=0.25").options
    assert make("constant:90").predict(job().submission, 0) == make("constant:seconds=90").predict(job().submission, 0)
    with pytest.raises(OptionError, match=r"'0\.5' is not of the form option=value"):
        make("v1:0.5")
    with pytest.raises(OptionError, match=r"'0\.5' is not of the form option=value"):
        make("factor:share=0.25,0.5")
    with pytest.raises(OptionError, match="share=2: should be less than or equal to 1"):
        make("factor:2")


@pytest.mark.parametrize("predictor", registry.available(), ids=lambda predictor: predictor.name)
def test_no_option_takes_a_number_that_is_not_finite(predictor: type[Predictor]) -> None:
    for name, field in predictor.options_type.model_fields.items():
        if field.annotation is float or field.annotation == float | None:
            for value in ("inf", "-inf", "nan", "1e999"):
                with pytest.raises(OptionError, match=name):
                    registry.make(f"{predictor.name}:{name}={value}")
