"""What ``softwalltime verify`` says, as a document."""

from dataclasses import dataclass

from softwalltime.simulation.differences import Interval


@dataclass(frozen=True, slots=True)
class PeriodDocument:
    """The jobs that were submitted and ended in a period, and their load."""

    since: int
    """Begin, epoch seconds."""
    until: int
    """End, epoch seconds, excluded."""
    jobs: int
    """Number of jobs."""
    jobs_per_day: float
    """Jobs submitted per day."""
    processor_hours_per_day: float
    """Processor hours submitted per day: processors x runtime."""
    wait_mean: float
    """Recorded mean wait in seconds."""


@dataclass(frozen=True, slots=True)
class ClassDocument:
    """The recorded mean waits of a class of jobs, in seconds."""

    kind: str
    """What makes the class: runtime, size or queue."""
    name: str
    """Name of the class."""
    jobs: int
    """Number of jobs after the switch."""
    before: float
    """Mean wait before the switch in seconds."""
    after: float
    """Mean wait after it in seconds."""
    effect: Interval
    """Effect of the policy on the mean wait in seconds, as for all jobs."""
    promised: float | None
    """Relative change that the plan promises; null: none."""
    longer: bool
    """Whether the mean wait is longer beyond chance."""
    announced: bool
    """Whether the plan says that this class waits longer."""


@dataclass(frozen=True, slots=True)
class VerifyDocument:
    """Whether the promise of a plan is kept."""

    verdict: str
    """keep, adjust, undo, or unknown: it cannot be told yet."""
    sentence: str
    """The verdict in a sentence."""
    reasons: tuple[str, ...]
    """What it rests on, a sentence each."""
    command: str
    """The next command; empty: none."""
    since: int
    """When the policy was switched on, epoch seconds."""
    method: str
    """What recorded waits are compared with: periods, simulation, users, or simulation and users."""
    before: PeriodDocument | None
    """The period before the switch; null: no jobs."""
    after: PeriodDocument | None
    """The period after the switch; null: no jobs."""
    recorded: Interval
    """Change of the recorded mean wait in seconds."""
    effect: Interval
    """Effect of the policy on the mean wait in seconds."""
    relative: Interval
    """The effect, divided by the mean wait that there would be without the policy."""
    promised: Interval
    """Relative change of the mean wait that the plan promises."""
    share: float
    """Share of the users for whom the policy holds."""
    classes: tuple[ClassDocument, ...]
    """Effect by class of jobs."""
    promised_starts: int
    """Recorded starts of jobs with a promised start since the switch."""
    broken: float | None
    """Share of these that came later; null: none is recorded."""
    promised_broken: float
    """Share of the promised starts that come later in the simulation of the plan."""
    interruptions: tuple[str, ...] = ()
    """Days since the switch on which the policy was off or another one was set, a sentence each."""
