"""How a job ended, by what PBS recorded of it."""

from enum import StrEnum


class State(StrEnum):
    """How a job ended; whether its runtime is a fact about it or only a lower bound follows from this."""

    FINISHED = "finished"
    """Its script ended with status 0."""
    FAILED = "failed"
    """Its script ended by itself with another status, or by a signal of its own making."""
    WALLTIME_EXCEEDED = "walltime exceeded"
    """Killed at its walltime: it would have run longer."""
    LIMIT_EXCEEDED = "limit exceeded"
    """Killed for what it used of something else: memory, processor time, processors."""
    DELETED = "deleted"
    """Killed while it ran, by its user, a manager or a hook."""
    RERUN = "rerun"
    """Stopped to be run again."""
    NODE_FAILURE = "node failure"
    """Lost with the host that it ran on."""
    NOT_STARTED = "not started"
    """PBS tried to start it and could not, or it was never started."""
    UNKNOWN = "unknown"
    """The log does not say."""


TEACHING = frozenset(
    {
        State.FINISHED,
        State.FAILED,
        State.WALLTIME_EXCEEDED,
        State.LIMIT_EXCEEDED,
        State.DELETED,
        State.NODE_FAILURE,
        State.UNKNOWN,
    }
)
"""States whose jobs teach a predictor unless the site says otherwise: the runtime is a fact, or a lower bound of what
it would have been.  Predictors do not learn from an interrupted run: the run that completes is enough."""

# JOB_EXEC_* in OpenPBS's src/include/job.h, as documented in PBS's Administrator's Guide, "Job Exit Status Codes".
_BY_CODE = {
    0: State.FINISHED,
    **dict.fromkeys((-1, -2, -3, -7, -10, -13, -16, -17, -21, -22, -23, -30), State.NOT_STARTED),
    **dict.fromkeys((-4, -5, -6, -20), State.NODE_FAILURE),
    **dict.fromkeys((-11, -12, -14, -15, -18), State.RERUN),
    -19: State.DELETED,
    **dict.fromkeys((-24, -25, -26, -27, -28), State.LIMIT_EXCEEDED),
    -29: State.WALLTIME_EXCEEDED,
}
_SIGNALLED = 256
_SIGKILL, _SIGTERM = 9, 15
# How a kill at the walltime is recorded: by its own code, in older versions by the signals that did it, and by TORQUE,
# whose JOB_EXEC_OVERLIMIT_WT is -11, as what is a rerun to PBS.
_MAYBE_WALLTIME = frozenset({_SIGNALLED + _SIGKILL, _SIGNALLED + _SIGTERM, -11})


def state_of(exit_status: int | None, runtime: int, walltime: int | None, start: int | None) -> State:
    """The state of a job with this Exit_status.

    :param runtime: how long it ran, seconds; ``walltime`` was its limit, ``start`` when it started, if it ever did.
    """
    if start is None:
        return State.NOT_STARTED
    if exit_status is None:
        return State.UNKNOWN
    if exit_status in _MAYBE_WALLTIME:
        if walltime and runtime >= walltime:
            return State.WALLTIME_EXCEEDED
        return State.RERUN if exit_status < 0 else State.DELETED
    # An exit status below 0 without a name in PBS does not come from the job's script.
    return _BY_CODE.get(exit_status) or (State.FAILED if exit_status > 0 else State.UNKNOWN)
