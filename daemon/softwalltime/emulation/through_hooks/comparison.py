"""The replay through the hooks against the fast one, job by job."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from softwalltime.emulation.through_hooks.run import EmulationResult
from softwalltime.replay.fast_replay import ReplayResult
from softwalltime.replay.workload import Workload

SHOWN = 3
"""Maximum number of named jobs that differ."""

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Number of soft walltimes that differ from the fast replay's, descriptions of the first ones, and the verdict.

    ``lost`` soft walltimes are missing because of a fault at that time, which is no error.
    """

    differing: int
    lost: int
    shown: tuple[str, ...]
    sound: bool


def compare(
    workload: Workload,
    result: EmulationResult,
    fast: ReplayResult,
    *,
    at_start: bool = True,
    ordering: Integers | None = None,
) -> Comparison:
    """Whether every event was accepted, every soft walltime valid, and each the one of the fast replay.

    A job that was submitted, or started, while a fault lasted may have none instead, but no other one.  The fast replay
    knows no alters, so jobs that were altered while they waited are not compared at their start.

    :param at_start: compare the soft walltimes from the start on too; not for the policy ``keep``, under which these
        are what the hook had set before.
    :param ordering: the ordering values of the fast replay.  During a fault the hook sets none.
    """
    replayed = result.replayed
    different, lost = _differing(replayed.soft_walltimes, fast.soft_walltimes, result.disturbed)
    shown = _shown(workload, different, replayed.soft_walltimes, fast.soft_walltimes, "")
    if at_start:
        later, lost_later = _differing(replayed.at_start, fast.at_start, result.disturbed_at_start, ~result.altered)
        shown += _shown(workload, later, replayed.at_start, fast.at_start, " at its start")
        different, lost = different + later, lost + lost_later
    if ordering is not None:
        order, lost_order = _differing(result.ordering, ordering, result.disturbed)
        shown += _shown(workload, order, result.ordering, ordering, " as ordering value")
        different, lost = different + order, lost + lost_order
    sound = not different and result.accepted == result.events and not result.invalid
    return Comparison(len(different), lost, tuple(shown[:SHOWN]), sound)


def _differing(
    found: Integers, expected: Integers, disturbed: Flags, compared: Flags | bool = True
) -> tuple[list[int], int]:
    """Return the jobs that differ without a fault, and the number of values lost by a fault."""
    unequal = (found != expected) & compared
    lost = unequal & disturbed & (found < 0)
    return np.flatnonzero(unequal & ~lost).tolist(), int(lost.sum())


def _shown(workload: Workload, different: list[int], found: Integers, expected: Integers, when: str) -> list[str]:
    return [
        f"job {workload.jobs[number].submission.job_id}: {_words(int(found[number]))}{when} through the hooks, "
        f"{_words(int(expected[number]))} in the fast replay"
        for number in different[:SHOWN]
    ]


def _words(seconds: int) -> str:
    return "none" if seconds < 0 else f"{seconds} s"
