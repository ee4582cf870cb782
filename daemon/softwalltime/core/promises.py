"""Promises: the starts that the scheduler estimates for its top jobs, and their outcomes.

A job's promise is the start that the scheduler gave it when it first became a top job, as its next cycle corrects it.
It counts as long as the job waits: a job that is held, deleted or requeued has none any more.
"""

from dataclasses import dataclass
from enum import StrEnum

FORESEEN_S = 366 * 86400
"""Seconds ahead up to which a start can be promised."""


def is_foreseen(start: int, now: int) -> bool:
    """Return whether a planned start counts as a promise; both times in epoch seconds.

    PBS plans running jobs without walltime for five years, so later starts mean "unknown".
    """
    return start - now <= FORESEEN_S


class Outcome(StrEnum):
    """Outcome of a promise.  The values are stored and never change."""

    OPEN = "open"
    """The job waits."""
    KEPT = "kept"
    LATE = "late"
    """The job started more than a minute after the promised start."""
    WITHDRAWN = "withdrawn"
    """The job was held, deleted, moved or requeued."""


@dataclass(frozen=True, slots=True)
class Promise:
    """The promises made to one job; times in epoch seconds.

    ``promised_at``: when the first one was seen.  ``first`` and ``last``: the start promised first and last.
    ``started``: the start, ``None`` while it is unknown.
    """

    job_id: str
    promised_at: int
    first: int
    last: int
    outcome: Outcome = Outcome.OPEN
    started: int | None = None
    queue: str = ""
    ncpus: int | None = None


@dataclass(frozen=True, slots=True)
class LatestStart:
    """Latest start of a waiting job (``latest``), set at ``set_at``; both in epoch seconds.

    ``terms`` is a digest of the job's attributes at that time; empty once they have changed.
    """

    job_id: str
    set_at: int
    latest: int
    terms: str
