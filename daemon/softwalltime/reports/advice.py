"""Advice for users: a shorter walltime that would have been enough, and how much earlier jobs would have started."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from softwalltime.shorter_walltimes import QUANTILE, shorter_walltime
from softwalltime.simulation.differences import Interval, interval
from softwalltime.simulation.engine import simulate
from softwalltime.simulation.jobs import Integers, Jobs
from softwalltime.simulation.policies import SchedulerPolicy
from softwalltime.simulation.shaking import shaken, suitable_shake

MOST_NAMES = 3
"""Job names by which a user recognises the jobs with one walltime."""


@dataclass(frozen=True, slots=True)
class RequestAdvice:
    """A user's jobs with one requested walltime."""

    walltime: int
    """The requested walltime in seconds."""
    jobs: int
    """Number of jobs."""
    used: float
    """Mean share of the walltime that the jobs used."""
    longest: float
    """99th percentile of the runtimes in seconds."""
    suggested: int | None
    """The suggested walltime in seconds; null: none."""
    reason: str
    """Why there is no suggestion."""
    killed: float
    """Share of the newer half of the jobs that ran longer than a suggestion made from the older half."""
    saved: float
    """Processor-seconds that would not have been requested."""
    names: tuple[str, ...] = ()
    """The most frequent job names, at most three."""


@dataclass(frozen=True, slots=True)
class UserAdvice:
    """A user's requests."""

    user: str
    """Name of the user."""
    jobs: int
    """Number of jobs."""
    requests: tuple[RequestAdvice, ...]
    """The requested walltimes, the one with most to save first."""
    earlier: Interval | None = None
    """Median seconds by which the jobs would have started earlier; null: not simulated."""
    message: str = ""
    """What to tell the user."""

    @property
    def suggestions(self) -> tuple[RequestAdvice, ...]:
        """The requests for which a shorter walltime is suggested."""
        return tuple(one for one in self.requests if one.suggested is not None)


def advise_users(jobs: Jobs) -> dict[str, UserAdvice]:
    """Return the advice for each user by name."""
    groups: dict[str, dict[int, list[int]]] = {}
    names = list(jobs.completed.values("job_name"))
    for index, (user, walltime) in enumerate(jobs.completed.rows("user", "walltime")):
        # Nothing shorter can be advised to who requests no walltime.
        if walltime:
            groups.setdefault(user, {}).setdefault(walltime, []).append(index)
    runtime = np.minimum(jobs.runtime, jobs.walltime).astype(np.int64)
    size = np.array(jobs.processors, np.float64)
    found = {}
    for user, requests in groups.items():
        advice = [
            _advise(walltime, runtime[which], size[which], Counter(names[index] for index in which))
            for walltime, which in requests.items()
        ]
        ordered = tuple(sorted(advice, key=lambda one: (-one.saved, -one.jobs, one.walltime)))
        found[user] = UserAdvice(user, sum(map(len, requests.values())), ordered)
    return found


def measure_earlier_starts(
    jobs: Jobs,
    processors: int,
    advice: Sequence[UserAdvice],
    order: str,
    seeds: Sequence[int],
    progress: Callable[[int], None] = lambda _: None,
) -> dict[str, Interval]:
    """Return by how many seconds each user's jobs start earlier if all these users follow their advice.

    The median over the jobs whose walltime changes, as mean over shaken workloads with its 95% interval.  A job that
    ran longer than the suggestion keeps its walltime.

    :param order: the site's queue order; backfilling is EASY, with walltimes.
    :param progress: called with the number of simulated jobs since the last call.
    """
    changed = replace(jobs, walltime=tuple(_followed(jobs, advice).tolist()))
    policy, shake = SchedulerPolicy(order=order), suitable_shake(jobs)
    medians: dict[str, list[float]] = {one.user: [] for one in advice}
    for seed in seeds:
        before, after = shaken(jobs, shake, seed), shaken(changed, shake, seed)
        gain = (
            simulate(before, processors, policy, progress).start - simulate(after, processors, policy, progress).start
        )
        shorter = np.array(after.walltime) < np.array(before.walltime)
        users = np.array([user for (user,) in before.completed.rows("user")])
        for user, found in medians.items():
            mine = gain[shorter & (users == user)]
            if len(mine):
                found.append(float(np.median(mine)))
    return {user: interval(found) for user, found in medians.items()}


def _advise(walltime: int, runtime: Integers, size: np.ndarray, names: Counter[str]) -> RequestAdvice:
    """:param runtime: of the jobs with this walltime, in order of submission, at most the walltime."""
    jobs = len(runtime)
    used, longest = float(runtime.mean() / walltime), float(np.quantile(runtime, QUANTILE))
    frequent = tuple(name for name, _ in names.most_common(MOST_NAMES + 1) if name)[:MOST_NAMES]
    shorter = shorter_walltime(walltime, runtime.tolist())
    saved = 0.0 if shorter.seconds is None else float(size.sum() * (walltime - shorter.seconds))
    return RequestAdvice(
        walltime, jobs, used, longest, shorter.seconds, shorter.reason, shorter.killed, saved, frequent
    )


def _followed(jobs: Jobs, advice: Sequence[UserAdvice]) -> Integers:
    """The walltimes of all jobs if these users follow their advice."""
    suggested: Mapping[tuple[str, int], int] = {
        (one.user, request.walltime): request.suggested
        for one in advice
        for request in one.suggestions
        if request.suggested is not None
    }
    walltimes = np.array(jobs.walltime, np.int64)
    for index, (user,) in enumerate(jobs.completed.rows("user")):
        new = suggested.get((user, jobs.walltime[index]))
        if new is not None and jobs.runtime[index] <= new:
            walltimes[index] = new
    return walltimes
