"""A machine of vnodes with several resources: jobs are placed by their ``select`` and ``place``, as PBS places them.

A job can wait although enough processors are free, because they are on the wrong vnodes: fragmentation.
"""

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from softwalltime.accounting.conversions import size, whole
from softwalltime.core.errors import SourceError, UsageError
from softwalltime.core.jobs import Submission
from softwalltime.measure.simulation.machine import FOREVER, Calendar
from softwalltime.measure.simulation.simulated_jobs import Integers, Jobs

Resources = tuple[int, int, int]
"""Processors, bytes of memory, GPUs."""
_UNLIMITED = 1 << 60
"""Bytes of memory of a vnode whose memory is not known."""
DOWN = re.compile(r"\b(down|offline|unknown|stale|provisioning|sleep)")
_SHARES = 1 << 20
"""A further column: a chunk that shares its vnode takes one share, an exclusive job takes all shares of a vnode."""


@dataclass(frozen=True, slots=True)
class Vnode:
    """One vnode: its host and how much it has."""

    host: str
    resources: Resources


@dataclass(frozen=True, slots=True)
class Chunks:
    """A number of equal chunks with the resources of each."""

    count: int
    resources: Resources


class ResourceRequest(NamedTuple):
    """A job's request: chunks, their arrangement (free, pack, scatter, vscatter), exclusive use of vnodes."""

    chunks: tuple[Chunks, ...]
    arrangement: str
    exclusive: bool


Placement = tuple[Integers, Integers]
"""Positions of vnodes, and what the job takes of each: one row per vnode, one column per resource and the shares."""


def request_of(job: Submission) -> ResourceRequest:
    """Return a job's request; without a readable ``select``: ``nodect`` equal chunks, or chunks of one processor."""
    totals = (job.ncpus or 1, job.nodect or 0, job.mem or 0, job.ngpus or 0)
    try:
        return _request(job.select, job.place, *totals)
    except ValueError:
        return _request("", job.place, *totals)


@lru_cache(maxsize=1 << 16)
def _request(select: str, place: str, ncpus: int, nodect: int, mem: int, ngpus: int) -> ResourceRequest:
    words = place.replace(":", " ").split()
    arrangement = next((word for word in words if word in ("free", "pack", "scatter", "vscatter")), "free")
    exclusive = any(word in ("excl", "exclhost") for word in words)
    if select:
        return ResourceRequest(tuple(map(_chunks, select.split("+"))), arrangement, exclusive)
    count = nodect if 1 < nodect <= ncpus else ncpus
    per_chunk = (-(-ncpus // count), mem // count, -(-ngpus // count))
    return ResourceRequest((Chunks(count, per_chunk),), arrangement, exclusive)


def _chunks(text: str) -> Chunks:
    """Chunks as in ``2:ncpus=4:mem=8gb``; a chunk without ``ncpus`` has one; resources that vnodes lack are ignored."""
    first, *rest = text.split(":") if "=" not in text.partition(":")[0] else ["1", *text.split(":")]
    count = whole(first)
    given = dict(part.partition("=")[::2] for part in rest)
    resources = (whole(given.get("ncpus", "1")), size(given.get("mem", "0")), whole(given.get("ngpus", "0")))
    if min(count, *resources) < 0:
        raise ValueError("a number is negative")
    return Chunks(count, resources)


def vnodes_of(text: str) -> tuple[Vnode, ...]:
    """Vnodes from a description such as ``100:ncpus=32:mem=128gb+4:ncpus=64:mem=1tb:ngpus=4``; each is its own host.

    :raises UsageError: if it cannot be read.
    """
    vnodes: list[Vnode] = []
    try:
        for kind in map(_chunks, text.split("+")):
            resources = (kind.resources[0], kind.resources[1] or _UNLIMITED, kind.resources[2])
            first = len(vnodes)
            vnodes += [Vnode(f"vnode{first + index}", resources) for index in range(kind.count)]
    except ValueError as error:
        example = "100:ncpus=32:mem=128gb+4:ncpus=64:ngpus=4"
        raise UsageError(f"{text!r}: {error}: describe the vnodes as in {example}") from error
    if not vnodes:
        raise UsageError(f"{text!r}: a machine needs at least one vnode")
    return tuple(vnodes)


def read_vnodes(path: Path) -> tuple[Vnode, ...]:
    """The vnodes of a PBS server that are up, from the output of ``pbsnodes -a -F json``.

    A resource that a vnode does not have set is 0, but memory is unlimited then.

    :raises SourceError: if the file cannot be read, or is not such output.
    """
    wanted = "save the output of pbsnodes -a -F json there"
    try:
        # Real servers write control characters into strings.
        nodes = json.loads(path.read_text(encoding="utf-8", errors="replace"), strict=False)["nodes"]
        vnodes = tuple(_vnode(name, node) for name, node in nodes.items() if not DOWN.search(str(node.get("state"))))
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SourceError(f"{path}: not a list of vnodes in JSON: {wanted}") from error
    if not vnodes:
        raise SourceError(f"{path}: no vnode is up: {wanted}")
    return vnodes


def _vnode(name: str, node: dict[str, Any]) -> Vnode:
    has = node.get("resources_available", {})
    memory = size(str(has["mem"])) if "mem" in has else _UNLIMITED
    return Vnode(str(has.get("host", name)), (whole(str(has.get("ncpus", 0))), memory, whole(str(has.get("ngpus", 0)))))


def that_fit(vnodes: Sequence[Vnode], jobs: Jobs) -> tuple[Jobs, int]:
    """The jobs that the empty machine can run, and the number of jobs that it refuses."""
    machine = Vnodes(vnodes, jobs)
    kinds = {machine.kind(job): job for job in range(len(jobs))}
    possible = {kind for kind, job in kinds.items() if machine.fits(job)}
    chosen = [job for job in range(len(jobs)) if machine.kind(job) in possible]
    return jobs.chosen(chosen), len(jobs) - len(chosen)


class Vnodes:
    def __init__(self, vnodes: Sequence[Vnode], jobs: Jobs) -> None:
        self._requests = [request_of(job.submission) for job in jobs.completed]
        hosts: dict[str, int] = {}
        self._host = np.array([hosts.setdefault(vnode.host, len(hosts)) for vnode in vnodes], np.int64)
        self._free = np.array([(*vnode.resources, _SHARES) for vnode in vnodes], np.int64).reshape(-1, 4)
        self.placements: dict[int, Placement] = {}
        """Where each running job is."""
        self.planned: dict[int, Placement] = {}
        """Where a job is to be placed if it is started now."""

    def fits(self, job: int) -> bool:
        return self.place(job, self._free) is not None

    def allocate(self, job: int) -> None:
        """Give the job its vnodes: those that the last calendar found for it, else the first ones."""
        placement = self.planned.pop(job, None) or self.place(job, self._free)
        if placement is None:
            raise ValueError(f"job {job} does not fit")
        self._free[placement[0]] -= placement[1]
        self.placements[job] = placement

    def release(self, job: int) -> None:
        vnodes, taken = self.placements.pop(job)
        self._free[vnodes] += taken

    def kind(self, job: int) -> Hashable:
        return self._requests[job]

    def calendar(self, now: int, ends: Iterable[tuple[int, int]]) -> "VnodeCalendar":
        self.planned.clear()
        return VnodeCalendar(self, now, self._free.copy(), ends)

    def place(self, job: int, free: Integers) -> Placement | None:
        """Where a job can be placed, if it can.

        Chunks take vnodes in their order, the first that fits.  ``pack``: all on the first host that can take them;
        ``scatter``: each on another host; ``vscatter``: each on another vnode.
        """
        request = self._requests[job]
        if request.arrangement != "pack":
            return _placed(request, free, np.arange(len(free)), self._host)
        hosts = ((self._host == host).nonzero()[0] for host in range(int(self._host.max()) + 1))
        placements = (_placed(request, free, vnodes, self._host) for vnodes in hosts)
        return next((placement for placement in placements if placement is not None), None)


def _placed(request: ResourceRequest, free: Integers, vnodes: Integers, hosts: Integers) -> Placement | None:
    left = free[vnodes]
    if request.exclusive:
        # A vnode that another job uses has nothing for an exclusive one.
        left = np.where(left[:, 3:] == _SHARES, left, 0)
    taken = np.zeros_like(left)
    used = np.zeros(len(vnodes), np.bool_)
    for chunks in request.chunks:
        need = np.array((*chunks.resources, 1), np.int64)
        needed = need > 0
        capacity = ((left - taken)[:, needed] // need[needed]).min(axis=1)
        if request.arrangement in ("scatter", "vscatter"):
            capacity = np.minimum(capacity, ~used)
            if request.arrangement == "scatter":
                # On a host with several vnodes, the first vnode with enough free resources is used.
                usable = capacity.nonzero()[0]
                blocked = set(hosts[vnodes[used]].tolist())
                # Later ones are overwritten by earlier ones.
                first = dict(zip(hosts[vnodes[usable]][::-1].tolist(), usable[::-1].tolist(), strict=True))
                capacity[:] = 0
                capacity[[index for host, index in first.items() if host not in blocked]] = 1
        before = np.cumsum(capacity) - capacity
        count = np.clip(chunks.count - before, 0, capacity)
        if int(count.sum()) < chunks.count:
            return None
        taken += count[:, None] * need
        used |= count > 0
    if request.exclusive:
        taken[used, 3] = _SHARES
    return vnodes[used], taken[used]


class VnodeCalendar(Calendar):
    """The plan of each vnode: ``free[i]`` applies from ``times[i]`` to the next time."""

    def __init__(self, machine: Vnodes, now: int, free: Integers, ends: Iterable[tuple[int, int]]) -> None:
        self._machine = machine
        self.times = [now]
        self.free = [free]
        self._planned: dict[int, Placement] = {}
        for end, job in ends:
            vnodes, taken = machine.placements.get(job) or (np.zeros(0, np.int64), np.zeros((0, 4), np.int64))
            if end != self.times[-1]:
                self.times.append(end)
                self.free.append(self.free[-1].copy())
            self.free[-1][vnodes] += taken

    def earliest(self, job: int, seconds: int) -> int:
        return next((time for time in self.times if self.fits(job, time, seconds)), FOREVER)

    def fits(self, job: int, start: int, seconds: int) -> bool:
        """Whether the job can stay in one place from ``start`` for so long; a start now is planned there."""
        placement = self._machine.place(job, self._least(start, start + seconds))
        if placement is None:
            return False
        self._planned[job] = placement
        if start == self.times[0]:
            self._machine.planned[job] = placement
        return True

    def _least(self, start: int, end: int) -> Integers:
        first, last = bisect_right(self.times, start) - 1, bisect_left(self.times, end)
        result: Integers = np.minimum.reduce(self.free[max(first, 0) : last])
        return result

    def change(self, job: int, sign: int, start: int, end: int) -> None:
        """Change the vnodes where the job runs, or those that :meth:`fits` found last."""
        vnodes, taken = self._machine.placements.get(job) or self._planned[job]
        taken = sign * taken
        for time in (start, end):
            if time not in self.times:
                after = int(np.searchsorted(self.times, time))
                self.times.insert(after, time)
                self.free.insert(after, self.free[after - 1].copy())
        for index, time in enumerate(self.times):
            if start <= time < end:
                self.free[index][vnodes] += taken
