"""What a predictor is."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from softwalltime.events import Event
from softwalltime.jobs import ColdStart, CompletedJob, Prediction, Submission


class Options(BaseModel):
    """A predictor's options: typed, checked, frozen; each field's description is what the user reads."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True, slots=True)
class History:
    """The past jobs that a new predictor must learn to answer like one that learnt all jobs.

    The last ``per_user`` jobs of each user that ran, and the last as many that ran and had a walltime; and all that
    ended in the last ``seconds``.  ``None``: all jobs ever.
    """

    per_user: int | None = 0
    seconds: int | None = 0


EVERYTHING = History(per_user=None, seconds=None)


class Predictor(ABC):
    """Learns from each job as it ends, and predicts the runtime of a job from its submission.

    A predictor is pure state without I/O and clock, because daemon, replay and simulator drive the same one.  A driver
    calls ``learn`` never before a job has ended, and about in the order of the ends.  The logs of two servers, or a log
    that comes late, change that order, and the answers must not depend on it.

    ``learn`` and ``observe`` hold up the answers to the hook, whose deadline is 50 ms, so they are cheap and bounded:
    some microseconds, no more for the millionth job than for the thousandth (the conformance suite counts).  What is
    expensive belongs into ``fit``.

    A subclass is found by :mod:`softwalltime.predictors.registry` and must pass the conformance suite in
    tests/predictors, which says the rest of what is expected of it.
    """

    name: ClassVar[str]
    """What users ask for; lower case, no spaces, commas or colons."""
    aliases: ClassVar[tuple[str, ...]] = ()
    summary: ClassVar[str]
    """The rule in one line."""
    source: ClassVar[str]
    """Paper and equation, or where else the rule comes from."""
    options_type: ClassVar[type[Options]] = Options
    """The model of its options; the registry makes one from what the user wrote."""
    main_option: ClassVar[str] = ""
    """The option that a value without a name sets, as in ``factor:0.5``; empty for none."""
    censoring: ClassVar[bool] = False
    """Whether it takes the runtime of a job that was killed at its walltime for a lower bound, and not for a fact."""

    fit_seconds: ClassVar[int] = 3600
    """Seconds between two calls of :meth:`fit`."""

    def __init__(self, options: Options) -> None:
        self.options = options

    @property
    def history(self) -> History:
        """Return the past jobs that the predictor needs, so that the daemon loads no more; by default all."""
        return EVERYTHING

    @property
    def observes(self) -> bool:
        """Whether it implements :meth:`observe`; events are made only for predictors that do."""
        return type(self).observe is not Predictor.observe

    def observe(self, event: Event) -> None:  # noqa: B027 - optional
        """Take in that a job was submitted, altered, started, deleted or ended: which jobs wait and run.

        Optional.  It is called after ``predict`` was asked about the same event, and before ``learn`` of the same end.
        It must be as cheap as ``learn``.
        """

    @property
    def fits(self) -> bool:
        """Whether it implements :meth:`fit`."""
        return type(self).fit is not Predictor.fit

    def fit(self, now: int) -> None:  # noqa: B027 - optional
        """Do what is too expensive for ``learn``, as known at ``now`` (epoch seconds), such as training a model.

        Optional.  It is called every ``fit_seconds``, in a replay by the time of the events.  The daemon calls it on a
        copy (:func:`copy.deepcopy`) in a separate thread, lets the copy learn the jobs since then, and puts it in the
        place of the original.  Code in C must release the interpreter, because other threads answer the hook.
        """

    @abstractmethod
    def learn(self, job: CompletedJob) -> None:
        """Take in a job that has ended; called about in the order of ``job.end``."""

    @abstractmethod
    def predict(self, submission: Submission, now: int, elapsed: int = 0) -> Prediction | ColdStart:
        """How long the job will run in all, in seconds, as known at ``now`` (epoch seconds).

        ``elapsed`` is how long it has run already: 0 at submission and at start.  Asking changes no later answer.
        """
