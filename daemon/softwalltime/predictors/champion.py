"""The predictor that was best over the last days of the site's own jobs."""

from collections.abc import Sequence
from datetime import UTC, datetime
from heapq import heappop, heappush
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from softwalltime.errors import OptionError
from softwalltime.events import Event
from softwalltime.jobs import CompletedJob, NoPrediction, Prediction, Submission
from softwalltime.predictors.base import History, Options, Predictor

MAX_PREDICTORS = 8
"""Predictors to choose from, at most."""
LATENESS = 86400
"""Seconds by which a job may become known late without a change of any later answer."""
SPAN = 86400
"""A job is judged by what was known at its submission, or so many seconds before its end if that is later."""
DAYS = 400
"""Days of history from which a new predictor learns."""
MIN_JOBS = 100
"""Jobs without which nothing is chosen."""
UNSAMPLED_JOBS, JOBS_PER_SAMPLE = 500, 10
"""Jobs of a day that are all judged, and the number of further jobs of which one is judged."""
TOLERANCE = 1.1
"""A rate of underestimation up to so many times the target meets it."""
AT_ONCE = 4
"""Submissions and ends judged for each job that is learnt."""
UNITS = 1_000_000
"""Units of an accuracy of 1."""
_DAY = 86400
_ENDED, _SUBMITTED = 0, 1
"""Ends come first at one instant."""

Objective = Literal["accuracy", "absolute-error"]


def _split(value: object) -> object:
    if not isinstance(value, str):
        return value
    # The registry imports this module.
    from softwalltime.predictors.registry import entries

    names = {name for entry in entries() for name in entry.names}
    specs: list[str] = []
    for part in value.split("/"):
        if specs and ":" in specs[-1] and part.partition(":")[0].strip() not in names:
            # The value of an option may be a path.
            specs[-1] += f"/{part}"
        else:
            specs.append(part)
    return tuple(spec.strip().replace(";", ",") for spec in specs)


def _check(specs: tuple[str, ...]) -> tuple[str, ...]:
    if not 2 <= len(set(specs)) == len(specs) <= MAX_PREDICTORS:
        raise ValueError(f"name 2 to {MAX_PREDICTORS} predictors, each once, joined by /, their options joined by ;")
    for spec in specs:
        if spec.partition(":")[0] == Champion.name:
            raise ValueError("a champion cannot choose a champion")
        try:
            _made(spec)
        except OptionError as error:
            raise ValueError(str(error)) from error
    return specs


class ChampionOptions(Options):
    """Options of ``champion``."""

    of: Annotated[tuple[str, ...], BeforeValidator(_split), AfterValidator(_check)] = Field(
        default=("usage", "percentile:p=95", "percentile:p=95,keys=user"),
        description="predictors to choose from, joined by /, options by ;, as usage/percentile:p=95;keys=user; the "
        "first one answers until another one is chosen",
    )
    days: int = Field(default=30, ge=1, le=365, description="days of jobs by which they are judged")
    objective: Objective = Field(
        default="accuracy", description="highest mean accuracy, or least mean absolute error, at the target"
    )
    target: float = Field(default=0.05, gt=0, le=1, description="greatest share of the jobs to underestimate; 1: any")
    switch: Literal["yes", "no"] = Field(
        default="no", description="whether the best one answers; no: the first one does, and the best one is reported"
    )
    margin: float = Field(
        default=0.02, ge=0, lt=1, description="by how much another one must be better: accuracy, or share of the error"
    )
    steady: int = Field(default=3, ge=1, le=90, description="days with jobs that it must be better, one after another")


class Champion(Predictor):
    """Asks one of several predictors: the one that was best over the last days.

    Each predictor is judged by every job that ends: it predicts the job again, knowing the jobs that ended before the
    job's submission.  Of a job that was submitted more than ``SPAN`` before its end, it knows those that ended up to
    ``SPAN`` before.  This happens ``LATENESS + SPAN`` later and in order of time, by copies of the predictors that
    learn as late.  Therefore the choice depends neither on what was asked nor on the order in which jobs became known.
    The copies do not observe which jobs wait and run.

    The choice changes only if the same other predictor is better by a margin on several days, one after another.  Two
    predictors that are about equally good do not take turns.
    """

    name: ClassVar[str] = "champion"
    summary: ClassVar[str] = "the one of several predictors that was best over the last days of the site's jobs"
    source: ClassVar[str] = "this project; walk-forward choice, as in hpc-oda-commons 2026"
    options_type: ClassVar[type[Options]] = ChampionOptions
    tried_options: ClassVar[tuple[str, ...]] = ()
    main_option: ClassVar[str] = "of"

    def __init__(self, options: ChampionOptions) -> None:
        super().__init__(options)
        self._names = options.of
        self._days = options.days
        self._objective: Objective = options.objective
        self._target = options.target
        self._switch = options.switch == "yes"
        self._margin = options.margin
        self._steady = options.steady
        self._asked = [_made(spec) for spec in options.of]
        self._judged = [_made(spec) for spec in options.of]
        # Submissions and ends that are not judged and learnt yet: time, kind, what orders equal times, the job.
        self._pending: list[tuple[int, int, str, str, int, int, int, CompletedJob]] = []
        self._taken = 0
        self._newest = 0
        self._day = 0
        # By day of the submission as judged, and of all these days: sums of scores.
        self._scores: dict[int, list[int]] = {}
        self._totals = [0] * (1 + 3 * len(self._judged))
        self._of_day = 0
        self._best = 0
        self._since = 0
        self._challenger = 0
        self._ahead = 0
        self._figures: list[tuple[float, float, float]] = []
        self._jobs = 0

    @property
    def history(self) -> History:
        """What the predictors need, and the jobs of the last ``DAYS``: as many as those that count them need."""
        wanted = [predictor.history for predictor in self._asked]
        if any(history.per_user is None or history.seconds is None for history in wanted):
            return History(per_user=None, seconds=None)
        by_time = [history for history in wanted if history.seconds]
        return History(
            max(history.per_user or 0 for history in wanted),
            max(DAYS * _DAY, *(history.seconds or 0 for history in wanted)),
            max((history.most or 0 for history in by_time), default=None)
            if all(history.most for history in by_time)
            else None,
        )

    @property
    def contents(self) -> str:
        """Those of the predictors that have one, in their order."""
        return "+".join(filter(None, (predictor.contents for predictor in self._asked)))

    @property
    def observes(self) -> bool:
        """Whether one of the predictors does."""
        return any(predictor.observes for predictor in self._asked)

    def observe(self, event: Event) -> None:
        """Let the predictors observe the event."""
        for predictor in self._asked:
            predictor.observe(event)

    @property
    def fits(self) -> bool:
        """Whether one of the predictors does."""
        return any(predictor.fits for predictor in self._asked)

    def fit(self, now: int) -> None:
        """Fit the predictors."""
        for predictor in (*self._asked, *self._judged):
            if predictor.fits:
                predictor.fit(now)

    def learn(self, job: CompletedJob) -> None:
        """Learn from a job, and update the predictors' errors.

        The errors are computed later, for jobs that ended ``LATENESS + SPAN`` seconds before the newest known end: by
        then all jobs are known that could have been known at their submission.
        """
        for predictor in self._asked:
            predictor.learn(job)
        if job.runtime <= 0:
            return
        self._taken += 1
        start = -1 if job.start is None else job.start
        order = (job.submission.job_id, job.server, start, job.runtime, self._taken, job)
        if job.submission.walltime:
            # Before the end also where the times are wrong: nothing is judged by its own runtime.
            asked = min(max(job.submission.submitted, job.end - SPAN), job.end - 1)
            heappush(self._pending, (asked, _SUBMITTED, *order))
        heappush(self._pending, (job.end, _ENDED, *order))
        self._newest = max(self._newest, job.end)
        # After a time without jobs many are due: more than a job adds, and few, because an answer may be waiting.
        for _ in range(AT_ONCE):
            if self._pending and self._pending[0][0] <= self._newest - LATENESS - SPAN:
                time, kind, *_, due = heappop(self._pending)
                if kind == _SUBMITTED:
                    self._judge(due, time)
                else:
                    for predictor in self._judged:
                        predictor.learn(due)

    def predict(self, submission: Submission, now: int, elapsed: int = 0) -> Prediction | NoPrediction:
        """Return the answer of the predictor that is asked, and say which one it is."""
        place = self._best if self._switch else 0
        answer = self._asked[place].predict(submission, now, elapsed)
        if isinstance(answer, NoPrediction):
            return answer
        said = "best" if self._switch and self._jobs else "set"
        return answer._replace(
            template="{} ({}{}): {}",
            values=(self._names[place], said, "" if place == self._best else f"; best: {self._names[self._best]}",
                    _Basis(answer)),
        )  # fmt: skip

    @property
    def notice(self) -> str:
        """Which predictor answers, which was best and how they did."""
        place = self._best if self._switch else 0
        if not self._figures:
            return f"{self._names[place]} answers: too few jobs to judge {len(self._names)} predictors"
        best = (
            "the best" if place == self._best
            else f"{self._names[self._best]} was better ({self._said(self._best)}), set switch=yes to use it"
        )  # fmt: skip
        since = f" since {datetime.fromtimestamp(self._since * _DAY, UTC):%Y-%m-%d}" if self._since else ""
        return (
            f"{self._names[place]} answers, {best} of {len(self._names)}{since} "
            f"({self._said(place)}, {self._jobs:,} jobs of {self._days} days)"
        )

    def _said(self, place: int) -> str:
        accuracy, under, error = self._figures[place]
        return f"accuracy {accuracy:.3f}, {under:.1%} underestimated, mean absolute error {error:,.0f} s"

    def _judge(self, job: CompletedJob, now: int) -> None:
        """Compare each predictor's answer at the time ``now`` with the job's runtime."""
        day = now // _DAY
        if day > self._day:
            if self._day:
                self._choose()
            self._day, self._of_day = day, 0
        self._of_day += 1
        if self._of_day <= UNSAMPLED_JOBS or self._of_day % JOBS_PER_SAMPLE == 0:
            score = self._score(job, now)
            known = self._scores.get(day)
            self._scores[day] = score if known is None else [a + b for a, b in zip(known, score, strict=True)]
            self._totals = [a + b for a, b in zip(self._totals, score, strict=True)]

    def _score(self, job: CompletedJob, now: int) -> list[int]:
        """Return 1, and of each predictor the accuracy in units, whether it underestimates, and the error in seconds.

        Whole numbers, so that sums do not depend on what was added and taken away before.
        """
        walltime = job.submission.walltime or 0
        scores, runtime = [1], min(job.runtime, walltime)
        for predictor in self._judged:
            answer = predictor.predict(job.submission, now)
            seconds = walltime if isinstance(answer, NoPrediction) else min(max(answer.seconds, 1.0), walltime)
            accuracy = min(seconds, runtime) / max(seconds, runtime)
            scores += [round(accuracy * UNITS), int(seconds < runtime), round(abs(seconds - runtime))]
        return scores

    def _choose(self) -> None:
        """Choose by the days that are over: once for each day with jobs."""
        for day in [day for day in self._scores if day <= self._day - self._days]:
            self._totals = [a - b for a, b in zip(self._totals, self._scores.pop(day), strict=True)]
        jobs, *sums = self._totals
        if jobs < MIN_JOBS:
            return
        self._jobs = jobs
        self._figures = [
            (sums[first] / UNITS / jobs, sums[first + 1] / jobs, sums[first + 2] / jobs)
            for first in range(0, len(sums), 3)
        ]
        best = best_place(self._figures, self._objective, self._target)
        if best == self._best or not self._is_ahead(best):
            self._ahead = 0
            return
        self._ahead = self._ahead + 1 if best == self._challenger else 1
        self._challenger = best
        if self._ahead >= self._steady:
            self._best, self._since, self._ahead = best, self._day, 0

    def _is_ahead(self, best: int) -> bool:
        """Whether it is better than the current one by the margin, or the current one misses the target."""
        (accuracy, _, error), (current, under, its_error) = self._figures[best], self._figures[self._best]
        if under > self._target * TOLERANCE:
            return True
        if self._objective == "accuracy":
            return accuracy - current >= self._margin
        return its_error - error >= self._margin * its_error


def best_place(figures: Sequence[tuple[float, float, float]], objective: Objective, target: float) -> int:
    """Return the place of the best of these accuracies, rates of underestimation and errors.

    Only those that meet the target count; if none does, the one with the least underestimation is the best.
    """
    places = [place for place, (_, under, _) in enumerate(figures) if under <= target * TOLERANCE]
    if not places:
        return min(range(len(figures)), key=lambda place: figures[place][1])
    if objective == "accuracy":
        return max(places, key=lambda place: figures[place][0])
    return min(places, key=lambda place: figures[place][2])


class _Basis:
    """The basis of an answer, as a sentence that is made only when it is read."""

    __slots__ = ("_answer",)

    def __init__(self, answer: Prediction) -> None:
        self._answer = answer

    def __str__(self) -> str:
        return self._answer.basis

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Basis) and str(self) == str(other)

    __hash__ = None  # type: ignore[assignment]  # equal by its sentence


def _made(spec: str) -> Predictor:
    # The registry imports this module.
    from softwalltime.predictors.registry import make

    return make(spec)
