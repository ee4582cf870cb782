"""A machine of vnodes: a job takes parts of particular vnodes, so free processors of many may be useless to it."""

from bisect import insort
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from softwalltime.accounting.chunks import Chunks
from softwalltime.measure.simulation.machine import FOREVER, Calendar, Machine
from softwalltime.measure.simulation.resources import REQUEST, Vnodes, gets_whole, requested
from softwalltime.measure.simulation.simulated_jobs import Integers, Jobs

_UNLIMITED = 1 << 60
"""What a vnode has of memory if that is not known; no request is larger."""
MAX_CHUNK_KINDS = 8
"""Maximum number of kinds of chunks in a request; a longer one counts as single processors, for its users choose it."""


class Placement(NamedTuple):
    """The vnodes that a job takes, each once, and what it takes of them: a row for each resource."""

    vnodes: Integers
    amounts: Integers


_NOWHERE = Placement(np.zeros(0, np.int64), np.zeros((3, 0), np.int64))


class PlacementRequest(NamedTuple):
    """What a job requests of which vnodes.

    ``usable``: the vnodes that its queue may use, ``None`` for all.  ``whole``: those it gets as a whole, if any.
    """

    chunks: tuple[Chunks, ...]
    arrangement: str
    usable: NDArray[np.bool_] | None
    whole: NDArray[np.bool_] | None

    def largest(self) -> list[int]:
        """Return what one vnode must have of each resource."""
        return [max((some.resources[which] for some in self.chunks), default=0) for which in range(3)]


class VnodeLayout:
    """All vnodes in the order in which the scheduler tries them; ``capacity``: processors, memory and GPUs of each."""

    def __init__(self, kinds: Sequence[Vnodes]) -> None:
        self._kinds = kinds
        self._counts = [kind.count for kind in kinds]
        self._queues = {kind.queue for kind in kinds}
        rows = [(kind.ncpus, kind.mem or _UNLIMITED, kind.ngpus) for kind in kinds]
        self.capacity: Integers = np.repeat(np.array(rows, np.int64).reshape(-1, 3), self._counts, axis=0).T.copy()
        self._usable = cache(self._usable_by)
        self._whole = cache(self._whole_for)

    def request(self, ncpus: int | None, nodect: int | None, select: str, place: str, queue: str) -> PlacementRequest:
        """Return the request of a job with these attributes; single processors where it fits no empty machine."""
        chunks, arrangement = requested(select or "", place or "", ncpus or 1, nodect or 0)
        chunks = tuple(some for some in chunks if some.count and any(some.resources))
        if arrangement == "pack":
            processors, mem, gpus = (sum(some.count * some.resources[which] for some in chunks) for which in range(3))
            chunks = (Chunks(1, (processors, mem, gpus)),)
        if len(chunks) <= MAX_CHUNK_KINDS and all(some.count * max(some.resources) < _UNLIMITED for some in chunks):
            usable, whole = self._usable(queue if queue in self._queues else ""), self._whole(place or "")
            request = PlacementRequest(chunks, arrangement, usable, whole)
            if self.find(request, self.capacity) is not None:
                return request
        return PlacementRequest((Chunks(ncpus or 1, (1, 0, 0)),), "free", None, None)

    def _usable_by(self, queue: str) -> NDArray[np.bool_] | None:
        usable = [kind.queue == queue for kind in self._kinds]
        return None if all(usable) else self._each(usable)

    def _whole_for(self, place: str) -> NDArray[np.bool_] | None:
        whole = [gets_whole(place, kind.sharing) for kind in self._kinds]
        return self._each(whole) if any(whole) else None

    def _each(self, of_kind: Sequence[bool]) -> NDArray[np.bool_]:
        return np.repeat(np.array(of_kind, np.bool_), self._counts)

    def find(self, request: PlacementRequest, free: Integers) -> Placement | None:
        """Return the first vnodes that have enough, chunk by chunk (OpenPBS, src/scheduler: node_info.cpp)."""
        chunks, usable, scatter = request.chunks, request.usable, request.arrangement.endswith("scatter")
        if request.whole is not None:
            untouched = ~request.whole | (free == self.capacity).all(axis=0)
            usable = untouched if usable is None else usable & untouched
        if len(chunks) == 1:
            placement = _first(chunks[0], free, usable, scatter=scatter)
        else:
            taken = np.zeros_like(free)
            for some in chunks:
                placement = _first(some, free - taken, usable, scatter=scatter)
                if placement is None:
                    return None
                taken[:, placement.vnodes] += placement.amounts
                if scatter:
                    usable = np.ones(free.shape[1], np.bool_) if usable is None else usable.copy()
                    usable[placement.vnodes] = False
            vnodes = np.flatnonzero(taken.any(axis=0))
            placement = Placement(vnodes, taken[:, vnodes])
        if placement is None or request.whole is None:
            return placement
        vnodes, amounts = placement
        return Placement(vnodes, np.where(request.whole[vnodes], self.capacity[:, vnodes], amounts))


def _first(some: Chunks, free: Integers, usable: NDArray[np.bool_] | None, *, scatter: bool) -> Placement | None:
    """Return the first vnodes that have enough for some equal chunks; at most one on each if they ``scatter``."""
    units = np.full(free.shape[1], 1 if scatter else some.count)
    for have, need in zip(free, some.resources, strict=True):
        if need:
            np.minimum(units, have // need, out=units)
    if usable is not None:
        units *= usable
    sums = units.cumsum()
    last = int(sums.searchsorted(some.count))
    if last == len(sums):
        return None
    vnodes = units[: last + 1].nonzero()[0]
    counts = units[vnodes]
    counts[-1:] -= sums[last] - some.count
    return Placement(vnodes, counts * np.array(some.resources, np.int64)[:, None])


class VnodeMachine:
    """Vnodes, beside a machine of the processors of all of them and of limits on running jobs."""

    def __init__(self, inner: Machine, layout: VnodeLayout, jobs: Jobs) -> None:
        self._inner = inner
        self._layout = layout
        numbers: dict[tuple[object, ...], int] = {}
        self._number = [numbers.setdefault(row, len(numbers)) for row in jobs.completed.rows(*REQUEST)]
        self._requests = [layout.request(*row) for row in numbers]  # type: ignore[arg-type]  # the fields of REQUEST
        self._numbers = np.array(self._number, np.int64)
        self._largest = np.array([request.largest() for request in self._requests], np.int64).reshape(-1, 3).T
        self.free = layout.capacity.copy()
        self.placed: dict[int, Placement] = {}
        """The vnodes of the running jobs, and of one that is about to start."""
        self._found: dict[tuple[int, int], Placement | None] = {}

    def find(self, job: int, free: Integers) -> Placement | None:
        """Return vnodes for a job among what is free."""
        return self._layout.find(self._requests[self._number[job]], free)

    def find_now(self, job: int, free: Integers, plans: int = 0) -> Placement | None:
        """Return vnodes for a job that starts now; the answer is kept for other jobs with the same request.

        :param free: what stays free until its end, which follows from the planned starts before that.
        :param plans: a bit for each of them.
        """
        key = self._number[job], plans
        if key not in self._found:
            self._found[key] = self.find(job, free)
        return self._found[key]

    def fits(self, job: int) -> bool:
        return self._inner.fits(job) and self.find_now(job, self.free) is not None

    def may_fit(self, jobs: Integers) -> NDArray[np.bool_]:
        """Return for which of these jobs some vnode has what the largest chunk needs of each resource."""
        most = self.free.max(axis=1, initial=0)
        may_fit: NDArray[np.bool_] = (self._largest[:, self._numbers[jobs]] <= most[:, None]).all(axis=0)
        return may_fit

    def allocate(self, job: int) -> None:
        """Give the job the vnodes of ``placed``; else the first ones, or none if they are too few."""
        self._inner.allocate(job)
        placement = self.placed.setdefault(job, self.find(job, self.free) or _NOWHERE)
        self.free[:, placement.vnodes] -= placement.amounts
        self._found.clear()

    def release(self, job: int) -> None:
        self._inner.release(job)
        placement = self.placed.pop(job)
        self.free[:, placement.vnodes] += placement.amounts
        self._found.clear()

    def kind(self, job: int) -> Hashable:
        return self._inner.kind(job), self._number[job]

    def calendar(self, now: int, ends: Iterable[tuple[int, int]]) -> "VnodeCalendar":
        ends = list(ends)
        self._found.clear()
        return VnodeCalendar(self, self._inner.calendar(now, ends), now, ends)


class VnodeCalendar(Calendar):
    """The plan of all vnodes, for PBS's cycle: a job that fits starts, and one that is planned keeps its vnodes."""

    def __init__(self, machine: VnodeMachine, inner: Calendar, now: int, ends: Sequence[tuple[int, int]]) -> None:
        self._machine = machine
        self._inner = inner
        self._now = now
        # Time, sign and vnodes of each change.
        self._changes = [(end, 1, machine.placed[job]) for end, job in ends]
        # Each planned start, and what is free at that time.
        self._planned: list[tuple[int, Integers]] = []
        # The last result of earliest: job, start, vnodes, and what is free then.
        self._next: tuple[int, int, Placement, Integers] | None = None

    def candidates(self, jobs: Integers, values: Integers) -> NDArray[np.bool_]:
        candidates = self._inner.candidates(jobs, values)
        places = candidates.nonzero()[0]
        candidates[places] = self._machine.may_fit(jobs[places])
        return candidates

    def fits(self, job: int, start: int, seconds: int) -> bool:
        """Whether the job fits from ``start``, which is now, for that long; then fix its vnodes."""
        if not self._inner.fits(job, start, seconds):
            return False
        free, plans = self._left(self._machine.free, start, seconds)
        placement = self._machine.find_now(job, free, plans)
        if placement is not None:
            self._machine.placed[job] = placement
        return placement is not None

    def _left(self, free: Integers, start: int, seconds: int) -> tuple[Integers, int]:
        """Return what stays free until the end, of what is free at the start, and the plans before that as bits."""
        plans = 0
        for number, (planned, left) in enumerate(self._planned):
            if start < planned < start + seconds:
                free = np.minimum(free, left)
                plans |= 1 << number
        return free, plans

    def _until(self, time: int) -> Iterator[tuple[int, Integers]]:
        """Yield the time of each change up to ``time``, and what is free then; the array is changed later."""
        free = self._machine.free.copy()
        for when, changes in groupby(self._changes, key=itemgetter(0)):
            if when > time:
                break
            for _, sign, placement in changes:
                free[:, placement.vnodes] += sign * placement.amounts
            yield when, free

    def earliest(self, job: int, seconds: int) -> int:
        first = self._inner.earliest(job, seconds)
        for time, free in self._until(FOREVER):
            if time >= first:
                found = self._machine.find(job, self._left(free, time, seconds)[0])
                if found is not None and self._inner.fits(job, time, seconds):
                    self._next = job, time, found, free
                    return time
        return FOREVER

    def change(self, job: int, sign: int, start: int, end: int) -> None:
        """Give the job its vnodes if it has started, else the first ones that are free then."""
        if sign > 0:
            raise NotImplementedError("no planned start is taken back in PBS's cycle")
        self._inner.change(job, sign, start, end)
        placement = self._plan(job, start, end) if start > self._now else self._machine.placed[job]
        for planned, left in self._planned:
            if start <= planned < end:
                left[:, placement.vnodes] -= placement.amounts
        if start > self._now:
            insort(self._changes, (start, -1, placement), key=itemgetter(0))
        insort(self._changes, (end, 1, placement), key=itemgetter(0))

    def _plan(self, job: int, start: int, end: int) -> Placement:
        """Return the vnodes of a planned start; keep what is free then, itself included until :meth:`change`."""
        if self._next is not None and self._next[:2] == (job, start):
            *_, placement, free = self._next
        else:
            *_, (_, free) = chain([(start, self._machine.free.copy())], self._until(start))
            placement = self._machine.find(job, self._left(free, start, end - start)[0]) or _NOWHERE
        self._planned.append((start, free))
        return placement
