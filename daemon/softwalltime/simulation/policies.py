"""A scheduling policy: everything that may differ between two simulations of the same jobs."""

from dataclasses import dataclass

from softwalltime.policy.clamp import MINIMUM

WALLTIME = "walltime"
"""The specification of a value that is the walltime."""
RUNTIME = "runtime"
"""The specification of a value that is the job's runtime, which no real scheduler knows: a bound."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How jobs are ordered, backfilled and estimated.

    ``order`` and ``backfill`` are names (:mod:`orders`, :mod:`backfilling`).  ``waiting``, ``running`` and
    ``ordering`` are specifications of values: ``walltime``, ``runtime`` or a predictor.  ``guard`` is in seconds,
    ``steer`` is the target share of broken promises, ``None`` switches each off.  ``correction`` names the rule for
    an estimate that runs out (:mod:`corrections`).  ``depth`` is the number of jobs that get a reservation where the
    backfilling allows more than one.  ``live`` is the number of seconds between two re-estimations.  ``age`` is the
    constant of the expansion factor in seconds.  ``formula`` is the expression of the order ``formula``.
    ``kill_at_walltime``: jobs end at their walltime at the latest; otherwise they run as recorded.  ``minimum`` is the
    least value in seconds.
    """

    order: str = "fcfs"
    backfill: str = "easy"
    waiting: str = WALLTIME
    running: str = WALLTIME
    ordering: str = WALLTIME
    guard: int | None = None
    steer: float | None = None
    correction: str = "pbs"
    depth: int = 1
    live: int | None = None
    age: int = 3600
    formula: str = ""
    kill_at_walltime: bool = True
    minimum: int = MINIMUM
