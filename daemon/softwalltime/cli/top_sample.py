"""Status of daemon and store at one time, as ``softwalltime top`` shows it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from softwalltime.service.status import Status
    from softwalltime.store.current import Overview

OVERDUE_NAMES = ("job", "user", "queue", "soft walltime", "overdue by", "killed in")
STARTS_NAMES = ("job", "user", "queue", "processors", "expected start", "90% range", "waits for")
RECENT_NAMES = ("time", "event", "job", "user", "mode", "action", "soft walltime", "walltime", "reason")


@dataclass(frozen=True, slots=True)
class StoreSnapshot:
    """The store's overview, or the reason why it cannot be read."""

    overview: "Overview | None"
    problem: str = ""

    @property
    def decisions(self) -> tuple[tuple[str, ...], ...]:
        """The newest decisions, if the store can be read."""
        return () if self.overview is None else self.overview.last_decisions


@dataclass(frozen=True, slots=True)
class Sample:
    """Status and store at one time (monotonic seconds)."""

    at: float
    status: "Status"
    stored: StoreSnapshot
