"""Recorded jobs that can be simulated, read part by part: their use of the machine, and the newest of them."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

import numpy as np

from softwalltime.core.formatting import DAY
from softwalltime.measure.replay.workload import Flags, Recorded
from softwalltime.measure.simulation.resources import REQUEST, Vnodes, processors_on
from softwalltime.measure.simulation.simulated_jobs import (
    NO_PROCESSORS,
    NO_RUNTIME,
    Integers,
    eligible_times,
    in_order,
    simulable,
    starts_of,
    use_changes,
)

WEEK_S = 7 * DAY
FIRST, LAST = -(2**62), 2**62
"""Before and after all times."""
_COLUMNS = ("submitted", "etime", "start", "end", "runtime", "walltime", "ncpus")


class SimulablePart(NamedTuple):
    """Consecutive jobs that can be simulated, one entry each; times in epoch seconds, durations in seconds.

    ``numbers`` in order of submission; ``eligible``: when the job could run for the first time; ``known``: whether its
    start is recorded; ``limited``: whether it has a walltime; ``early``: whether it started before its submission,
    which is an error.  No later part has a submission before ``until``.  ``left_out``: number of other records by
    reason.
    """

    numbers: Integers
    eligible: Integers
    start: Integers
    runtime: Integers
    processors: Integers
    known: Flags
    limited: Flags
    early: Flags
    until: int
    left_out: dict[str, int]

    def changes(self, which: Flags) -> Integers:
        return use_changes(self.start[which], self.runtime[which], self.processors[which])


def simulable_parts(workload: Recorded, since: int = FIRST, vnodes: tuple[Vnodes, ...] = ()) -> Iterator[SimulablePart]:
    """Yield the jobs that could run from ``since`` on, with the processors that they take on these vnodes."""
    for part in workload.parts((*_COLUMNS, *REQUEST) if vnodes else _COLUMNS):
        which, left_out = simulable(part.jobs)
        eligible = eligible_times(part.jobs)
        which = which[eligible[which] >= since]
        jobs = part.jobs.select(which)
        start = starts_of(jobs)
        yield SimulablePart(
            part.numbers[which], eligible[which], start, jobs.numbers("runtime"), processors_on(vnodes, jobs),
            jobs.numbers("start") != -1, jobs.numbers("walltime") > 0, start < part.submitted[which],
            int(part.submitted[-1]), left_out,
        )  # fmt: skip


@dataclass(slots=True)
class Totals:
    """Number of the jobs that can be simulated, of those whose start is ``known``, and of those with a walltime.

    ``first_start`` in epoch seconds; ``left_out``: number of the records that cannot be simulated, by reason.
    """

    jobs: int = 0
    known: int = 0
    limited: int = 0
    first_start: int = LAST
    left_out: Counter[str] = field(default_factory=lambda: Counter({NO_RUNTIME: 0, NO_PROCESSORS: 0}))

    @classmethod
    def of(cls, workload: Recorded) -> "Totals":
        totals = cls()
        for part in simulable_parts(workload):
            totals.jobs += len(part.numbers)
            totals.known += int(part.known.sum())
            totals.limited += int(part.limited.sum())
            totals.first_start = min(totals.first_start, int(part.start.min(initial=LAST)))
            totals.left_out.update(part.left_out)
        return totals


def use(
    workload: Recorded, begin: int, since: int = FIRST, vnodes: tuple[Vnodes, ...] = ()
) -> Iterator[tuple[Integers, Integers]]:
    """Yield the instants at which the number of processors in use changes, and that number from each of them on.

    Each time of whole weeks, the first from ``begin`` on; the last time until the last job ends.  In memory are the
    jobs that run, and those that started before their submission.

    :param begin: before all starts, in epoch seconds.
    :param since: only the jobs that could run from this time on.
    """
    early = [part.changes(part.early) for part in simulable_parts(workload, since, vnodes)]
    pending, now, used = np.concatenate([np.empty((2, 0), np.int64), *early], axis=1), begin, 0
    for part in chain(simulable_parts(workload, since, vnodes), [None]):
        if part is None:
            until = int(pending[0].max(initial=now))
            due = np.full(pending.shape[1], True)
        else:
            pending = np.concatenate([pending, part.changes(~part.early)], axis=1)
            until = begin + (part.until - begin) // WEEK_S * WEEK_S
            if until <= now:
                continue
            due = pending[0] < until
        changes, pending = in_order(pending[:, due]), pending[:, ~due]
        in_use = np.cumsum(np.concatenate([[used], changes[1], [0]]))
        yield np.concatenate([[now], changes[0], [until]]), in_use
        now, used = until, int(in_use[-1])


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest of ``of`` jobs that fit on a machine, in the order in which they could run; ``refused`` do not fit.

    ``scored_share``: share of the processor time of all jobs, refused ones included, that jobs with a walltime used.
    """

    numbers: Integers
    of: int
    refused: int
    scored_share: float


def newest_jobs(
    workload: Recorded, most: int, processors: int, since: int = FIRST, vnodes: tuple[Vnodes, ...] = ()
) -> Newest:
    """Return the newest jobs, at most so many, of those that could run from ``since`` on.

    :param processors: size of the machine.
    """
    kept = [np.empty((2, 0), np.int64)]
    count = fitting = 0
    used = scored = 0.0
    for part in simulable_parts(workload, since, vnodes):
        fits = part.processors <= processors
        # As floats: a damaged record may hold more processor-seconds than an integer of 64 bits.
        seconds = part.processors.astype(np.float64) * part.runtime
        used += float(seconds.sum())
        scored += float(seconds[fits & part.limited].sum())
        count += len(fits)
        fitting += int(fits.sum())
        kept.append(np.array([part.eligible[fits], part.numbers[fits]]))
        if sum(some.shape[1] for some in kept[1:]) > most:
            kept = [_last(most, kept)]
    return Newest(_last(most, kept)[1], fitting, count - fitting, scored / used if used else 1.0)


def _last(most: int, parts: list[Integers]) -> Integers:
    jobs = np.concatenate(parts, axis=1)
    return jobs[:, np.argsort(jobs[0], kind="stable")[-most:]]
