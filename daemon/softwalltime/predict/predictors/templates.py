"""The mean of several predictions, each from the last jobs of one category."""

import math
import re
from bisect import insort
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from operator import attrgetter
from typing import ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from softwalltime.core.jobs import CompletedJob, NoPrediction, Prediction, Submission
from softwalltime.core.reasons import Reason
from softwalltime.predict.predictors.base import EVERYTHING, History, Options, Predictor
from softwalltime.predict.predictors.keys import KEYS
from softwalltime.predict.predictors.like_jobs import Window

_ESTIMATOR = re.compile(r"(wm|lr)([1-9]\d?)")


class TemplatesOptions(Options):
    templates: tuple[str, ...] = Field(
        default=("group+user+job_name+ncpus", "group+user+job_name", "group+user", "group"),
        description="sets of keys, joined by /, each of keys joined by +",
    )
    estimators: tuple[str, ...] = Field(
        default=("lr5", "wm1"),
        description="joined by +: wmN, mean of the last N runtimes; lrN, their line's next value",
    )
    method: Literal["aver", "lsterr"] = Field(
        default="aver", description="aver: mean of all; lsterr: the one whose last predictions were best"
    )
    errors: int = Field(default=10, ge=1, le=1000, description="how many last predictions lsterr judges by")
    window: Window = 120 * 86400

    @field_validator("templates", "estimators", mode="before")
    @classmethod
    def _split(cls, value: object, info: ValidationInfo) -> object:
        return tuple(value.split("/" if info.field_name == "templates" else "+")) if isinstance(value, str) else value

    @field_validator("templates")
    @classmethod
    def _check_templates(cls, templates: tuple[str, ...]) -> tuple[str, ...]:
        if not templates or any(set(template.split("+")) - set(KEYS) for template in templates):
            raise ValueError(f"templates are sets of {', '.join(KEYS)}: keys joined by +, sets joined by /")
        return templates

    @field_validator("estimators")
    @classmethod
    def _check_estimators(cls, estimators: tuple[str, ...]) -> tuple[str, ...]:
        if not estimators or not all(_ESTIMATOR.fullmatch(estimator) for estimator in estimators):
            raise ValueError("estimators are wm or lr with a number of jobs, such as wm1 or lr5, joined by +")
        return estimators


class Templates(Predictor):
    """Predict from the last runtimes of categories: a template selects a job's category, an estimator predicts from it.

    A template with an estimator is one of the paper's predictors.  Categories without a job in the window are removed.
    """

    name: ClassVar[str] = "templates"
    summary: ClassVar[str] = "mean over job categories of the last runtime and of a line through the last five"
    source: ClassVar[str] = "Li, Chen, Tao, Groep & Wolters 2004, section 2"
    options: TemplatesOptions

    def __init__(self, options: TemplatesOptions) -> None:
        super().__init__(options)
        self._window = options.window
        self._keys: list[Callable[[Submission], Hashable]] = [
            attrgetter(*template.split("+")) for template in options.templates
        ]
        parsed = [(estimator[:2], int(estimator[2:])) for estimator in options.estimators]
        self._estimators = [(_mean if kind == "wm" else _line, count) for kind, count in parsed]
        self._longest = max(count for _, count in parsed)
        self._least_error = options.method == "lsterr"
        # Ends and runtimes of each category's last jobs; the category whose newest job is oldest comes first.
        self._categories: OrderedDict[tuple[int, Hashable], list[tuple[int, int]]] = OrderedDict()
        pairs = len(self._keys) * len(self._estimators)
        self._errors: list[deque[float]] = [deque(maxlen=options.errors) for _ in range(pairs)]

    @property
    def history(self) -> History:
        """The window; all jobs if past errors select the predictions."""
        return EVERYTHING if self._least_error else History(seconds=self._window)

    def learn(self, job: CompletedJob) -> None:
        """Add the job to its categories; if past errors select the predictions, update the errors first."""
        if job.runtime <= 0:
            return
        if self._least_error:
            for errors, seconds in zip(self._errors, self._all(job.submission, job.end), strict=True):
                if seconds is not None:
                    errors.append((seconds - job.runtime) ** 2)
        categories = self._categories
        for number, key in enumerate(self._keys):
            category = (number, key(job.submission))
            last = categories.setdefault(category, [])
            insort(last, (job.end, job.runtime))
            del last[: -self._longest]
            categories.move_to_end(category)
        oldest = job.end - self._window
        while categories:
            category, last = next(iter(categories.items()))
            if last[-1][0] >= oldest:
                break
            del categories[category]

    def predict(self, submission: Submission, now: int, elapsed: int = 0) -> Prediction | NoPrediction:
        """Return the mean of all predictions, or the prediction with the least recent squared error."""
        known = {number: seconds for number, seconds in enumerate(self._all(submission, now)) if seconds is not None}
        if not known:
            return NoPrediction(Reason.TOO_FEW_JOBS, (0, "template's keys", self._window / 86400, 1))
        if self._least_error:
            seconds = known[min(known, key=self._error)]
            return Prediction(seconds, "the best of {} predictions from job categories", (len(known),))
        mean = math.fsum(known.values()) / len(known)
        return Prediction(mean, "mean of {} predictions from job categories", (len(known),))

    def _error(self, number: int) -> float:
        errors = self._errors[number]
        return math.fsum(errors) / len(errors) if errors else math.inf

    def _all(self, submission: Submission, now: int) -> list[float | None]:
        oldest = now - self._window
        predictions: list[float | None] = []
        for number, key in enumerate(self._keys):
            last = self._categories.get((number, key(submission)), [])
            runtimes = [runtime for end, runtime in last if end >= oldest]
            predictions.extend(estimate(runtimes[-count:]) for estimate, count in self._estimators)
        return predictions


def _mean(runtimes: Sequence[int]) -> float | None:
    return sum(runtimes) / len(runtimes) if runtimes else None


def _line(runtimes: Sequence[int]) -> float | None:
    """Return the next value of the least squares line through the runtimes in their order, at least 1 s."""
    count = len(runtimes)
    if count < 2:
        return None
    middle = (count - 1) / 2
    mean = sum(runtimes) / count
    slope = sum((place - middle) * (runtime - mean) for place, runtime in enumerate(runtimes))
    slope /= sum((place - middle) ** 2 for place in range(count))
    return max(mean + slope * (count - middle), 1.0)
