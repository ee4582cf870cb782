"""Advice for users as a document and in sentences: the output of ``softwalltime advise``."""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar

from softwalltime.formatting import duration, percent, printable, walltime
from softwalltime.reports.advice import RequestAdvice, UserAdvice

MERGED = (
    "user", "jobs", "requested_s", "used", "suggested_s", "requested", "suggested", "earlier_s", "earlier_low_s",
    "earlier_high_s", "job_names", "message",
)  # fmt: skip
"""Columns of the mail-merge file."""
LONGEST_NAME = 40
"""Characters of a job name that are printed."""
MIN_PRINTED_SHARE = 0.01
"""Least share of the walltime that is printed as a number."""


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
        """Yield a row for each user and requested walltime."""
        for advice in self.users:
            for request in advice.requests:
                yield {"user": advice.user, **asdict(request)}


def with_messages(advice: Sequence[UserAdvice]) -> tuple[UserAdvice, ...]:
    """Return the advice of users who all follow it in the simulation, with what to tell each of them."""
    return tuple(replace(one, message=_message(one, len(advice))) for one in advice)


def merged(advice: Sequence[UserAdvice]) -> Iterator[tuple[object, ...]]:
    """Yield the rows of the mail-merge file, the user with the most processor-seconds to save first."""
    for one in sorted(advice, key=lambda one: -one.requests[0].saved):
        first, earlier = one.requests[0], one.earlier
        suggested = first.suggested or first.walltime
        seconds = (earlier.mean, earlier.low, earlier.high) if earlier is not None else (None, None, None)
        yield (
            printable(one.user), one.jobs, first.walltime, f"{first.used:.3f}", suggested,
            walltime(first.walltime), walltime(suggested),
            *(None if value is None else round(value) for value in seconds), _names(first), one.message,
        )  # fmt: skip


def _message(advice: UserAdvice, followers: int = 1) -> str:
    """Return what to tell the user, in sentences.

    :param followers: the number of users who follow their advice in the simulation.
    """
    if not advice.suggestions:
        return "No suggestion: no walltime with enough jobs is much longer than the jobs need."
    lines = [_suggestion(suggestion) for suggestion in advice.suggestions]
    earlier = advice.earlier
    if earlier is not None and earlier.mean is not None:
        if (earlier.mean if earlier.low is None else earlier.low) > 0:
            condition = f" if all {followers:,} users with such advice had followed it" if followers > 1 else ""
            between = "" if earlier.low is None or earlier.high is None else (
                f" (95% interval {duration(earlier.low)} to {duration(earlier.high)})"
            )  # fmt: skip
            lines.append(
                f"These jobs would have started {duration(earlier.mean)} earlier in the median{between}{condition}."
            )
        elif earlier.mean == 0 and not earlier.low:
            lines.append("In the simulation these jobs would not have started earlier in the median.")
        else:
            # An interval around 0 would say nothing to a user.
            lines.append("The simulation does not show that these jobs would have started earlier.")
    return " ".join(lines)


def _suggestion(one: RequestAdvice) -> str:
    used = percent(one.used, 0) if one.used >= MIN_PRINTED_SHARE else f"less than {percent(MIN_PRINTED_SHARE, 0)}"
    names = _names(one)
    for_jobs = f" (jobs {names})" if names else ""
    return (
        f"You request {walltime(one.walltime)}{for_jobs} and use {used}; 99% of these jobs ended within "
        f"{duration(one.longest)}: request {walltime(one.suggested or one.walltime)}."
    )


def _names(one: RequestAdvice) -> str:
    """Return the job names for a sentence."""
    return ", ".join(textwrap.shorten(printable(name), LONGEST_NAME, placeholder="...") for name in one.names)
