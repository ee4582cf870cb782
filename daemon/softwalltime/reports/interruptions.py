"""Days after a switch on which a plan's policy was not in force: it was off, or another one was set.

The daemon's decisions on submissions say so where they are stored: their mode, predictor, and whether they order the
queue.  Without them the accounting log does, if the plan sets soft walltimes: on days when it is off, jobs have none.
A day belongs to what most of its submissions of users with the policy say.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from softwalltime.formatting import DAY, day
from softwalltime.jobs import SubmissionDecisions
from softwalltime.policy.plan_file import Plan
from softwalltime.policy.presets import PRESETS
from softwalltime.policy.site import WALLTIME, SitePolicy, site_policy, user_rank
from softwalltime.replay.job_columns import JobColumns

_IN_FORCE, _OFF, _ANOTHER = "", "the policy was off", "another policy was set"


@dataclass(frozen=True, slots=True)
class PolicyGap:
    """Days on which the policy was not in force, from midnight to midnight UTC in epoch seconds, and why."""

    since: int
    until: int
    why: str

    def __str__(self) -> str:
        """Return a sentence."""
        first, last = day(self.since), day(self.until - 1)
        return f"{self.why} on {first}" if first == last else f"{self.why} from {first} to {last}"


def interruptions(plan: Plan, share: float, decisions: Iterable[SubmissionDecisions]) -> Sequence[PolicyGap]:
    """Return the interruptions by decisions since the switch, in order of time.

    :param share: of the users who have the policy.
    """
    policy = _policy(plan)
    days: dict[int, Counter[str]] = defaultdict(Counter)
    for found in decisions:
        if user_rank(found.user) < share:
            days[found.day][_state(found, policy)] += found.count
    merged: list[PolicyGap] = []
    before = _IN_FORCE
    for start, states in sorted(days.items()):
        # Rules may switch some jobs off, or give them another predictor.
        most = max(states, key=lambda state: (states[state], state == _IN_FORCE))
        if most != _IN_FORCE and most == before:
            merged[-1] = replace(merged[-1], until=start + DAY)
        elif most != _IN_FORCE:
            merged.append(PolicyGap(start, start + DAY, most))
        before = most
    return merged


def recorded_decisions(jobs: JobColumns, plan: Plan, since: int) -> Iterator[SubmissionDecisions]:
    """Yield what the accounting log says of the policy at each submission; nothing if it would not show.

    :param since: when the policy was switched on, epoch seconds.
    """
    policy = _policy(plan)
    jobs = jobs.select(np.flatnonzero(jobs.numbers("submitted") >= since))
    soft = jobs.numbers("soft_walltime")
    if policy.waiting == WALLTIME or not (soft > 0).any():
        return
    for submitted, seconds, (user,) in zip(jobs.numbers("submitted").tolist(), soft, jobs.rows("user"), strict=True):
        mode = "on" if seconds > 0 else "off"
        ordered = policy.ordering is not None
        yield SubmissionDecisions(submitted - submitted % DAY, user, mode, policy.waiting, ordered=ordered, count=1)


def _policy(plan: Plan) -> SitePolicy:
    policy = site_policy(plan.policy.values())
    unguarded = PRESETS[policy.preset].needs_guard and plan.live.mode != "on"
    return policy.model_copy(update={"waiting": WALLTIME}) if unguarded else policy


def _state(found: SubmissionDecisions, policy: SitePolicy) -> str:
    if found.mode != "on":
        return _OFF
    same = found.predictor == policy.waiting and found.ordered == (policy.ordering is not None)
    return _IN_FORCE if same else _ANOTHER
