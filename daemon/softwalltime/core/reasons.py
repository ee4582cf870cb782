"""Reasons of decisions: codes for programs, with a sentence for each."""

from enum import StrEnum


class Reason(StrEnum):
    """Reason of a decision. The values are stored and never change."""

    PREDICTED = "predicted"
    """The soft walltime is from a prediction, which has its own basis."""
    NOT_BELOW_WALLTIME = "not_below_walltime"
    """There is a prediction, but the soft walltime would not be below the walltime."""
    NO_WALLTIME = "no_walltime"
    SHRINK_TO_FIT = "shrink_to_fit"
    NO_COMPLETED_JOBS = "no_completed_jobs"
    """Value: the user."""
    NO_COMPLETED_JOBS_WITH_WALLTIME = "no_completed_jobs_with_walltime"
    """Value: the user."""
    TOO_FEW_JOBS = "too_few_jobs"
    """Values: number of like jobs, their keys, days, least number."""
    HISTORY_LOADING = "history_loading"
    POLICY_OFF = "policy_off"
    POLICY_KEEP = "policy_keep"
    POLICY_WALLTIME = "policy_walltime"
    BASELINE = "baseline"
    OTHER = "other"
    """For predictors of other packages.  Value: a sentence."""
    EXCLUSIVE = "exclusive"
    """The job has exclusive placement, and the policy protects reservations from such jobs."""
    GUARD = "guard"
    """The top job of the queue is later than promised, so waiting jobs are planned with their walltimes."""


_SENTENCES = {
    Reason.PREDICTED: "a prediction below the walltime",
    Reason.NOT_BELOW_WALLTIME: "the prediction is not below the walltime",
    Reason.NO_WALLTIME: "the job has no walltime",
    Reason.SHRINK_TO_FIT: "a shrink-to-fit job may have no soft walltime",
    Reason.NO_COMPLETED_JOBS: "user {} has no completed job",
    Reason.NO_COMPLETED_JOBS_WITH_WALLTIME: "user {} has no completed job with a walltime",
    Reason.TOO_FEW_JOBS: "only {} jobs with the same {} ended in the last {:g} days; {} are needed",
    Reason.HISTORY_LOADING: "the history is still being loaded",
    Reason.POLICY_OFF: "the site's policy is off for this job",
    Reason.POLICY_KEEP: "the site's policy keeps the soft walltime as it is",
    Reason.POLICY_WALLTIME: "the site's policy plans the job with its walltime",
    Reason.BASELINE: "the user's walltime is used",
    Reason.OTHER: "{}",
    Reason.EXCLUSIVE: "a waiting job with exclusive placement is planned with its walltime, because PBS would start it "
    "into a reservation otherwise",
    Reason.GUARD: "the top job is late, so waiting jobs are planned with their walltimes",
}


def sentence(reason: Reason, values: tuple[object, ...] = ()) -> str:
    """Render the reason with its values as one sentence.

    >>> sentence(Reason.NO_COMPLETED_JOBS, ("bob",))
    'user bob has no completed job'
    """
    return _SENTENCES[reason].format(*values)
