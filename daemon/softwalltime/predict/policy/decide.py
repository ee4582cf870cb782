"""The decision about one job: one pure function for the daemon, the replay and the simulator.

It has no I/O, no clock and no lock.  The caller supplies the time through ``predict``.
"""

from collections.abc import Callable
from math import ceil
from typing import Literal, NamedTuple

from softwalltime.core.events import Kind
from softwalltime.core.jobs import NoPrediction, Prediction, Submission
from softwalltime.core.reasons import Reason, sentence
from softwalltime.predict.policy.clamp import soft_walltime
from softwalltime.predict.policy.power_order import PROMISED
from softwalltime.predict.policy.site import KEEP, WALLTIME, JobPolicy, Mode

Action = Literal["set", "shadow", "none"]
"""Action for a job: set its soft walltime; only record it (mode shadow); nothing."""
Predict = Callable[[str, Submission], Prediction | NoPrediction]
"""Returns the prediction of the predictor with this specification for this job, as of now."""

# Members of an enum are looked up slowly, and this runs for every job of a replay.
_ALTERED, _STARTED = int(Kind.ALTERED), int(Kind.STARTED)
_PREDICTED, _NOT_BELOW_WALLTIME = Reason.PREDICTED, Reason.NOT_BELOW_WALLTIME
_POLICY_WALLTIME, _HISTORY_LOADING = Reason.POLICY_WALLTIME, Reason.HISTORY_LOADING
_EXCLUSIVE, _GUARD = Reason.EXCLUSIVE, Reason.GUARD
_THE_WALLTIME = NoPrediction(_POLICY_WALLTIME)


class Decision(NamedTuple):
    """The decision about one job and its reason.

    ``spec`` is the predictor that was responsible.  ``soft_walltime`` is in whole seconds and holds for the action
    ``none`` too, if the job has it already; ``None``: the policy gives none.  ``ordering`` is the value for the site's
    ``job_sort_formula`` in seconds, ``None`` where the terms name no predictor for it.
    """

    mode: Mode
    spec: str
    action: Action
    reason: Reason
    soft_walltime: int | None = None
    prediction: Prediction | NoPrediction | None = None
    ordering: float | None = None

    @property
    def predicted(self) -> float | None:
        """The predictor's number in seconds, not rounded and not clamped."""
        return self.prediction.seconds if isinstance(self.prediction, Prediction) else None

    @property
    def ordering_seconds(self) -> int | None:
        """The ordering value as PBS gets it: whole seconds, rounded up."""
        return None if self.ordering is None else ceil(self.ordering)

    @property
    def missing_jobs(self) -> int | None:
        """How many more completed jobs the prediction needs, at least; ``None`` where jobs are not what is missing."""
        return self.prediction.missing if isinstance(self.prediction, NoPrediction) else None

    @property
    def basis(self) -> str:
        if self.prediction is None:
            return sentence(self.reason)
        if self.reason is Reason.NOT_BELOW_WALLTIME:
            return f"{self.prediction.basis}; that is not below the walltime"
        return self.prediction.basis


def decide(terms: JobPolicy, kind: int, submission: Submission, has: int | None, predict: Predict) -> Decision:
    """Decide about one job at its submission, an alter or its start.

    :param terms: what the site's policy says about this job.
    :param kind: what happens to the job (:class:`Kind`); ``STARTED`` asks the predictor for running jobs.
    :param has: the job's soft walltime now, in seconds; ``None`` for none.
    :param predict: called at most once for each value that the terms ask for.
    """
    mode, waiting, running, minimum, ordering, exclusive, guarded = terms
    spec = running if kind == _STARTED else waiting
    walltime = submission.walltime
    if mode == "off":
        return Decision(mode, spec, "none", Reason.POLICY_OFF)
    if not walltime:
        return Decision(mode, spec, "none", Reason.NO_WALLTIME)
    order = None
    if ordering is not None and kind != _STARTED:
        answer = _THE_WALLTIME if ordering == WALLTIME else predict(ordering, submission)
        # As with the soft walltime: while nothing is known yet, what the job has stays.
        if kind != _ALTERED or type(answer) is not NoPrediction or answer.reason is not _HISTORY_LOADING:
            order = _order(answer, walltime)
    if spec == KEEP:
        return Decision(mode, spec, "none", Reason.POLICY_KEEP, ordering=order)
    if submission.min_walltime is not None:
        return Decision(mode, spec, "none", Reason.SHRINK_TO_FIT, ordering=order)
    prediction = seconds = None
    reason = _POLICY_WALLTIME
    if exclusive and kind != _STARTED and has_exclusive_placement(submission.place):
        reason = _EXCLUSIVE
    elif guarded and kind != _STARTED:
        reason = _GUARD
    elif spec != WALLTIME:
        prediction = predict(spec, submission)
        seconds = soft_walltime(prediction, submission, minimum)
        if seconds is not None:
            reason = _PREDICTED
        elif type(prediction) is NoPrediction:
            reason = prediction.reason
            if reason is _HISTORY_LOADING:
                # Nothing is known yet, so what the job has stays.
                has = None
        else:
            reason = _NOT_BELOW_WALLTIME
    if seconds is None and has is not None and has != walltime:
        # PBS keeps the soft walltime that a job has: only the walltime itself takes it back.
        seconds = walltime
    action: Action = "none" if seconds is None or seconds == has else "set" if mode == "on" else "shadow"
    # A third of the time of calling Decision, which counts in a replay of millions of jobs.
    return tuple.__new__(Decision, (mode, spec, action, reason, seconds, prediction, order))


def has_exclusive_placement(place: str) -> bool:
    """Whether PBS's scheduler holds only the soft walltime of a job with this ``place`` against a reservation.

    So it does for exclusive placement other than ``pack`` (OpenPBS: ``job_should_use_buckets``): with a soft walltime
    below its walltime the job is started into a confirmed reservation.

    >>> [has_exclusive_placement(place) for place in ("excl", "scatter:exclhost:group=rack", "pack:excl", "free", "")]
    [True, True, False, False, False]
    """
    if "excl" not in place:
        return False
    words = place.split(":")
    return ("excl" in words or "exclhost" in words) and "pack" not in words


def _order(prediction: Prediction | NoPrediction, walltime: int) -> float:
    """The ordering value in seconds: the prediction, at most the walltime, which it is on a cold start.

    At least 2 but for a walltime of a second: :data:`PROMISED` is for promised jobs.
    A predictor's NaN is the walltime too: min and max return their first argument unless the second is beyond it.
    """
    seconds = prediction.seconds if isinstance(prediction, Prediction) else walltime
    return float(min(max(min(walltime, seconds), PROMISED + 1), walltime))
