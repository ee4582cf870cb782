"""The first vnodes that have enough for a request, now or once running jobs have ended."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softwalltime.core.compiling import kernel
from softwalltime.measure.simulation.simulated_jobs import Integers

_CHUNKS = "int64[::1], int64[:, ::1], boolean, boolean[::1], boolean[::1]"
_VNODES = "int64[:, ::1], int64[:, ::1], int64"
_CHANGES = "int64[::1], int64[::1], int64[::1], int64[:, ::1]"


@kernel(f"Tuple((int64, int64[::1], int64[:, ::1]))({_CHUNKS}, {_VNODES}, {_CHANGES}, int64, int64)")
def first_fit(
    counts: Integers, needs: Integers, scatter: bool, usable: NDArray[np.bool_], whole: NDArray[np.bool_],
    capacity: Integers, free: Integers, time: np.integer[Any],
    times: Integers, bounds: Integers, changed: Integers, by: Integers, begin: int, earliest: int,
) -> tuple[int, Integers, Integers]:  # fmt: skip
    """Find vnodes for all chunks, chunk by chunk in the order of the vnodes (OpenPBS, src/scheduler: node_info.cpp).

    A vnode that the job gets as a whole must be untouched.

    :param counts: the number of chunks of each kind.
    :param needs: what a chunk of each kind needs: a row of processors, memory and GPUs.
    :param scatter: whether a vnode takes one chunk at most.
    :param usable: the vnodes that the job may use; ``whole``: those it gets as a whole.
    :param capacity: what the vnodes have: rows of processors, memory and GPUs.
    :param free: what is left of it at ``time``; it becomes what is left when the job fits.
    :param times: the time of each later change, ascending.  Change ``i`` adds ``by`` to what is free of the vnodes
        ``changed[bounds[i]:bounds[i + 1]]``, which are different ones.
    :param begin: the number of changes that ``free`` already includes.
    :param earliest: the job does not start before this time.
    :return: the number of changes after which the job fits, -1 if it never does; its vnodes, ascending; what it takes
        of each, as rows of resources.
    """
    kinds, vnodes = len(counts), free.shape[1]
    room = np.zeros((kinds, vnodes), np.int64)

    def fitting(kind: int, vnode: int) -> int:
        """Return how many chunks of a kind fit what is left of a vnode, at most as many as there are."""
        chunks = 1 if scatter else counts[kind]
        for resource in range(3):
            need, have = needs[kind, resource], free[resource, vnode]
            if have < need:
                return 0
            # A division takes longer than all else here.
            if need > 0 and have < need * chunks:
                chunks = have // need
        return chunks

    def room_of(kind: int, vnode: int) -> int:
        """Return the same for a vnode from which this job has taken nothing yet; 0 if the job may not use it."""
        # Most vnodes of a busy machine have no free processor.
        if free[0, vnode] < needs[kind, 0] or not usable[vnode]:
            return 0
        if whole[vnode]:
            for resource in range(3):
                if free[resource, vnode] != capacity[resource, vnode]:
                    return 0
        return fitting(kind, vnode)

    def place() -> tuple[bool, Integers, Integers]:
        """Place chunk after chunk; return whether all have a vnode, the vnodes, and what the job takes of each."""
        wanted, taken, uses = counts.copy(), np.zeros((kinds, vnodes), np.int64), np.zeros(vnodes, np.bool_)
        for kind in range(kinds):
            for vnode in range(vnodes):
                if wanted[kind] == 0:
                    break
                if room[kind, vnode] > 0 and not (scatter and uses[vnode]):
                    chunks = min(fitting(kind, vnode), wanted[kind])
                    wanted[kind] -= chunks
                    taken[kind, vnode] = chunks
                    uses[vnode] |= chunks > 0
                    for resource in range(3):
                        free[resource, vnode] -= chunks * needs[kind, resource]
        places = uses.nonzero()[0]
        amounts = np.zeros((3, len(places)), np.int64)
        for position in range(len(places)):
            vnode = places[position]
            for resource in range(3):
                for kind in range(kinds):
                    amounts[resource, position] += taken[kind, vnode] * needs[kind, resource]
                free[resource, vnode] += amounts[resource, position]
                if whole[vnode]:
                    amounts[resource, position] = capacity[resource, vnode]
        return not wanted.any(), places, amounts

    missing = counts.copy()
    known = False
    while True:
        if time >= earliest and (begin == len(times) or times[begin] > time):
            if not known:
                known = True
                for kind in range(kinds):
                    for vnode in range(vnodes):
                        chunks = room_of(kind, vnode)
                        if chunks > 0:
                            room[kind, vnode] = chunks
                            missing[kind] -= chunks
            # Where there is too little for a kind alone, the request does not fit.
            if (missing <= 0).all():
                found, places, amounts = place()
                if found:
                    return begin, places, amounts
        if begin == len(times):
            return -1, np.empty(0, np.int64), np.empty((3, 0), np.int64)
        time = times[begin]
        for position in range(bounds[begin], bounds[begin + 1]):
            vnode = changed[position]
            for resource in range(3):
                free[resource, vnode] += by[resource, position]
            for kind in range(kinds if known else 0):
                chunks = room_of(kind, vnode)
                missing[kind] += room[kind, vnode] - chunks
                room[kind, vnode] = chunks
        begin += 1
