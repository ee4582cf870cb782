"""Cases of the rule from a predicted runtime to the soft walltime that a job has after an event."""

from typing import NamedTuple

from softwalltime.core.events import Kind


class Case(NamedTuple):
    """What is known of a job at an event, and the soft walltime that it has afterwards; all in seconds.

    ``prediction``: ``None`` for a cold start.  ``has``: the soft walltime before the event, ``expected``: after it;
    ``None`` for none.
    """

    expected: int | None
    prediction: float | None
    walltime: int | None = 3600
    min_walltime: int | None = None
    has: int | None = None
    minimum: int = 60
    kind: Kind = Kind.SUBMITTED
    exclusive: bool = False
    guarded: bool = False


ALTERED, STARTED = Kind.ALTERED, Kind.STARTED
CASES = (
    # A prediction is rounded up and clamped to [minimum, walltime]; the walltime itself is not set.
    Case(1800, 1800),
    Case(1801, 1800.5),
    Case(60, 5),
    Case(61, 60.5),
    Case(900, 5, minimum=900),
    Case(901, 901, minimum=900),
    Case(3599, 3599),
    Case(None, 3599.5),
    Case(None, 3600),
    Case(None, 9000),
    # A walltime that leaves no room above the minimum.
    Case(60, 5, walltime=61),
    Case(None, 5, walltime=60),
    Case(None, 5, walltime=40),
    Case(None, 1800, minimum=3600),
    # Nothing is known, or nothing may be set.
    Case(None, None),
    Case(None, 1800, walltime=None),
    Case(None, 1800, min_walltime=600),
    Case(None, None, min_walltime=600),
    # A waiting job with exclusive placement and, while the guard acts, every waiting job keeps its walltime.
    Case(None, 1800, exclusive=True),
    Case(None, 1800, guarded=True),
    # What a job has is replaced, or raised to the walltime where there is nothing to set.
    Case(1800, 1800, has=600, kind=ALTERED),
    Case(1800, 1800, has=1800, kind=ALTERED),
    Case(60, 5, has=600, kind=ALTERED),
    Case(3600, None, has=600, kind=ALTERED),
    Case(3600, 3599.5, has=600, kind=ALTERED),
    Case(3600, 1800, has=600, kind=ALTERED, exclusive=True),
    Case(3600, 1800, has=600, kind=ALTERED, guarded=True),
    Case(1800, 1800, kind=STARTED),
    Case(1801, 1800.5, has=600, kind=STARTED),
    Case(60, 5, has=600, kind=STARTED),
    Case(3600, None, has=600, kind=STARTED),
    Case(3600, 9000, has=600, kind=STARTED),
    Case(None, None, kind=STARTED),
    Case(1800, 1800, has=600, kind=STARTED, exclusive=True),
    Case(1800, 1800, has=600, kind=STARTED, guarded=True),
)
