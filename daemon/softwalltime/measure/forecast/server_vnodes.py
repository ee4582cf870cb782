"""The vnodes of a live server: which are up, and what its running jobs hold of each."""

import re
from collections import Counter
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cache

import numpy as np

from softwalltime.accounting.chunks import chunks_of
from softwalltime.core.jobs import Submission
from softwalltime.measure.forecast.snapshot import LiveJob, VnodeState
from softwalltime.measure.simulation.placement import NOWHERE, Placement, VnodeLayout
from softwalltime.measure.simulation.resources import REQUEST, Vnodes, gets_whole

_DOWN = re.compile(r"\b(down|offline|unknown|stale|provisioning|sleep|maintenance)|(?<!-)\bbusy", re.IGNORECASE)


def is_up(vnode: VnodeState) -> bool:
    """Whether jobs may start on a vnode."""
    return not _DOWN.search(vnode.state)


def vnodes_of(vnodes: Iterable[VnodeState]) -> tuple[Vnodes, ...]:
    """Return the kinds of these vnodes; those without processors are left out."""
    kinds = Counter((vnode.ncpus, vnode.queue, vnode.sharing) for vnode in vnodes if vnode.ncpus)
    return tuple(Vnodes(count, *kind) for kind, count in kinds.items())


def hosts_of(vnodes: Iterable[VnodeState], considered: Collection[str]) -> tuple[Vnodes, ...]:
    """Return the kinds of :func:`hosts`, each with the number of its hosts."""
    kinds = Counter(hosts(vnodes, considered)[0])
    return tuple(replace(kind, count=count) for kind, count in kinds.items())


def hosts(vnodes: Iterable[VnodeState], considered: Collection[str]) -> tuple[list[Vnodes], dict[str, int]]:
    """Return these vnodes, those that jobs share on one host as one, because PBS breaks a chunk across them.

    Vnodes without processors are left out.

    :param considered: resources that the scheduler considers, of memory and GPUs (``mem``, ``ngpus``).
    :return: the hosts, and the position of the host of each vnode by the name of the vnode.
    """
    mem, ngpus = "mem" in considered, "ngpus" in considered
    places: dict[tuple[str, str, str], int] = {}
    named: dict[str, int] = {}
    amounts: list[list[int]] = []
    for vnode in vnodes:
        if vnode.ncpus:
            shared = not vnode.sharing.startswith(("default_excl", "force_excl"))
            key = ((shared and vnode.host) or vnode.name, vnode.queue, vnode.sharing)
            named[vnode.name] = place = places.setdefault(key, len(places))
            amounts += [[0, 0, 0]] * (place == len(amounts))
            more = (vnode.ncpus, vnode.mem * mem, vnode.ngpus * ngpus)
            amounts[place] = [have + each for have, each in zip(amounts[place], more, strict=True)]
    found = [
        Vnodes(1, ncpus, queue, sharing, memory, gpus)
        for (_, queue, sharing), (ncpus, memory, gpus) in zip(places, amounts, strict=True)
    ]
    return found, named


def largest_vnode(vnodes: Iterable[VnodeState], queue: str) -> int:
    """Return the processors of the largest vnode that is up and takes jobs of this queue; 0 if there is none."""
    up = [vnode for vnode in vnodes if is_up(vnode)]
    own = queue if any(vnode.queue == queue for vnode in up) else ""
    return max((kind.ncpus for kind in hosts(up, ())[0] if kind.queue == own), default=0)


MAX_AMOUNT = 1 << 50
"""Maximum amount of a resource that a job holds on a vnode: sums of larger ones could exceed 64 bits."""


def placed_on(exec_vnode: str) -> dict[str, tuple[int, int, int]]:
    """Processors, bytes of memory and GPUs by vnode of a running job; what cannot be read counts as 0.

    >>> placed_on("(n1:ncpus=8:mem=4gb)+(n1:ncpus=2+n2:ncpus=6)")
    {'n1': (10, 4294967296, 0), 'n2': (6, 0, 0)}
    """
    found: dict[str, tuple[int, int, int]] = {}
    for part in re.split(r"[()+]+", exec_vnode):
        name, _, resources = part.partition(":")
        if name:
            ncpus, mem, ngpus = found.setdefault(name, (0, 0, 0))
            with suppress(ValueError):
                more = chunks_of(f"1:ncpus=0:{resources}")[0].resources
                found[name] = (
                    min(ncpus + more[0], MAX_AMOUNT), min(mem + more[1], MAX_AMOUNT), min(ngpus + more[2], MAX_AMOUNT),
                )  # fmt: skip
    return found


class ServerVnodes:
    """The vnodes of a server that are up; ``kinds`` has an entry for each, in the server's order."""

    def __init__(self, vnodes: Iterable[VnodeState], considered: Collection[str]) -> None:
        """:param considered: as in :func:`hosts`."""
        kinds, self._numbers = hosts(filter(is_up, vnodes), considered)
        self.kinds = tuple(kinds)
        self._layout = VnodeLayout(kinds)
        # Thousands of jobs may have the same request.
        self._has_room = cache(self._layout.has_room)

    def held(self, job: LiveJob) -> Placement | None:
        """Return what a running job holds of each vnode; ``None`` if its vnodes are unknown."""
        placed = placed_on(job.exec_vnode)
        amounts: dict[int, list[int]] = {}
        for name, taken in placed.items():
            if (number := self._numbers.get(name)) is not None:
                before = amounts.get(number, [0, 0, 0])
                amounts[number] = [have + more for have, more in zip(before, taken, strict=True)]
                if gets_whole(job.submission.place, self.kinds[number].sharing):
                    amounts[number] = self._layout.capacity[:, number].tolist()
        if not amounts:
            return NOWHERE if placed else None
        return Placement(np.array(list(amounts), np.int64), np.array(list(amounts.values()), np.int64).T.copy())

    def have_room(self, submission: Submission) -> bool:
        """Whether a job could run if all these vnodes were free."""
        return self._has_room(*(getattr(submission, name) for name in REQUEST))
