"""Options that select jobs of the sources: ``--since --until --queue --user --project``, for several commands."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from softwalltime.errors import SourceError
from softwalltime.formatting import printable

if TYPE_CHECKING:
    from softwalltime.replay.job_columns import JobColumns

_DAY = "%Y-%m-%d"
_TIMES = ("%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S")


@dataclass(frozen=True, slots=True)
class JobSelection:
    """Which jobs of the sources a command uses; ``None`` and empty for all.

    ``since`` and ``until`` bound the submission, in epoch seconds, ``until`` excluded.
    """

    since: int | None = None
    until: int | None = None
    queues: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()
    projects: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return self != JobSelection()

    def __str__(self) -> str:
        parts = [] if self.since is None else [f"submitted since {_written(self.since)}"]
        parts += [] if self.until is None else [f"submitted before {_written(self.until)}"]
        for noun, names in (("queue", self.queues), ("user", self.users), ("project", self.projects)):
            parts += [f"{noun} {' or '.join(sorted(map(printable, names)))}"] if names else []
        return ", ".join(parts)

    def label(self, sources: Sequence[str]) -> str:
        """Name the sources and what is selected of them."""
        return f"{' '.join(sources)} ({self})" if self else " ".join(sources)

    def renamed(self, rename: Callable[[str, str], str]) -> "JobSelection":
        """The same selection with names mapped by ``rename``, to be printed."""
        fields = (("queue", self.queues), ("user", self.users), ("project", self.projects))
        return JobSelection(
            self.since, self.until, *(frozenset(rename(kind, name) for name in names) for kind, names in fields)
        )

    def of(self, jobs: "JobColumns", sources: str) -> "JobColumns":
        """Return the selected jobs.

        :raises SourceError: if there is none.
        """
        if not self:
            return jobs
        # The help of a command does not need numpy, which takes long to import.
        import numpy as np

        submitted = jobs.numbers("submitted")
        chosen = np.ones(len(jobs), np.bool_)
        if self.since is not None:
            chosen &= submitted >= self.since
        if self.until is not None:
            chosen &= submitted < self.until
        for field, names in (("queue", self.queues), ("user", self.users), ("project", self.projects)):
            if names:
                chosen &= np.fromiter((value in names for (value,) in jobs.rows(field)), np.bool_, len(jobs))
        if not chosen.any():
            raise SourceError(f"none of the {len(jobs):,} jobs in {sources} is selected ({self}): correct the options")
        return jobs.select(np.flatnonzero(chosen))


ALL_JOBS = JobSelection()


class Instant(click.ParamType[int]):
    """A day or a time in UTC, as epoch seconds; ``end``: a day means its end."""

    name = "time"

    def __init__(self, *, end: bool = False) -> None:
        self._end = end

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The epoch second, or a usage error."""
        if isinstance(value, int):
            return value
        text = str(value)
        for form in (_DAY, *_TIMES):
            try:
                instant = datetime.strptime(text, form).replace(tzinfo=UTC)
                # A day's end is the beginning of the next one, which the last day of all does not have.
                return int((instant + timedelta(days=self._end and form == _DAY)).timestamp())
            except (ValueError, OverflowError):
                continue
        return self.fail(f"{text!r} is not a day or a time, such as 2026-11-02 or 2026-11-02T08:30 (UTC)", param, ctx)


class Period(click.ParamType[tuple[int, int]]):
    """Two days or times separated by two dots, both days included: epoch seconds, the second one excluded."""

    name = "period"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        """The bounds, or a usage error."""
        if isinstance(value, tuple):
            return value
        first, dots, last = str(value).partition("..")
        if not dots:
            self.fail(f"{value!r} is not a period, such as 2026-01-01..2026-03-31", param, ctx)
        since = Instant().convert(first, param, ctx)
        until = Instant(end=True).convert(last, param, ctx)
        if since >= until:
            self.fail(f"{value!r} ends before it begins", param, ctx)
        return since, until


def selection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that select jobs; pass them as ``selection``."""

    @click.option("--since", type=Instant(), metavar="TIME", help="Only jobs submitted from this day or time on (UTC).")
    @click.option("--until", type=Instant(end=True), metavar="TIME", help="Only jobs submitted up to this day or time.")
    @click.option("--queue", "queues", multiple=True, metavar="NAME", help="Only jobs of this queue; repeatable.")
    @click.option("--user", "users", multiple=True, metavar="NAME", help="Only jobs of this user; repeatable.")
    @click.option("--project", "projects", multiple=True, metavar="NAME", help="Only of this project; repeatable.")
    @wraps(command)
    def wrapped(
        *args: Any, since: int | None, until: int | None, queues: tuple[str, ...], users: tuple[str, ...],
        projects: tuple[str, ...], **kwargs: Any,
    ) -> Any:  # fmt: skip
        chosen = JobSelection(since, until, frozenset(queues), frozenset(users), frozenset(projects))
        return command(*args, selection=chosen, **kwargs)

    return wrapped


def _written(epoch: int) -> str:
    moment = datetime.fromtimestamp(epoch, UTC)
    return moment.strftime(_DAY if epoch % 86400 == 0 else "%Y-%m-%d %H:%M")
