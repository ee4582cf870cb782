"""Fault injection during a replay through the hooks; the same seed gives the same faults."""

import json
import signal
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import numpy as np
from numpy.typing import NDArray

from softwalltime.core import resources
from softwalltime.core.events import Kind
from softwalltime.emulation.through_hooks.run import (
    BREAKER_PAUSE_S,
    Comparison,
    Emulation,
    EmulationOptions,
    EmulationResult,
    compare,
    emulation,
    result,
)
from softwalltime.emulation.through_hooks.timeline import Timeline
from softwalltime.measure.replay.fast_replay import ReplayResult
from softwalltime.measure.replay.workload import Workload
from softwalltime.store.embedded.postgres_process import embedded_postgres
from tests.emulation.bad_answers import BadAnswers

KINDS = ("kill-daemon", "suspend-daemon", "stop-postgres", "garbage")
FAULTS_PER_KIND = 3
"""Number of faults of each kind in one run."""
LONGEST = 300
"""Maximum number of events during a fault."""
LOSSY = ("kill-daemon", "suspend-daemon", "garbage")
"""Faults that may cost a job its soft walltime; the daemon predicts from memory."""
_STRIDE = 1000
"""Events in an interval without a fault, at most."""


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


class Postgres:
    """A PostgreSQL that can be stopped and started again while it is in use."""

    def __call__(self, folder: Path) -> AbstractContextManager[str]:
        self._folder = folder
        return self

    def __enter__(self) -> str:
        self._running: AbstractContextManager[str] | None = embedded_postgres(self._folder, durable=False)
        return self._running.__enter__()

    def __exit__(self, *_: object) -> None:
        if self._running is not None:
            server, self._running = self._running, None
            server.__exit__(None, None, None)


class FaultInjector:
    """Injects one fault at a time and removes it again."""

    def __init__(self, of: Emulation, postgres: Postgres | None, random: Random) -> None:
        self.kind = ""
        self._daemon = of.daemon
        self._postgres = postgres
        garbage = of.configuration.with_name("garbage.sock")
        self._bad_answers = BadAnswers(garbage, random)
        self._usual = of.configuration
        self._garbage = of.configuration.with_name("garbage.json")
        values = json.loads(of.configuration.read_text())
        # Timeouts are wanted here, and soon.
        self._fast = of.configuration.with_name("fast.json")
        shipped = json.loads(resources.hook().with_suffix(".json").read_text())
        values["deadline_ms"] = shipped["deadline_ms"]
        self._fast.write_text(json.dumps(values))
        self._garbage.write_text(json.dumps({**values, "socket": str(garbage)}))

    @property
    def configuration(self) -> Path:
        """The hook's."""
        return {"garbage": self._garbage, **dict.fromkeys(LOSSY[:2], self._fast)}.get(self.kind, self._usual)

    def begin(self, kind: str) -> None:
        """Inject a fault of this kind; ``""``: none."""
        self.kind = kind
        match kind:
            case "kill-daemon":
                self._daemon.kill()
            case "suspend-daemon":
                # The kernel still accepts connections, but no response comes.
                self._signal(signal.SIGSTOP)
            case "stop-postgres":
                assert self._postgres is not None
                self._postgres.__exit__()
            case "garbage":
                self._bad_answers.start()

    def end(self) -> None:
        """Remove the current fault, if any, and wait until its effects are over."""
        kind, self.kind = self.kind, ""
        match kind:
            case "kill-daemon":
                self._daemon.start()
            case "suspend-daemon":
                self._signal(signal.SIGCONT)
                time.sleep(BREAKER_PAUSE_S)
            case "stop-postgres":
                assert self._postgres is not None
                self._postgres.__enter__()
            case "garbage":
                self._bad_answers.stop()
        if kind:
            self._daemon.wait()

    def _signal(self, number: signal.Signals) -> None:
        assert self._daemon.process is not None
        self._daemon.process.send_signal(number)


@dataclass(frozen=True, slots=True)
class DisturbedResult:
    """Result of a run with faults: which jobs were submitted, or started, during one that may cost them the value."""

    run: EmulationResult
    disturbed: NDArray[np.bool_]
    disturbed_at_start: NDArray[np.bool_]
    faults: int


def run_with_faults(
    timeline: Timeline, spec: str, options: EmulationOptions, kinds: Sequence[str], seed: int = 1
) -> DisturbedResult:
    """Replay the jobs through the hook and the daemon, with faults of these kinds."""
    random = Random(f"{seed} {spec}")
    intervals = plan(kinds, len(timeline.events), random)
    disturbed = [False] * len(timeline.submissions)
    disturbed_at_start = [False] * len(timeline.jobs)
    with emulation(timeline, spec, options) as of:
        postgres = options.postgres if isinstance(options.postgres, Postgres) else None
        injector = FaultInjector(of, postgres, random)
        for interval in intervals:
            injector.begin(interval.kind)
            try:
                for event in timeline.events[interval.begin : interval.end]:
                    of.server.handle(event, injector.configuration)
                    if event.kind is Kind.SUBMITTED:
                        disturbed[event.number] = injector.kind in LOSSY
                    elif event.kind is Kind.STARTED:
                        disturbed_at_start[event.number] = injector.kind in LOSSY
            finally:
                injector.end()
        return DisturbedResult(
            result(timeline, of.server, 1.0),
            np.array([disturbed[number] for number in timeline.of_job], np.bool_),
            np.array(disturbed_at_start, np.bool_),
            sum(bool(interval.kind) for interval in intervals),
        )


def compare_disturbed(
    workload: Workload, found: DisturbedResult, fast: ReplayResult, ordering: NDArray[np.int64] | None = None
) -> tuple[Comparison, int]:
    """Compare with the fast replay; return also the number of values that a fault has cost.

    A job that was submitted, or started, while a fault lasted may have none instead, but no other one.
    """
    lost = 0

    def excused(
        values: NDArray[np.int64], expected: NDArray[np.int64], disturbed: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        nonlocal lost
        missing = disturbed & (values < 0) & (expected != values)
        lost += int(missing.sum())
        return np.where(missing, values, expected)

    replayed = found.run.replayed
    expected = replace(
        fast,
        soft_walltimes=excused(replayed.soft_walltimes, fast.soft_walltimes, found.disturbed),
        at_start=excused(replayed.at_start, fast.at_start, found.disturbed_at_start),
    )
    if ordering is not None:
        ordering = excused(found.run.ordering, ordering, found.disturbed)
    return compare(workload, found.run, expected, ordering=ordering), lost
