"""Decide about one job: a pure function for the daemon, the replay and the simulator.

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
"""Function (specification, submission) that returns the predictor's current prediction for the job."""

# Enum members as globals: attribute lookup is slow, and this runs for every job of a replay.
_ALTERED, _STARTED = int(Kind.ALTERED), int(Kind.STARTED)
_PREDICTED, _NOT_BELOW_WALLTIME = Reason.PREDICTED, Reason.NOT_BELOW_WALLTIME
_POLICY_WALLTIME, _HISTORY_LOADING = Reason.POLICY_WALLTIME, Reason.HISTORY_LOADING
_EXCLUSIVE, _GUARD = Reason.EXCLUSIVE, Reason.GUARD
_THE_WALLTIME = NoPrediction(_POLICY_WALLTIME)


class Decision(NamedTuple):
    """The decision about one job and its reason.

    ``spec``: the predictor used.  ``soft_walltime``: in whole seconds, also for the action ``none`` if the job has it
    already; ``None``: the policy gives none.  ``ordering``: value for the site's ``job_sort_formula`` in seconds;
    ``None``: the policy names no predictor for it.
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
        """The predicted seconds, not rounded and not clamped."""
        return self.prediction.seconds if isinstance(self.prediction, Prediction) else None

    @property
    def ordering_seconds(self) -> int | None:
        """The ordering value for PBS: whole seconds, rounded up."""
        return None if self.ordering is None else ceil(self.ordering)

    @property
    def missing_jobs(self) -> int | None:
        """Minimum number of further completed jobs that the prediction needs; ``None``: it lacks something else."""
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

    :param kind: what happens to the job (:class:`Kind`); ``STARTED`` asks the predictor for running jobs.
    :param has: the job's current soft walltime in seconds; ``None``: none.
    :param predict: called at most once for each value that the terms require.
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
        # As for the soft walltime: while the history is loading, keep the job's value.
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
                # While the history is loading, keep the job's value.
                has = None
        else:
            reason = _NOT_BELOW_WALLTIME
    if seconds is None and has is not None and has != walltime:
        # A job keeps its soft walltime; setting it to the walltime cancels its effect.
        seconds = walltime
    action: Action = "none" if seconds is None or seconds == has else "set" if mode == "on" else "shadow"
    # Takes a third of the time of Decision(...), for replays of millions of jobs.
    return tuple.__new__(Decision, (mode, spec, action, reason, seconds, prediction, order))


def has_exclusive_placement(place: str) -> bool:
    """Return whether PBS's scheduler checks jobs with this ``place`` against reservations by soft walltime only.

    It does so for exclusive placement other than ``pack`` (OpenPBS: ``job_should_use_buckets``): a job with a soft
    walltime below its walltime may then overlap a confirmed reservation.

    >>> [has_exclusive_placement(place) for place in ("excl", "scatter:exclhost:group=rack", "pack:excl", "free", "")]
    [True, True, False, False, False]
    """
    if "excl" not in place:
        return False
    words = place.split(":")
    return ("excl" in words or "exclhost" in words) and "pack" not in words


def _order(prediction: Prediction | NoPrediction, walltime: int) -> float:
    """Return the ordering value in seconds: the prediction, at most the walltime; on a cold start the walltime.

    It is at least 2, because 1 (:data:`PROMISED`) marks promised jobs, but 1 for a walltime of 1 s.  A predictor's NaN
    becomes the walltime: comparisons with NaN are false, so min and max return their first argument.
    """
    seconds = prediction.seconds if isinstance(prediction, Prediction) else walltime
    return float(min(max(min(walltime, seconds), PROMISED + 1), walltime))
