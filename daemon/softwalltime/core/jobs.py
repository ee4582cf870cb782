"""Data classes shared by all packages: submissions, completed jobs, predictions, decisions.

All values are plain and final: seconds are ``int``, points in time are epoch seconds, sizes are bytes,
a text that was not recorded is ``""``, a number that was not recorded is ``None``.  Whatever reads the outside
world (an accounting log, a trace, a hook, the store) builds these, so nothing past it has to check again.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, make_dataclass, replace
from enum import Enum
from functools import partial
from operator import attrgetter
from typing import Annotated, Any, NamedTuple, get_type_hints

from softwalltime.core.quantiles import quantile
from softwalltime.core.reasons import Reason, sentence
from softwalltime.core.states import State, state_of

DEFAULT_PROJECT = "_pbs_project_default"
"""PBS's name for the project of a job without one, also in the accounting log."""

MAX_WALLTIME = 5 * 365 * 86400
"""Maximum walltime in seconds: PBS plans a job without a walltime for five years.  Longer requests count as this."""


class FieldKind(Enum):
    """How a field's value is written in a PBS record."""

    TEXT = "text"
    TRUTH = "truth value"
    TIME = "epoch seconds"
    DURATION = "HH:MM:SS"
    WALLTIME = "HH:MM:SS, at most MAX_WALLTIME"
    COUNT = "whole number"
    SIZE = "bytes with a unit"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a job: its name here, its column in the store, and its name and kind in a PBS record.

    ``pbs`` is empty where no field of the record's message has the value.  A record whose value of a ``required`` field
    cannot be read is malformed; any other value is left out.
    """

    pbs: str = ""
    kind: FieldKind = FieldKind.TEXT
    column: str = ""
    required: bool = False
    name: str = ""


@dataclass(frozen=True, slots=True)
class Submission:
    """Attributes of a job at its submission: all that a predictor may use.

    ``submitted`` is PBS's ``ctime``.  ``walltime`` is what the user asked for, or what the queue's or the server's
    default gave; ``None`` where there is no limit.  ``job_id`` carries the array index (``3[1].srv``).
    ``project`` is PBS's project; in a Standard Workload Format trace it is the group.

    ``script`` is a digest of what the job executes, known only where the hook has recorded it
    (:func:`.service.protocol.script_digest`).
    """

    job_id: str
    user: Annotated[str, Field("user", column="user_name")]
    submitted: Annotated[int, Field("ctime", FieldKind.TIME, column="ctime", required=True)]
    walltime: Annotated[int | None, Field("Resource_List.walltime", FieldKind.WALLTIME, required=True)]
    group: Annotated[str, Field("group", column="group_name")] = ""
    project: Annotated[str, Field("project")] = ""
    account: Annotated[str, Field("account")] = ""
    job_name: Annotated[str, Field("jobname")] = ""
    queue: Annotated[str, Field("queue")] = ""
    min_walltime: Annotated[int | None, Field("Resource_List.min_walltime", FieldKind.WALLTIME)] = None
    max_walltime: Annotated[int | None, Field("Resource_List.max_walltime", FieldKind.WALLTIME)] = None
    ncpus: Annotated[int | None, Field("Resource_List.ncpus", FieldKind.COUNT)] = None
    nodect: Annotated[int | None, Field("Resource_List.nodect", FieldKind.COUNT)] = None
    ngpus: Annotated[int | None, Field("Resource_List.ngpus", FieldKind.COUNT)] = None
    mem: Annotated[int | None, Field("Resource_List.mem", FieldKind.SIZE)] = None
    select: Annotated[str, Field("Resource_List.select", column="select_spec")] = ""
    place: Annotated[str, Field("Resource_List.place")] = ""
    interactive: Annotated[bool | None, Field("interactive", FieldKind.TRUTH)] = None
    script: str = ""

    @property
    def shrink_to_fit(self) -> bool:
        """Whether the scheduler may shorten the job's walltime; PBS allows no soft walltime on such jobs."""
        return self.min_walltime is not None


@dataclass(frozen=True, slots=True)
class CompletedJob:
    """A job that ended: its submission, runtime and exit status.

    ``runtime`` is how long it ran in seconds: ``resources_used.walltime``, else ``end - start``.  It is 0 for a job
    that died at once and may exceed the walltime, because PBS kills late.  ``start`` is ``None`` for a job that
    never started.  ``run_count`` is how often the job was started, ``None`` where the log does not say.
    """

    submission: Submission
    server: str
    start: Annotated[int | None, Field("start", FieldKind.TIME, column="start_time", required=True)]
    end: Annotated[int, Field("end", FieldKind.TIME, column="end_time", required=True)]
    runtime: Annotated[int, Field("resources_used.walltime", FieldKind.DURATION, required=True)]
    qtime: Annotated[int | None, Field("qtime", FieldKind.TIME)] = None
    etime: Annotated[int | None, Field("etime", FieldKind.TIME)] = None
    soft_walltime: Annotated[int | None, Field("Resource_List.soft_walltime", FieldKind.WALLTIME)] = None
    exit_status: Annotated[int | None, Field("Exit_status", FieldKind.COUNT)] = None
    run_count: Annotated[int | None, Field("run_count", FieldKind.COUNT)] = None
    cput: Annotated[int | None, Field("resources_used.cput", FieldKind.DURATION)] = None
    mem_used: Annotated[int | None, Field("resources_used.mem", FieldKind.SIZE)] = None

    @property
    def ran(self) -> bool:
        return self.runtime > 0

    @property
    def state(self) -> State:
        return state_of(self.exit_status, self.runtime, self.submission.walltime, self.start)

    @property
    def scored(self) -> bool:
        """Whether predictions for this job are scored: it ran and had a walltime."""
        return self.runtime > 0 and (self.submission.walltime or 0) > 0


def _fields_of(data: type) -> list[Field]:
    hints = get_type_hints(data, include_extras=True)
    listed = ((name, next(iter(getattr(hint, "__metadata__", ())), Field())) for name, hint in hints.items())
    return [replace(field, name=name, column=field.column or name) for name, field in listed]


FIELDS = (*_fields_of(Submission), *_fields_of(CompletedJob)[1:])
"""Fields of a completed job in the order of its values: parser, store and protocol take theirs from here."""

Values = tuple[Any, ...]
"""A completed job as a tuple: the values of its submission's fields, then its own.

For millions of jobs on their way from a log to the store, since a tuple is made in a tenth of the time.
"""
OF_SUBMISSION = len(fields(Submission))
"""Number of the fields of a submission."""

# A frozen dataclass sets fields with object.__setattr__, which is slow.  These classes have the same fields and are not
# frozen; the class of a complete object is then changed.
_OpenSubmission = make_dataclass("_OpenSubmission", [field.name for field in fields(Submission)], slots=True)
_OpenJob = make_dataclass("_OpenJob", [field.name for field in fields(CompletedJob)], slots=True)


def submission_of(*values: Any) -> Submission:
    submission: Submission = _OpenSubmission(*values)
    submission.__class__ = Submission
    return submission


def job_of(values: Sequence[Any]) -> CompletedJob:
    job: CompletedJob = _OpenJob(submission_of(*values[:OF_SUBMISSION]), *values[OF_SUBMISSION:])
    job.__class__ = CompletedJob
    return job


def jobs_of_columns(columns: Sequence[Iterable[Any]]) -> list[CompletedJob]:
    submissions = list(map(_OpenSubmission, *columns[:OF_SUBMISSION]))
    for submission in submissions:
        submission.__class__ = Submission
    jobs: list[CompletedJob] = list(map(_OpenJob, submissions, *columns[OF_SUBMISSION:]))
    for job in jobs:
        job.__class__ = CompletedJob
    return jobs


submission_values: Callable[[Submission], Values] = attrgetter(*Submission.__slots__)
_own_values: Callable[[CompletedJob], Values] = attrgetter(*CompletedJob.__slots__[1:])


def values_of(job: CompletedJob) -> Values:
    return (*submission_values(job.submission), *_own_values(job))


_INDEX = re.compile(r"\[[0-9]+\]")


def whole_array(job_id: str) -> str:
    """Return the id of a subjob's array, and of another job its own.

    >>> whole_array("3[1].srv"), whole_array("7.srv")
    ('3[].srv', '7.srv')
    """
    return _INDEX.sub("[]", job_id, 1) if "[" in job_id else job_id


@dataclass(frozen=True, slots=True)
class CurrentJob:
    """A waiting or running job: its submission with all later alters, and its progress.

    ``start`` is ``None`` while it waits; ``etime`` is ``None`` while it may not run yet, being held for instance.
    ``recorded_at`` is when it was queued, started or requeued by the record that says so; ``None``: it does not say.
    """

    submission: Submission
    server: str
    start: int | None
    qtime: int | None = None
    etime: int | None = None
    soft_walltime: int | None = None
    recorded_at: int | None = None


UNSET = -1
"""Value of an :class:`Alter` that removed the job's value."""


@dataclass(frozen=True, slots=True)
class Alter:
    """Values that an alter set for a waiting or running job, in seconds; ``None`` if unchanged."""

    job_id: str
    server: str
    walltime: int | None
    soft_walltime: int | None


class Prediction(NamedTuple):
    """A predicted runtime in seconds, before rounding and clamping, and its basis.

    The basis is kept as a template and its values, because predictions are made far more often than read.  A named
    tuple and no frozen dataclass: it is made in a quarter of the time, and one is made for every job of a replay.

    Of a predictor that knows more than one number the prediction is a distribution: that of ``sample``, ascending,
    times ``scale`` seconds.  The sample may belong to the predictor and is valid until it learns the next job.
    """

    seconds: float
    template: str
    values: tuple[object, ...] = ()
    sample: Sequence[float] = ()
    scale: float = 1.0

    @property
    def is_distribution(self) -> bool:
        """Whether the prediction is a distribution and not a single number."""
        return len(self.sample) > 0

    def quantile(self, q: float) -> float:
        """Return the quantile q of the runtime in seconds; a single number is returned unchanged."""
        return quantile(self.sample, q) * self.scale if self.sample else self.seconds

    def quantiles(self, shares: Sequence[float]) -> list[float]:
        sample, scale = self.sample, self.scale
        return [quantile(sample, q) * scale for q in shares] if sample else [self.seconds] * len(shares)

    @property
    def mean(self) -> float:
        """The expected runtime in seconds; a single number is returned unchanged."""
        return sum(self.sample) / len(self.sample) * self.scale if self.sample else self.seconds

    @property
    def basis(self) -> str:
        return self.template.format(*self.values)


make_prediction: Callable[[tuple[float, str, tuple[object, ...], Sequence[float], float]], Prediction]
make_prediction = partial(tuple.__new__, Prediction)
"""Return the prediction with all of these values, in a third of the time of ``Prediction``: for millions of jobs."""


class NoPrediction(NamedTuple):
    """No prediction: the reason and its values; usually the user has too few completed jobs.

    A predictor of another package whose reason is not in :class:`Reason` gives ``Reason.OTHER`` and its own sentence.
    """

    reason: Reason
    values: tuple[object, ...] = ()

    @property
    def basis(self) -> str:
        return sentence(self.reason, self.values)

    @property
    def missing(self) -> int | None:
        """Minimum number of further completed jobs that a prediction needs; ``None``: another reason.

        >>> NoPrediction(Reason.TOO_FEW_JOBS, (3, "user", 30.0, 10)).missing, NoPrediction(Reason.NO_WALLTIME).missing
        (7, None)
        """
        if self.reason is Reason.TOO_FEW_JOBS:
            there, _, _, least = self.values
            return int(str(least)) - int(str(there))
        return 1 if self.reason in (Reason.NO_COMPLETED_JOBS, Reason.NO_COMPLETED_JOBS_WITH_WALLTIME) else None


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """A decision as stored: prediction for a request of the hook, response, and reason.

    ``at`` is when (epoch seconds), ``event`` PBS's event.  ``predicted`` is the predictor's bare number in seconds,
    ``soft_walltime`` what the policy made of it.  ``action`` is ``set`` (the response sets it), ``late`` (the
    hook was gone when the answer was sent), ``shadow`` (it would have been set) or ``none``.  ``took`` is how long the
    answer took in microseconds.  The hook reports its consecutive ``timeouts`` before, and the microseconds of its last
    answered exchange.  ``reason`` is the reason as a code, ``basis`` as a sentence.
    ``had`` is the job's soft walltime in seconds at the request, 0 for none, ``None`` if not known: at the start it is
    the value with which PBS planned the waiting job.  ``ordering`` is the value for ``job_sort_formula`` in
    seconds, ``None`` where the policy has none.
    """

    at: int
    event: str
    submission: Submission
    mode: str
    predictor: str
    predicted: float | None
    soft_walltime: int | None
    action: str
    basis: str
    took: int = 0
    timeouts: int = 0
    exchange_before: int | None = None
    reason: Reason = Reason.PREDICTED
    had: int | None = None
    ordering: int | None = None
