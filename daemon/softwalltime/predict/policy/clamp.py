"""Convert a predicted runtime to a soft walltime, for service, replay and simulation."""

import math

from softwalltime.core.jobs import NoPrediction, Prediction, Submission

MIN_SOFT_WALLTIME_S = 60
"""Minimum soft walltime in seconds.  A soft walltime of 0 on a running job kills OpenPBS's scheduler."""


def soft_walltime(
    prediction: Prediction | NoPrediction, submission: Submission, minimum: int = MIN_SOFT_WALLTIME_S
) -> int | None:
    """Return the soft walltime to set, in whole seconds, or ``None`` for none.

    The prediction is rounded up and clamped to [minimum, walltime].  The result is ``None`` if it equals the walltime,
    on a cold start, for a job without walltime, and for a shrink-to-fit job, for which PBS refuses a soft walltime.

    >>> soft_walltime(Prediction(1800.2, ""), Submission("1.srv", "alice", 0, walltime=3600))
    1801
    >>> soft_walltime(Prediction(7200.0, ""), Submission("1.srv", "alice", 0, walltime=3600)) is None
    True
    """
    walltime = submission.walltime
    if not walltime or submission.min_walltime is not None or type(prediction) is NoPrediction:
        return None
    seconds = prediction.seconds  # type: ignore[union-attr]  # a NoPrediction has left above; isinstance costs 8%
    # A plug-in's NaN becomes None: max returns its first argument, and comparisons with NaN are false.
    seconds = max(seconds, minimum)
    return math.ceil(seconds) if seconds <= walltime - 1 else None
