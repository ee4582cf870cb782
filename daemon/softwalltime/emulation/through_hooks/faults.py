"""Fault injection during a replay; the same seed gives the same faults."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from softwalltime.emulation.through_hooks.bad_answers import BadAnswers
from softwalltime.emulation.through_hooks.daemon import Daemon, Store
from softwalltime.emulation.through_hooks.log_writer import LogWriter

KINDS = ("kill-daemon", "suspend-daemon", "stop-postgres", "garbage")
FAULTS_PER_KIND = 3
"""Number of faults of each kind in one run."""
LONGEST = 300
"""Maximum number of events during a fault."""


_STRIDE = 1000
"""Events between two reports of progress."""


@dataclass(frozen=True, slots=True)
class FaultInterval:
    """Events [begin, end) during one kind of fault; ``""``: without a fault."""

    kind: str
    begin: int
    end: int


def plan(kinds: Sequence[str], events: int, random: Random) -> list[FaultInterval]:
    """Divide all events into intervals: each kind of fault several times, never two at one time."""
    wanted = [kind for kind in kinds for _ in range(FAULTS_PER_KIND)]
    random.shuffle(wanted)
    # Each fault has its own range of events: it begins in the first half and ends at the end of the range.
    half = events // (2 * len(wanted) or 1)
    intervals: list[FaultInterval] = []
    for number, kind in enumerate(wanted if half else ()):
        begin = 2 * half * number + random.randrange(half)
        intervals += _calm(intervals[-1].end if intervals else 0, begin)
        intervals.append(FaultInterval(kind, begin, begin + random.randint(1, min(LONGEST, half))))
    return [*intervals, *_calm(intervals[-1].end if intervals else 0, events)]


def _calm(begin: int, end: int) -> list[FaultInterval]:
    return [FaultInterval("", first, min(first + _STRIDE, end)) for first in range(begin, end, _STRIDE)]


class FaultInjector:
    """Injects one fault at a time and removes it again.

    :param garbage: socket of a daemon that sends invalid responses.
    :param pause: seconds for which the hook sends no requests after timeouts.
    """

    def __init__(
        self, daemon: Daemon, log: LogWriter, store: Store, garbage: Path, random: Random, pause: float
    ) -> None:
        self.kind = ""
        self._daemon = daemon
        self._log = log
        self._store = store
        self._bad_answers = BadAnswers(garbage, random)
        self._random = random
        self._pause = pause

    def begin(self, kind: str) -> None:
        """Inject a fault of this kind; ``""``: none."""
        if kind in ("kill-daemon", "stop-postgres"):
            # The daemon is often reading the log at this time.
            self._log.write()
            time.sleep(self._random.random())
        self.kind = kind
        match kind:
            case "kill-daemon":
                self._daemon.kill()
            case "suspend-daemon":
                self._daemon.suspend()
            case "stop-postgres":
                self._store.stop()
            case "garbage":
                self._bad_answers.start()

    def end(self) -> None:
        """Remove the current fault, if any, and wait until its effects are over."""
        kind, self.kind = self.kind, ""
        match kind:
            case "kill-daemon":
                self._daemon.start()
            case "suspend-daemon":
                self._daemon.resume()
                time.sleep(self._pause)
            case "stop-postgres":
                self._store.start()
            case "garbage":
                self._bad_answers.stop()
        if kind and self._daemon.running:
            self._log.catch_up()
