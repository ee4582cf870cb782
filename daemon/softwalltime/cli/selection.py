"""Options that select jobs of the sources: ``--since --until --queue --user --project``, for several commands."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from softwalltime.cli.parameters import option, options
from softwalltime.core.formatting import printable

if TYPE_CHECKING:
    from softwalltime.measure.replay.job_columns import JobColumns


def instant(value: str, *, end: bool = False) -> int:
    """Return epoch seconds of a day or time in UTC, or fail with a usage error; ``end``: a day means its end."""
    try:
        instant = datetime.fromisoformat(value)
        # A day's end is the beginning of the next one, which the last day of all does not have.
        instant += timedelta(days=end and len(value) <= len("2026-11-02"))
        return int((instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        text = f"{value!r} is not a day or a time, such as 2026-11-02 or 2026-11-02T08:30 (UTC)"
        raise click.BadParameter(text) from None


def period(value: str) -> tuple[int, int]:
    """Return epoch seconds of two days or times separated by two dots, the second one excluded; its day is included."""
    first, dots, last = value.partition("..")
    if not dots:
        raise click.BadParameter(f"{value!r} is not a period, such as 2026-01-01..2026-03-31")
    since, until = instant(first), instant(last, end=True)
    if since >= until:
        raise click.BadParameter(f"{value!r} ends before it begins")
    return since, until


SINCE = option("Only jobs submitted from this day or time on (UTC).", type=instant, metavar="TIME")
UNTIL = option("Only jobs submitted up to this day or time.", type=lambda text: instant(text, end=True), metavar="TIME")


@options
class JobSelection:
    """Which jobs of the sources a command uses: a group of options; ``None`` and empty for all.

    ``since`` and ``until`` bound the submission, in epoch seconds, ``until`` excluded.
    """

    since: int | None = SINCE
    until: int | None = UNTIL
    queues: frozenset[str] = option("Only jobs of this queue; repeatable.", "--queue", metavar="NAME")
    users: frozenset[str] = option("Only jobs of this user; repeatable.", "--user", metavar="NAME")
    projects: frozenset[str] = option("Only of this project; repeatable.", "--project", metavar="NAME")

    def __bool__(self) -> bool:
        return self != JobSelection()

    def __str__(self) -> str:
        parts = [] if self.since is None else [f"submitted since {_written(self.since)}"]
        parts += [] if self.until is None else [f"submitted before {_written(self.until)}"]
        for noun, names in (("queue", self.queues), ("user", self.users), ("project", self.projects)):
            parts += [f"{noun} {' or '.join(sorted(map(printable, names)))}"] if names else []
        return ", ".join(parts)

    def renamed(self, rename: Callable[[str, str], str]) -> "JobSelection":
        """The same selection with names mapped by ``rename``, to be printed."""
        by_kind = {"queue": self.queues, "user": self.users, "project": self.projects}
        queues, users, projects = (frozenset(rename(kind, name) for name in names) for kind, names in by_kind.items())
        return replace(self, queues=queues, users=users, projects=projects)

    def part_of(self, jobs: "JobColumns") -> "JobColumns":
        """Return the selected ones of these jobs, perhaps none."""
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
        return jobs.select(np.flatnonzero(chosen))


ALL_JOBS = JobSelection()


def _written(epoch: int) -> str:
    moment = datetime.fromtimestamp(epoch, UTC)
    return moment.strftime("%Y-%m-%d" if epoch % 86400 == 0 else "%Y-%m-%d %H:%M")
