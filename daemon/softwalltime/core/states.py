"""Derive the end state of a job from its PBS record."""

from enum import StrEnum


class State(StrEnum):
    """End state of a job, which determines whether its runtime is exact or a lower bound (censored)."""

    FINISHED = "finished"
    """Its script ended with status 0."""
    FAILED = "failed"
    """Its script ended by itself with another status, or by a signal of its own making."""
    WALLTIME_EXCEEDED = "walltime exceeded"
    """Killed at its walltime: it would have run longer."""
    LIMIT_EXCEEDED = "limit exceeded"
    """Killed for exceeding another limit: memory, processor time, processors."""
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


TEACHING = frozenset(State) - {State.RERUN, State.NOT_STARTED}
"""Default end states of jobs from which predictors learn: the runtime is exact or a lower bound.  Interrupted runs are
excluded, because the run that completes is learnt."""

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
# Exit statuses of a kill at the walltime: its own code, in older versions the signals, and TORQUE's
# JOB_EXEC_OVERLIMIT_WT (-11), which is a rerun in PBS.
_MAYBE_WALLTIME = frozenset({_SIGNALLED + _SIGKILL, _SIGNALLED + _SIGTERM, -11})


def state_of(exit_status: int | None, runtime: int, walltime: int | None, start: int | None) -> State:
    """Return the end state of a job with this Exit_status.

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
    # Unknown negative exit statuses do not come from the job's script.
    return _BY_CODE.get(exit_status) or (State.FAILED if exit_status > 0 else State.UNKNOWN)
