"""The base class of predictors."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from inspect import get_annotations
from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from softwalltime.core.events import Event
from softwalltime.core.jobs import CompletedJob, NoPrediction, Prediction, Submission


class Options(BaseModel):
    """Options of a predictor: typed, validated, frozen; the fields' descriptions are printed to users."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class History:
    """The past jobs that suffice for a new predictor to answer like one that has learnt all jobs.

    These are the last ``per_user`` jobs of each user that ran, the last ``per_user`` that ran and had a walltime, and
    all jobs that ended in the last ``seconds``. ``None``: all jobs.  Of the latter the last ``most`` are enough;
    ``None``: no limit.
    """

    per_user: int | None = 0
    seconds: int | None = 0
    most: int | None = None

    @property
    def is_bounded(self) -> bool:
        return self.per_user is not None and self.seconds is not None


EVERYTHING = History(per_user=None, seconds=None)


def needed_history(
    histories: Iterable[History], now: int, since_last: Callable[[int], int]
) -> tuple[int | None, int | None]:
    """Return the union of the histories: number of last jobs of each user, and start of the period with all jobs.

    The start is in epoch seconds; ``None``: no such period.  Both ``None``: all jobs.

    :param since_last: returns the earliest end (epoch seconds) of a given number of last jobs at ``now``.
    """
    per_user, since = 0, now
    for history in histories:
        if history.per_user is None or history.seconds is None:
            return None, None
        begin = now - history.seconds
        if history.most is not None:
            begin = max(begin, since_last(history.most))
        per_user, since = max(per_user, history.per_user), min(since, begin)
    return per_user, since if since < now else None


class Predictor(ABC):
    """Learn from each job as it ends, and predict the runtime of a job from its submission.

    A predictor has no I/O and no clock, because daemon, replay and simulator use the same class.  A driver never calls
    ``learn`` before a job has ended, and calls it approximately in the order of the ends.  Logs of two servers, or a
    late log, change that order; predictions must not depend on it.

    ``learn`` and ``observe`` delay the answers to the hook, whose deadline is 50 ms.  They must be cheap and bounded:
    some microseconds, no more for the millionth job than for the thousandth (the conformance suite counts). Expensive
    work belongs in ``fit``.

    :mod:`softwalltime.predict.predictors.registry` finds each subclass.  A subclass must pass the conformance suite in
    tests/predictors, which has all other requirements.
    """

    name: ClassVar[str]
    """The name that users write; lower case, no spaces, commas or colons."""
    aliases: ClassVar[tuple[str, ...]] = ()
    summary: ClassVar[str]
    """The rule in one line."""
    source: ClassVar[str]
    """Paper and equation, or another source of the rule."""
    options: Options
    """The options; the registry creates them from the user's text.  A subclass annotates the class of its own."""
    options_type: ClassVar[type[Options]] = Options
    """The class of the options, by that annotation."""
    main_option: ClassVar[str] = ""
    """The option that a value without a name sets, as in ``factor:0.5``; empty if none."""
    tried_options: ClassVar[tuple[str, ...]] = ("",)
    """Options that ``softwalltime tune`` tries, such as ``p=75|85,keys=user``: all combinations; empty: none."""
    censoring: ClassVar[bool] = False
    """Whether it treats the runtime of a job killed at its walltime as a lower bound."""

    by_user: bool = False
    """Whether the predictions of a user's jobs depend on no other user's: then users can be replayed apart."""

    fit_seconds: ClassVar[int] = 3600
    """Seconds between two calls of :meth:`fit`."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.options_type = get_annotations(cls).get("options", cls.options_type)

    def __init__(self, options: Options) -> None:
        self.options = options

    @property
    def history(self) -> History:
        """Return the past jobs that the predictor needs; the daemon loads only these. Default: all."""
        return EVERYTHING

    @property
    def contents(self) -> str:
        """Digest of the files that the predictor has read, such as trained weights; empty: none.

        Saved results are reused only for equal digests, because a file may change and keep its name.
        """
        return ""

    @property
    def observes(self) -> bool:
        """Whether the predictor implements :meth:`observe`; drivers create events only for such predictors."""
        return type(self).observe is not Predictor.observe

    def observe(self, event: Event) -> None:  # noqa: B027 - optional
        """Observe that a job was submitted, altered, started, deleted or ended.

        Optional.  Drivers call it after ``predict`` for the same event, and before ``learn`` of the same end.  It must
        be as cheap as ``learn``.
        """

    @property
    def fits(self) -> bool:
        return type(self).fit is not Predictor.fit

    def fit(self, now: int) -> None:  # noqa: B027 - optional
        """Do work that is too expensive for ``learn``, such as training a model; ``now`` is in epoch seconds.

        Optional.  Drivers call it every ``fit_seconds``; a replay uses the time of the events.  The daemon calls it on
        a copy (:func:`copy.deepcopy`) in a separate thread, lets the copy learn the jobs since then, and replaces the
        original by the copy.  C code must release the interpreter lock, because other threads answer the hook.
        """

    @abstractmethod
    def learn(self, job: CompletedJob) -> None:
        """Learn from a job that has ended; called approximately in the order of ``job.end``."""

    @abstractmethod
    def predict(self, submission: Submission, now: int, elapsed: int = 0) -> Prediction | NoPrediction:
        """Predict the total runtime of a job in seconds, at the time ``now`` (epoch seconds).

        ``elapsed`` is the time in seconds that the job has run: 0 at submission and at start.  The call must not change
        later predictions.
        """
