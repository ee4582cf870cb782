"""The accounting log, written ahead of virtual time."""

import math

from softwalltime.emulation.through_hooks.daemon import Daemon
from softwalltime.jobs import CompletedJob


class LogWriter:
    """Writes E records some thousands at a time, and sees to it that the daemon has read those that matter by now.

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
        """The virtual time from which on more must have been read."""

    def write(self) -> None:
        """Write the next portion, if there is one."""
        some = self._ends[self._written : self._written + self._portion]
        if some:
            self._daemon.append(some)
            self._written += len(some)
            self._known.append((self._written, self._daemon.written))

    def reach(self, time: int) -> None:
        """Wait until the daemon has read all that ends by then."""
        while self.due <= time:
            if not self._known:
                self.write()
            written, teaching = self._known.pop(0)
            self._daemon.wait_for(teaching)
            self.due = self._ends[written].end if written < len(self._ends) else math.inf
            if not self._known:
                self.write()

    def catch_up(self) -> None:
        """Wait until the daemon has read all that was written."""
        self._daemon.wait_for(self._daemon.written)
