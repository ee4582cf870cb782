"""``softwalltime predict`` and ``explain``: ask the daemon about a job that is not submitted."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Any

import click

from softwalltime.accounting.values import clock, duration
from softwalltime.cli.daemon import client_options
from softwalltime.cli.output import Output, output_options
from softwalltime.jobs import DEFAULT_PROJECT
from softwalltime.service.client import ask
from softwalltime.text_table import Cell, TextColumn, TextTable

TRIED = tuple(hours * 3600 for hours in (1, 2, 4, 8, 12, 24, 48, 96, 168))
"""Walltimes that explain tries by default, in seconds."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a job with one walltime would get, and why; durations in seconds."""

    walltime: int | None
    """The requested walltime."""
    soft_walltime: int | None
    """The soft walltime; null: none."""
    action: str
    """set, shadow (recorded, not set) or none."""
    mode: str
    """Mode of the policy for this job: off, shadow or on."""
    predictor: str
    """The predictor that was asked."""
    predicted: float | None
    """Its prediction, neither rounded nor limited by the policy; null: none."""
    ordering: int | None
    """Value for job_sort_formula; null: none."""
    reason: str
    """Why, as a code."""
    basis: str
    """Why, as a sentence."""
    missing_jobs: int | None
    """How many more completed jobs a prediction needs, at least; null: jobs are not what is missing."""


@dataclass(frozen=True, slots=True)
class ExplainDocument(Explanation):
    """What a job would get, and why; durations in seconds."""

    other_walltimes: tuple[Explanation, ...] = ()
    """What the job would get with other walltimes."""


COLUMNS = tuple(field.name for field in fields(Explanation))
"""Columns of CSV: a row for the job, for explain then a row for each other walltime."""


class DurationParameter(click.ParamType[int]):
    """A duration in any of PBS's formats, converted to seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the seconds, or fail with a usage error."""
        try:
            return duration(str(value))
        except ValueError:
            return self.fail(f"{value!r} is not a duration such as 02:00:00 or 7200", param, ctx)


class DurationsParameter(click.ParamType[tuple[int, ...]]):
    """Durations in any of PBS's formats, by commas."""

    name = "durations"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Return the seconds, or fail with a usage error."""
        if isinstance(value, tuple):
            return value
        return tuple(DurationParameter().convert(each, param, ctx) for each in str(value).split(","))


def job_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that describe a job; pass a function that explains it, with its own or another walltime."""

    @click.option("--user", required=True, help="Owner of the job.")
    @click.option(
        "--walltime", type=DurationParameter(), metavar="DURATION", help="Walltime: 02:00:00, 30:00 or seconds."
    )
    @click.option("--queue", default="", help="Queue of the job.")
    @click.option("--project", default=DEFAULT_PROJECT, show_default=True, help="Project of the job.")
    @click.option("--group", default="", help="Group of the job.")
    @click.option("--job-name", default="", help="Name of the job.")
    @click.option("--script", default="", metavar="PATH", help="Script that it runs, where the hook records scripts.")
    @click.option("--ncpus", type=click.IntRange(1), help="Number of processors.")
    @click.option("--at-start", "running", is_flag=True, help="Predict as at job start instead of at submission.")
    @output_options
    @client_options
    @wraps(command)
    def wrapped(
        *, running: bool, socket: Path, output: Output, walltime: int | None, user: str, queue: str, project: str,
        group: str, job_name: str, script: str, ncpus: int | None, **more: Any,
    ) -> Any:  # fmt: skip
        job: dict[str, Any] = {
            "user": user, "queue": queue, "project": project, "group": group, "job_name": job_name, "ncpus": ncpus,
            "script_path": str(Path(script).absolute()) if script else None,
        }  # fmt: skip

        def explained(seconds: int | None) -> Explanation:
            event = "runjob" if running else "queuejob"
            answer = ask(socket, {"op": "explain", "event": event, "job": {**job, "walltime": seconds}})
            # Older daemons do not report what is missing.
            values: dict[str, Any] = {name: answer.get(name) for name in COLUMNS}
            return Explanation(**values | {"walltime": seconds})

        return command(explained, walltime, output, **more)

    return wrapped


Explain = Callable[[int | None], Explanation]
"""Explains the job with this walltime in seconds."""


@click.command()
@job_options
def predict(explained: Explain, walltime: int | None, output: Output) -> int:
    """Print the soft walltime of such a job, in seconds.

    Without a soft walltime the exit status is 1 and the reason is printed on standard error.  Nothing is recorded.

    \b
    Example:
      softwalltime predict --user user069 --walltime 24:00:00 --config softwalltime.toml
      softwalltime predict --user alice --walltime 24:00:00 --queue long
    """
    explanation = explained(walltime)
    if output.form == "json":
        output.document(explanation)
    elif output.form == "csv":
        output.rows(COLUMNS, [asdict(explanation)])
    elif explanation.soft_walltime is None:
        click.echo(f"no soft walltime: {explanation.basis}", err=True)
    else:
        output.line(str(explanation.soft_walltime))
    return 1 if explanation.soft_walltime is None else 0


@click.command()
@click.option(
    "--walltimes", "tried", type=DurationsParameter(), metavar="LIST",
    help="Other walltimes to try, separated by commas.  Default: 1, 2, 4, 8, 12, 24, 48, 96 and 168 h.",
)  # fmt: skip
@job_options
def explain(explained: Explain, walltime: int | None, output: Output, tried: tuple[int, ...] | None) -> None:
    """Print the soft walltime of such a job, and why.

    Without a soft walltime the reason says why not: the prediction that is not below the walltime, or how many
    completed jobs are missing.  A table shows what the job would get with other walltimes.  Nothing is recorded.

    \b
    Example:
      softwalltime explain --user user069 --walltime 24:00:00 --config softwalltime.toml
      softwalltime explain --user alice --walltime 24:00:00 --queue long
    """
    explanation = explained(walltime)
    others = tuple(explained(other) for other in sorted(set(TRIED if tried is None else tried) - {walltime}))
    if output.form == "json":
        output.document(ExplainDocument(**asdict(explanation), other_walltimes=others))
    elif output.form == "csv":
        output.rows(COLUMNS, map(asdict, (explanation, *others)))
    else:
        _print(output, explanation, others)


def _print(output: Output, found: Explanation, others: Sequence[Explanation]) -> None:
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
        more = f"{found.missing_jobs} more completed job{'' if found.missing_jobs == 1 else 's'}"
        output.paragraph(f"A prediction needs at least {more} of this kind.")
    if others and len({(one.soft_walltime, one.predicted, one.basis) for one in (found, *others)}) == 1:
        output.line("The same with other walltimes.")
    elif others:
        rows: list[list[Cell | str]] = [
            [
                "-" if one.walltime is None else clock(one.walltime),
                Cell("-", "faint") if one.soft_walltime is None else Cell(clock(one.soft_walltime), "good"),
                "-" if one.predicted is None else clock(round(one.predicted)),
                Cell(one.basis, "faint"),
            ]
            for one in others
        ]
        output.line()
        output.line("With other walltimes:")
        output.line()
        columns = (
            TextColumn("walltime", left=True), TextColumn("soft walltime"), TextColumn("prediction", 1),
            TextColumn("because", left=True, least=20),
        )  # fmt: skip
        output.table(TextTable.of(columns, rows))
