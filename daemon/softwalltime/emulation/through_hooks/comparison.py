"""The replay through the hooks against the fast one, job by job."""

from dataclasses import dataclass

import numpy as np

from softwalltime.emulation.through_hooks.run import Report
from softwalltime.replay.drive import Outcome
from softwalltime.replay.workload import Workload

SHOWN = 3
"""How many jobs that differ are named."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """How many jobs have another soft walltime than they should, the first of them in words, and whether all is well.

    ``lost`` jobs have none because something was wrong when they were submitted, which is as it should be.
    """

    differing: int
    lost: int
    shown: tuple[str, ...]
    sound: bool


def compare(workload: Workload, report: Report, fast: Outcome) -> Comparison:
    """Whether every event was accepted, every soft walltime valid, and each the one of the fast replay.

    A job that was submitted while a fault lasted may have none instead, but no other one.
    """
    found, expected = report.outcome.soft_walltimes, fast.soft_walltimes
    unequal = found != expected
    lost = unequal & report.disturbed & (found < 0)
    differing = np.flatnonzero(unequal & ~lost).tolist()
    shown = tuple(
        f"job {workload.jobs[number].submission.job_id}: {_words(int(found[number]))} through the hooks, "
        f"{_words(int(expected[number]))} in the fast replay"
        for number in differing[:SHOWN]
    )
    sound = not differing and report.accepted == report.events and not report.invalid
    return Comparison(len(differing), int(lost.sum()), shown, sound)


def _words(seconds: int) -> str:
    return "none" if seconds < 0 else f"{seconds} s"
