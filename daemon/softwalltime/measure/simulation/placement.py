"""A machine of vnodes: a job takes parts of particular vnodes, so free processors of many may be useless to it."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cache
from itertools import takewhile
from operator import itemgetter
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from softwalltime.accounting.chunks import Chunks
from softwalltime.measure.simulation.first_fit import first_fit
from softwalltime.measure.simulation.machine import FOREVER, Calendar, Machine
from softwalltime.measure.simulation.resources import REQUEST, Vnodes, gets_whole, requested
from softwalltime.measure.simulation.simulated_jobs import Integers, Jobs

_UNLIMITED = 1 << 60
"""What a vnode has of memory if that is not known; no request is larger."""
_BLOCK = 32
"""Number of later changes that are searched together: most jobs fit soon after there are enough processors."""
MAX_CHUNK_KINDS, MAX_CHUNKS = 8, 1 << 40
"""Maximum number of kinds of chunks in a request, and of chunks of a kind; a larger one counts as single processors."""


class Placement(NamedTuple):
    """The vnodes that a job takes, each once, and what it takes of them: a row for each resource."""

    vnodes: Integers
    amounts: Integers


NOWHERE = Placement(np.zeros(0, np.int64), np.zeros((3, 0), np.int64))


class VnodeChanges(NamedTuple):
    """Later changes of what is free, as arguments of :func:`.first_fit.first_fit`."""

    times: Integers
    bounds: Integers
    changed: Integers
    by: Integers

    @classmethod
    def of(cls, changes: Sequence[tuple[int, Placement]]) -> "VnodeChanges":
        placements = NOWHERE, *(placement for _, placement in changes)
        bounds = np.cumsum([len(placement.vnodes) for placement in placements])
        changed = np.concatenate([placement.vnodes for placement in placements])
        by = np.concatenate([placement.amounts for placement in placements], axis=1)
        return cls(np.array([time for time, _ in changes], np.int64), bounds, changed, by)


NO_CHANGES = VnodeChanges.of(())


class PlacementRequest(NamedTuple):
    """The request of a job, as arguments of :func:`.first_fit.first_fit`."""

    counts: Integers
    needs: Integers
    scatter: bool
    usable: NDArray[np.bool_]
    whole: NDArray[np.bool_]


class VnodeLayout:
    """All vnodes in the order in which the scheduler tries them; ``capacity``: processors, memory and GPUs of each."""

    def __init__(self, kinds: Sequence[Vnodes]) -> None:
        self._kinds = kinds
        self._counts = [kind.count for kind in kinds]
        self._queues = {kind.queue for kind in kinds}
        amounts = [(kind.ncpus, kind.mem or _UNLIMITED, kind.ngpus) for kind in kinds]
        rows = [[min(each, _UNLIMITED) for each in row] for row in amounts]
        self.capacity: Integers = np.repeat(np.array(rows, np.int64).reshape(-1, 3), self._counts, axis=0).T.copy()
        self._every = self._each(True for _ in kinds)
        self._none = ~self._every
        self._usable = cache(lambda queue: self._each(kind.queue == queue for kind in kinds))
        self._whole = cache(lambda place: self._each(gets_whole(place, kind.sharing) for kind in kinds))

    def _each(self, of_kind: Iterable[bool]) -> NDArray[np.bool_]:
        return np.repeat(np.array(list(of_kind), np.bool_), self._counts)

    def request(self, ncpus: int | None, nodect: int | None, select: str, place: str, queue: str) -> PlacementRequest:
        """Return the request of a job with these attributes; single processors where it fits no empty machine."""
        request = self._chunks(ncpus, nodect, select, place, queue)
        if request is not None and self.find(request, self.capacity) is not None:
            return request
        return _request((Chunks(ncpus or 1, (1, 0, 0)),), self._every, self._none, scatter=False)

    def has_room(self, ncpus: int | None, nodect: int | None, select: str, place: str, queue: str) -> bool:
        """Whether a job with these attributes fits the empty machine; true if its chunks are too many to be placed."""
        request = self._chunks(ncpus, nodect, select, place, queue)
        return request is None or self.find(request, self.capacity) is not None

    def _chunks(
        self, ncpus: int | None, nodect: int | None, select: str, place: str, queue: str
    ) -> PlacementRequest | None:
        """Return the request with its own chunks; ``None`` if they are too many to be placed."""
        chunks, arrangement = requested(select or "", place or "", ncpus or 1, nodect or 0)
        chunks = tuple(some for some in chunks if some.count and any(some.resources))
        if arrangement == "pack":
            processors, mem, gpus = (sum(some.count * some.resources[which] for some in chunks) for which in range(3))
            chunks = (Chunks(1, (processors, mem, gpus)),)
        small = all(some.count < MAX_CHUNKS and some.count * max(some.resources) < _UNLIMITED for some in chunks)
        if len(chunks) > MAX_CHUNK_KINDS or not small:
            return None
        usable, whole = self._usable(queue if queue in self._queues else ""), self._whole(place or "")
        return _request(chunks, usable, whole, scatter=arrangement.endswith("scatter"))

    def find(self, request: PlacementRequest, free: Integers) -> Placement | None:
        """Return the first vnodes that have enough."""
        found, *placement = first_fit(*request, self.capacity, free, 0, *NO_CHANGES, 0, 0)
        return Placement(*placement) if found == 0 else None


def _request(
    chunks: tuple[Chunks, ...], usable: NDArray[np.bool_], whole: NDArray[np.bool_], *, scatter: bool
) -> PlacementRequest:
    needs = np.array([some.resources for some in chunks], np.int64).reshape(-1, 3)
    return PlacementRequest(np.array([some.count for some in chunks], np.int64), needs, scatter, usable, whole)


class VnodeRequests:
    """What each job asks of the vnodes of a layout, for any number of machines; jobs with one request share it."""

    def __init__(self, layout: VnodeLayout, jobs: Jobs) -> None:
        numbers: dict[tuple[object, ...], int] = {}
        self.layout = layout
        self.number = [numbers.setdefault(row, len(numbers)) for row in jobs.completed.rows(*REQUEST)]
        """The number of each job's request."""
        self.numbers = np.array(self.number, np.int64)
        self._requests = [layout.request(*row) for row in numbers]  # type: ignore[arg-type]  # the fields of REQUEST
        largest = [request.needs.max(axis=0, initial=0) for request in self._requests]
        self._largest = np.array(largest, np.int64).reshape(-1, 3).T

    def find(self, number: int, free: Integers) -> Placement | None:
        """Return vnodes for a job with the request of this number, among what is free."""
        return self.layout.find(self._requests[number], free)

    def first_after(
        self, number: int, free: Integers, changes: VnodeChanges, begin: int, earliest: int
    ) -> tuple[int, Placement]:
        """Return the number of changes after which such a job first fits, -1 if it never does, and its vnodes.

        :param free: what is free after the first ``begin`` changes; it becomes what is free after that number.
        :param begin: more changes than this are needed.
        :param earliest: the job does not start before this time, in epoch seconds.
        """
        capacity = self.layout.capacity
        past, *placement = first_fit(*self._requests[number], capacity, free, -1, *changes, begin, earliest)
        return past, Placement(*placement)

    def may_fit(self, jobs: Integers, free: Integers) -> NDArray[np.bool_]:
        """Return which of these jobs may fit: some vnode has enough of each resource for their largest chunk.

        All jobs are tested in one step: users may send any number of different requests that fit no vnode.
        """
        most = free.max(axis=1, initial=0)
        may_fit: NDArray[np.bool_] = (self._largest[:, self.numbers[jobs]] <= most[:, None]).all(axis=0)
        return may_fit


class VnodeMachine:
    """Vnodes, beside a machine of the processors of all of them and of limits on running jobs."""

    def __init__(
        self, inner: Machine, requests: VnodeRequests, placed: Mapping[int, Placement] = MappingProxyType({})
    ) -> None:
        """:param placed: vnodes of jobs that run from the beginning."""
        self._inner = inner
        self.requests = requests
        self.free = requests.layout.capacity.copy()
        self.placed = dict(placed)
        """The vnodes of the running jobs, and of one that is about to start."""

    def fits(self, job: int) -> bool:
        # The calendar searches the vnodes, because planned starts need some of them.
        return self._inner.fits(job)

    def allocate(self, job: int) -> None:
        """Give the job the vnodes of ``placed``; else the first ones, or none if they are too few."""
        self._inner.allocate(job)
        if job not in self.placed:
            self.placed[job] = self.requests.find(self.requests.number[job], self.free) or NOWHERE
        placement = self.placed[job]
        self.free[:, placement.vnodes] -= placement.amounts

    def release(self, job: int) -> None:
        self._inner.release(job)
        placement = self.placed.pop(job)
        self.free[:, placement.vnodes] += placement.amounts

    def kind(self, job: int) -> Hashable:
        return self._inner.kind(job), self.requests.number[job]

    def calendar(self, now: int, ends: Sequence[tuple[int, int]]) -> "VnodeCalendar":
        return VnodeCalendar(self, self._inner.calendar(now, ends), now, ends)


class VnodeCalendar(Calendar):
    """The plan of all vnodes, for PBS's cycle: a job that fits starts, and one that is planned keeps its vnodes."""

    def __init__(self, machine: VnodeMachine, inner: Calendar, now: int, ends: Sequence[tuple[int, int]]) -> None:
        self._machine = machine
        self._requests = machine.requests
        self._inner = inner
        self._now = now
        # The time of each change, and what vnodes get then, or the running job whose vnodes those are.
        self._changes: list[tuple[int, Placement | int]] = list(ends)
        # The planned starts, ascending, and what is free at each.
        self._planned: list[tuple[int, Integers]] = []
        # Vnodes on which a job can start now, by the number of its request and of the planned starts before its end.
        self._found: dict[tuple[int, int], Placement | None] = {}
        # What stays free at the planned starts, by their number.
        self._lefts: dict[int, Integers] = {}
        # The last result of earliest: job, start, vnodes, and what is free then.
        self._next: tuple[int, int, Placement, Integers] | None = None

    def candidates(self, jobs: Integers, values: Integers) -> NDArray[np.bool_]:
        """Which of these jobs fit the processors and the vnodes; jobs with the same request are tested once."""
        candidates = self._inner.candidates(jobs, values)
        candidates &= self._requests.may_fit(jobs, self._machine.free)
        places = candidates.nonzero()[0]
        some = jobs[places]
        plans = np.searchsorted([start for start, _ in self._planned], self._now + values[some])
        pairs, of = np.unique(self._requests.numbers[some] * (len(self._planned) + 1) + plans, return_inverse=True)
        fitting = [self._find(*divmod(pair, len(self._planned) + 1)) is not None for pair in pairs.tolist()]
        candidates[places] = np.array(fitting, np.bool_)[of]
        return candidates

    def fits(self, job: int, start: int, seconds: int) -> bool:
        """Whether the job fits from ``start``, which is now, for that long; then fix its vnodes."""
        if not self._inner.fits(job, start, seconds):
            return False
        plans = bisect_left(self._planned, start + seconds, key=itemgetter(0))
        placement = self._find(self._requests.number[job], plans)
        if placement is not None:
            self._machine.placed[job] = placement
        return placement is not None

    def _find(self, number: int, plans: int) -> Placement | None:
        """Return the vnodes on which such a job can start now and leave what the first planned starts need."""
        if (number, plans) not in self._found:
            if plans not in self._lefts:
                self._lefts[plans] = _left(self._machine.free, self._planned[:plans])
            self._found[number, plans] = self._requests.find(number, self._lefts[plans])
        return self._found[number, plans]

    def earliest(self, job: int, seconds: int) -> int:
        first = self._inner.earliest(job, seconds)
        place = bisect_left(self._changes, first, key=itemgetter(0))
        if self._now < first < FOREVER and (place == len(self._changes) or self._changes[place][0] > first):
            # The end of a reservation: no vnode changes then.
            self._changes.insert(place, (first, NOWHERE))
        free, begin, number = self._machine.free.copy(), 0, self._requests.number[job]
        while begin < len(self._changes):
            last, _ = self._changes[min(begin + _BLOCK, len(self._changes)) - 1]
            end = bisect_right(self._changes, max(first, last), key=itemgetter(0))
            changes, past = VnodeChanges.of([self._resolved(*each) for each in self._changes[begin:end]]), 0
            while past >= 0:
                past, placement = self._requests.first_after(number, free, changes, past, first)
                if past >= 0 and self._fits_then(job, int(changes.times[past - 1]), seconds, placement, free):
                    return int(changes.times[past - 1])
            begin = end
        return FOREVER

    def _fits_then(self, job: int, time: int, seconds: int, placement: Placement | None, free: Integers) -> bool:
        """Whether the job leaves what planned starts need; if so, keep its vnodes for :meth:`change`."""
        if plans := self._between(time, time + seconds):
            placement = self._requests.find(self._requests.number[job], _left(free, plans))
        if placement is None or not self._inner.fits(job, time, seconds):
            return False
        self._next = job, time, placement, free
        return True

    def _between(self, start: int, end: int) -> list[tuple[int, Integers]]:
        return [plan for plan in self._planned if start < plan[0] < end]

    def change(self, job: int, sign: int, start: int, end: int) -> None:
        """Give the job its vnodes if it has started, else the first ones that are free then."""
        if sign > 0:
            raise NotImplementedError("no planned start is taken back in PBS's cycle")
        self._inner.change(job, sign, start, end)
        self._found.clear()
        self._lefts.clear()
        if start > self._now:
            placement = self._plan(job, start, end)
            self._insert(start, Placement(placement.vnodes, -placement.amounts))
        else:
            placement = self._machine.placed[job]
        for planned, left in self._planned:
            if start <= planned < end:
                left[:, placement.vnodes] -= placement.amounts
        self._insert(end, placement)

    def _plan(self, job: int, start: int, end: int) -> Placement:
        """Return the vnodes of a planned start; keep what is free then, itself included until :meth:`change`."""
        if self._next is not None and self._next[:2] == (job, start):
            *_, placement, free = self._next
        else:
            free = self._machine.free.copy()
            for each in takewhile(lambda each: each[0] <= start, self._changes):
                _, change = self._resolved(*each)
                free[:, change.vnodes] += change.amounts
            left = _left(free, self._between(start, end))
            placement = self._requests.find(self._requests.number[job], left) or NOWHERE
        insort(self._planned, (start, free), key=itemgetter(0))
        return placement

    def _resolved(self, time: int, of: Placement | int) -> tuple[int, Placement]:
        return time, self._machine.placed[of] if isinstance(of, int) else of

    def _insert(self, time: int, placement: Placement) -> None:
        insort(self._changes, (time, placement), key=itemgetter(0))


def _left(free: Integers, plans: Iterable[tuple[int, Integers]]) -> Integers:
    """Return what is free now and stays free at these planned starts."""
    for _, left in plans:
        free = np.minimum(free, left)
    return free
