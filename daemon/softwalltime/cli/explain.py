"""``softwalltime explain``: ask the daemon about a job that is not submitted."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import click

from softwalltime.accounting.conversions import clock, duration
from softwalltime.cli.command import Result, command
from softwalltime.cli.daemon import DaemonOptions
from softwalltime.cli.output import Output
from softwalltime.cli.parameters import option, options
from softwalltime.core.formatting import plural
from softwalltime.core.jobs import DEFAULT_PROJECT
from softwalltime.core.text_table import Cell, TextColumn, TextTable
from softwalltime.service.protocol import ask

_COLUMNS = (
    TextColumn("walltime", left=True), TextColumn("soft walltime"), TextColumn("prediction", 1),
    TextColumn("because", left=True, least=20),
)  # fmt: skip
TRIED = tuple(hours * 3600 for hours in (1, 2, 4, 8, 12, 24, 48, 96, 168))
"""Walltimes that explain tries, in seconds."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Decision for a job with one walltime; durations in seconds."""

    walltime: int | None
    """The requested walltime."""
    soft_walltime: int | None
    """The soft walltime; null: none."""
    action: str
    """set, shadow (recorded, not set) or none."""
    mode: str
    """Mode of the policy for this job: off, shadow or on."""
    predictor: str
    """The predictor."""
    predicted: float | None
    """Its prediction, not rounded and not limited by the policy; null: none."""
    ordering: int | None
    """Value for job_sort_formula; null: none."""
    reason: str
    """Reason, as a code."""
    basis: str
    """Reason, as a sentence."""
    missing_jobs: int | None
    """Minimum number of further completed jobs needed for a prediction; null: it lacks something else."""


@dataclass(frozen=True, slots=True)
class ExplainDocument(Explanation):
    """Decision for a job; durations in seconds."""

    COLUMNS: ClassVar = tuple(field.name for field in fields(Explanation))

    other_walltimes: tuple[Explanation, ...] = ()
    """Decisions for other walltimes."""

    def rows(self) -> Iterator[dict[str, Any]]:
        yield from map(asdict, (self, *self.other_walltimes))


def _duration(text: str) -> int:
    """Return the seconds of a duration in any of PBS's formats, or fail with a usage error."""
    try:
        return duration(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a duration such as 02:00:00 or 7200") from None


@options
class JobOptions:
    user: str = option("Owner of the job.")
    walltime: int | None = option("Walltime: 02:00:00, 30:00 or seconds.", type=_duration, metavar="DURATION")
    queue: str = option("Queue of the job.", default="")
    project: str = option("Project of the job.", default=DEFAULT_PROJECT)
    group: str = option("Group of the job.", default="")
    job_name: str = option("Name of the job.", default="")
    script: str = option("Script that it runs, where the hook records scripts.", default="", metavar="PATH")
    ncpus: int | None = option("Number of processors.", least=1)
    at_start: bool = option("Predict as at job start instead of at submission.")
    output: Output
    daemon: DaemonOptions

    def explained(self, walltime: int | None) -> Explanation:
        job = {name: getattr(self, name) for name in ("user", "queue", "project", "group", "job_name", "ncpus")}
        job |= {"script_path": str(Path(self.script).absolute()) if self.script else None, "walltime": walltime}
        event = "runjob" if self.at_start else "queuejob"
        answer = ask(self.daemon.socket, {"op": "explain", "event": event, "job": job})
        values: dict[str, Any] = {field.name: answer.get(field.name) for field in fields(Explanation)}
        return Explanation(**values | {"walltime": walltime})


@command("the job, then each other walltime")
def explain(options: JobOptions) -> Result[ExplainDocument]:
    """Print the soft walltime of such a job, and why.

    Without a soft walltime the reason says why not: the prediction that is not below the walltime, or how many
    completed jobs are missing.  A table shows what the job would get with other walltimes, from an hour to a week.
    Nothing is recorded.

    \b
    Example:
      softwalltime explain --user user069 --walltime 24:00:00 --config softwalltime.toml
      softwalltime explain --user alice --walltime 24:00:00 --queue long
    """
    explanation = options.explained(options.walltime)
    others = tuple(options.explained(other) for other in TRIED if other != options.walltime)
    return Result(ExplainDocument(**asdict(explanation), other_walltimes=others), _text)


def _text(output: Output, found: ExplainDocument) -> None:
    others = found.other_walltimes
    seconds = found.soft_walltime
    what = (
        output.style("no soft walltime", "warning") if seconds is None
        else output.style(f"soft walltime {clock(seconds)} ({seconds} s)", "strong")
    )  # fmt: skip
    note = "; mode shadow: recorded, not set" if found.action == "shadow" else ""
    output.paragraph(f"{what}: {found.basis} (predictor {found.predictor}{note})")
    if found.ordering is not None:
        output.line(f"ordering value {clock(found.ordering)} ({found.ordering} s), for job_sort_formula")
    if found.reason == "not_below_walltime" and found.predicted is not None and found.walltime is not None:
        predicted = round(found.predicted)
        output.paragraph(
            f"The prediction is {clock(predicted)} ({predicted} s), the walltime {clock(found.walltime)} "
            f"({found.walltime} s): PBS plans with the walltime."
        )
    if found.missing_jobs:
        more = plural(found.missing_jobs, "more completed job")
        output.paragraph(f"A prediction needs at least {more} of this kind.")
    if len({(row.soft_walltime, row.predicted, row.basis) for row in (found, *others)}) == 1:
        output.line("The same with other walltimes.")
        return
    rows: list[list[Cell | str]] = [
        [
            "-" if row.walltime is None else clock(row.walltime),
            Cell("-", "faint") if row.soft_walltime is None else Cell(clock(row.soft_walltime), "good"),
            "-" if row.predicted is None else clock(round(row.predicted)),
            Cell(row.basis, "faint"),
        ]
        for row in others
    ]
    output.line("\nWith other walltimes:")
    output.section(TextTable.of(_COLUMNS, rows))
