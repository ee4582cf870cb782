"""Advice for users: sufficient shorter walltimes, and how much earlier their jobs would have started."""

import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np

from softwalltime.core import formatting
from softwalltime.core.formatting import duration, percent, printable
from softwalltime.core.shorter_walltimes import QUANTILE, shorter_walltime
from softwalltime.measure.simulation.differences import Interval, interval
from softwalltime.measure.simulation.engine import simulate
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.shaking import shaken, suitable_shake
from softwalltime.measure.simulation.simulated_jobs import Integers, Jobs

MAX_NAMES = 3
"""Maximum job names to show for a walltime."""


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
    """Processor-seconds requested in excess of the suggestion."""
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
    """The requested walltimes, the one with the greatest saving first."""
    earlier: Interval | None = None
    """Median seconds by which the jobs would have started earlier; null: not simulated."""
    message: str = ""
    """Message for the user."""

    @property
    def suggestions(self) -> tuple[RequestAdvice, ...]:
        return tuple(entry for entry in self.requests if entry.suggested is not None)


def advise_users(jobs: Jobs) -> dict[str, UserAdvice]:
    groups: dict[str, dict[int, list[int]]] = {}
    names = list(jobs.completed.values("job_name"))
    for index, (user, walltime) in enumerate(jobs.completed.rows("user", "walltime")):
        # Jobs without a requested walltime get no advice.
        if walltime:
            groups.setdefault(user, {}).setdefault(walltime, []).append(index)
    runtime = np.minimum(jobs.runtime, jobs.walltime).astype(np.int64)
    size = np.array(jobs.processors, np.float64)
    advice_by_user = {}
    for user, requests in groups.items():
        advice = [
            _advise(walltime, runtime[which], size[which], Counter(names[index] for index in which))
            for walltime, which in requests.items()
        ]
        ordered = tuple(sorted(advice, key=lambda entry: (-entry.saved, -entry.jobs, entry.walltime)))
        advice_by_user[user] = UserAdvice(user, sum(map(len, requests.values())), ordered)
    return advice_by_user


def measure_earlier_starts(
    jobs: Jobs, processors: int, advice: Sequence[UserAdvice], order: str, seeds: Sequence[int],
    progress: Callable[[int], None] = lambda _: None,
) -> dict[str, Interval]:  # fmt: skip
    """Return by how many seconds each user's jobs start earlier if all these users follow their advice.

    The median over the jobs whose walltime changes, as mean over shaken workloads with its 95% interval.  A job that
    ran longer than the suggestion keeps its walltime.

    :param order: the site's queue order; backfilling is EASY, with walltimes.
    """
    changed = replace(jobs, walltime=_followed(jobs, advice))
    policy, shake = SchedulerPolicy(order=order), suitable_shake(jobs)
    medians: dict[str, list[float]] = {entry.user: [] for entry in advice}
    for seed in seeds:
        before, after = shaken(jobs, shake, seed), shaken(changed, shake, seed)
        starts, sooner = (simulate(workload, processors, policy, progress).start for workload in (before, after))
        shorter = np.array(after.walltime) < np.array(before.walltime)
        users = np.array([user for (user,) in before.completed.rows("user")])
        for user, advice_by_user in medians.items():
            mine = (starts - sooner)[shorter & (users == user)]
            if len(mine):
                advice_by_user.append(float(np.median(mine)))
    return {user: interval(advice_by_user) for user, advice_by_user in medians.items()}


def _advise(walltime: int, runtime: Integers, size: np.ndarray, names: Counter[str]) -> RequestAdvice:
    """:param runtime: of the jobs with this walltime, in order of submission, at most the walltime."""
    shorter = shorter_walltime(walltime, runtime.tolist())
    return RequestAdvice(
        walltime, len(runtime), float(runtime.mean() / walltime), float(np.quantile(runtime, QUANTILE)),
        shorter.seconds, shorter.reason, shorter.killed,
        0.0 if shorter.seconds is None else float(size.sum() * (walltime - shorter.seconds)),
        tuple(name for name, _ in names.most_common(MAX_NAMES + 1) if name)[:MAX_NAMES],
    )  # fmt: skip


def _followed(jobs: Jobs, advice: Sequence[UserAdvice]) -> tuple[int, ...]:
    """Return the jobs' walltimes if these users follow their advice."""
    suggested = {(entry.user, request.walltime): request.suggested for entry in advice for request in entry.requests}
    walltimes = list(jobs.walltime)
    for index, (user,) in enumerate(jobs.completed.rows("user")):
        new = suggested.get((user, walltimes[index]))
        if new is not None and jobs.runtime[index] <= new:
            walltimes[index] = new
    return tuple(walltimes)


MERGED = (
    "user", "jobs", "requested_s", "used", "suggested_s", "requested", "suggested", "earlier_s", "earlier_low_s",
    "earlier_high_s", "job_names", "message",
)  # fmt: skip
"""Columns of the mail-merge file."""
MAX_NAME_CHARS = 40
"""Maximum printed characters of a job name."""
MIN_PRINTED_SHARE = 0.01
"""Minimum share of the walltime that is printed as a number."""


@dataclass(frozen=True, slots=True)
class AdviseDocument:
    """Shorter walltimes that would have been enough."""

    COLUMNS: ClassVar = ("user", *(field.name for field in fields(RequestAdvice)))

    processors: int
    """Size of the simulated machine."""
    estimated: bool
    """Whether the size was estimated from the log."""
    jobs: int
    """Number of jobs."""
    order: str
    """Order of the queue."""
    seeds: tuple[int, ...]
    """The shaken workloads."""
    users: tuple[UserAdvice, ...]
    """The advice, by user."""

    def rows(self) -> Iterator[dict[str, Any]]:
        for advice in self.users:
            for request in advice.requests:
                yield {"user": advice.user, **asdict(request)}


def with_messages(advice: Sequence[UserAdvice]) -> tuple[UserAdvice, ...]:
    """Return the advice with a message for each user; in the simulation all users follow it."""
    return tuple(replace(entry, message=_message(entry, len(advice))) for entry in advice)


def merged(advice: Sequence[UserAdvice]) -> Iterator[tuple[object, ...]]:
    """Yield the rows of the mail-merge file, the user with the most processor-seconds to save first."""
    for entry in sorted(advice, key=lambda entry: -entry.requests[0].saved):
        first, earlier = entry.requests[0], entry.earlier
        suggested = first.suggested or first.walltime
        seconds = (earlier.mean, earlier.low, earlier.high) if earlier is not None else (None, None, None)
        yield (
            printable(entry.user), entry.jobs, first.walltime, f"{first.used:.3f}", suggested,
            formatting.walltime(first.walltime), formatting.walltime(suggested),
            *(None if value is None else round(value) for value in seconds), _names(first), entry.message,
        )  # fmt: skip


def _message(advice: UserAdvice, followers: int = 1) -> str:
    """Return the message for a user.

    :param followers: the number of users who follow their advice in the simulation.
    """
    if not advice.suggestions:
        return "No suggestion: no walltime with enough jobs is much longer than the jobs need."
    lines = [_suggestion(suggestion) for suggestion in advice.suggestions]
    earlier = advice.earlier
    if earlier is not None and earlier.mean is not None:
        if (earlier.mean if earlier.low is None else earlier.low) > 0:
            condition = f" if all {followers:,} users with such advice had followed it" if followers > 1 else ""
            ends = f"{duration(earlier.low)} to {duration(earlier.high)}"
            between = "" if earlier.low is None else f" (95% interval {ends})"
            lines.append(
                f"These jobs would have started {duration(earlier.mean)} earlier in the median{between}{condition}."
            )
        elif earlier.mean == 0 and not earlier.low:
            lines.append("In the simulation these jobs would not have started earlier in the median.")
        else:
            # Omit a gain whose interval includes 0.
            lines.append("The simulation does not show that these jobs would have started earlier.")
    return " ".join(lines)


def _suggestion(entry: RequestAdvice) -> str:
    used = percent(entry.used, 0) if entry.used >= MIN_PRINTED_SHARE else f"less than {percent(MIN_PRINTED_SHARE, 0)}"
    names = _names(entry)
    for_jobs = f" (jobs {names})" if names else ""
    return (
        f"You request {formatting.walltime(entry.walltime)}{for_jobs} and use {used}; 99% of these jobs ended within "
        f"{duration(entry.longest)}: request {formatting.walltime(entry.suggested or entry.walltime)}."
    )


def _names(entry: RequestAdvice) -> str:
    return ", ".join(textwrap.shorten(printable(name), MAX_NAME_CHARS, placeholder="...") for name in entry.names)
