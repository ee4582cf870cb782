"""Write the accounting log ahead of virtual time."""

import math

from softwalltime.emulation.through_hooks.daemon import Daemon
from softwalltime.jobs import CompletedJob


class LogWriter:
    """Writes E records by some thousands, and waits until the daemon has read those up to the current virtual time.

    One portion more than is needed is written, so that the daemon reads it while events are fired.

    :param ends: the jobs in the order of their ends.
    """

    def __init__(self, daemon: Daemon, ends: list[CompletedJob], portion: int) -> None:
        self._daemon = daemon
        self._ends = ends
        self._portion = portion
        self._known: list[tuple[int, int]] = []
        self._written = 0
        self.due: float = ends[0].end if ends else math.inf
        """The virtual time from which on the daemon must have read more records."""

    def write(self) -> None:
        """Write the next portion, if any."""
        some = self._ends[self._written : self._written + self._portion]
        if some:
            self._daemon.append(some)
            self._written += len(some)
            self._known.append((self._written, self._daemon.written))

    def reach(self, time: int) -> None:
        """Wait until the daemon has read all jobs that end by this time."""
        while self.due <= time:
            if not self._known:
                self.write()
            written, teaching = self._known.pop(0)
            self._daemon.wait_for(teaching)
            self.due = self._ends[written].end if written < len(self._ends) else math.inf
            if not self._known:
                self.write()

    def catch_up(self) -> None:
        """Wait until the daemon has read all written records."""
        self._daemon.wait_for(self._daemon.written)
