"""``softwalltime verify``: compare recorded waits with what a plan promised."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from softwalltime.cli.command import Result, command
from softwalltime.cli.completing import STORE, complete_source
from softwalltime.cli.options import StoreOptions, share
from softwalltime.cli.output import Output, prefixed
from softwalltime.cli.parameters import argument, option, options
from softwalltime.cli.sources import load_columns, problems
from softwalltime.core.errors import SourceError
from softwalltime.core.formatting import day, duration
from softwalltime.core.text_table import Cell, Meaning, TextColumn, TextTable

if TYPE_CHECKING:
    from softwalltime.reports.verification import VerifyDocument

COLUMNS = (
    "kind", "name", "jobs", "before", "after", "effect_mean", "effect_low", "effect_high", "promised", "longer",
    "announced",
)  # fmt: skip
"""Columns of CSV: all jobs, then each class."""
ALL = "all jobs"
_TABLE: dict[TextColumn, Callable[[Mapping[str, Any]], Cell | str]] = {
    TextColumn("jobs of", left=True): lambda row: f"{row['kind']} {row['name']}".strip(),
    TextColumn("number"): lambda row: f"{row['jobs']:,}",
    TextColumn("wait before"): lambda row: duration(row["before"]),
    TextColumn("wait since"): lambda row: duration(row["after"]),
    TextColumn("effect"): lambda row: Cell(duration(row["effect_mean"]), "bad" if row.get("longer") else ""),
    TextColumn("95% interval", 1): lambda row: (
        "" if row["effect_low"] is None else f"{duration(row['effect_low'])} to {duration(row['effect_high'])}"
    ),
}
_MEANINGS: dict[str, Meaning] = {"keep": "good", "undo": "bad"}


@options
class VerifyOptions:
    file: Path = argument("PLAN")
    sources: tuple[str, ...] = argument("[SOURCE]...", shell_complete=complete_source)
    change_date: datetime | None = option(
        "Compare waits before and from this day on (UTC).  Default: the first soft walltime.",
        type=click.DateTime(["%Y-%m-%d"]), metavar="DATE",
    )  # fmt: skip
    share: float | None = share("Share of the users for whom values are set.  Default: that of the settings.")
    output: Output
    settings: StoreOptions


@command("all jobs, then each class", columns=COLUMNS)
def verify(options: VerifyOptions) -> Result["VerifyDocument"]:
    """Say whether the promise of a plan is kept.

    The plan is a file of softwalltime report --write that was applied by softwalltime policy set a week or more ago.
    The jobs come from the store, or from the sources of softwalltime replay.  Recorded waits since the first value that
    was set are compared with those of as many weeks before, with a simulation of the old setting, and with the waits of
    users for whom no values are set.  The verdict is keep, adjust, undo, or that it cannot be told yet, with its
    reasons and the next command.  Nothing is changed.

    \b
    Example:
      softwalltime verify plan.toml
      softwalltime verify plan.toml /var/spool/pbs/server_priv/accounting --change-date 2026-10-01
    """
    from softwalltime.predict.policy.plan_file import read_plan
    from softwalltime.reports.verification import verify as verified
    from softwalltime.store.opening import open_store
    from softwalltime.store.predictions import first_value
    from softwalltime.store.promises import broken_since

    plan, since = read_plan(options.file), None
    sources = options.sources or (STORE,)
    if options.change_date is not None:
        since = int(options.change_date.replace(tzinfo=UTC).timestamp())
    promises = 0, 0
    if STORE in sources:
        with open_store(options.settings(), create=False) as engine, engine.connect() as connection:
            since = first_value(connection, plan.promised_until) if since is None else since
            promises = (0, 0) if since is None else broken_since(connection, since)
    users = options.share
    if users is None:
        users = float(options.settings().policy.get("share", plan.policy.share))
    jobs, tally = load_columns(sources, options.settings)
    if since is None:
        # The first soft walltime after the plan's jobs: the presets leave walltimes as such on jobs that started.
        submitted = jobs.numbers("submitted")
        switched = submitted[(submitted > plan.promised_until) & (jobs.numbers("soft_walltime") > 0)]
        since = int(switched.min()) if len(switched) else None
    if since is None:
        raise SourceError(
            f"{' '.join(sources)}: no value was set after {day(plan.promised_until)}, the last day of the plan's jobs: "
            f"switch it on with softwalltime policy set {options.file} --apply, or give the day with --change-date"
        )
    document = verified(jobs, plan, since, users, promises)
    document = replace(document, command=document.command.replace("PLAN", str(options.file)))
    return Result(document, _text, 1 if tally.broken else 0, problems(tally), rows=list(_rows(document)))


def _rows(document: "VerifyDocument") -> Iterator[dict[str, Any]]:
    if document.before is not None and document.after is not None:
        yield {
            "kind": "", "name": ALL, "jobs": document.after.jobs, "before": document.before.wait_mean,
            "after": document.after.wait_mean, **prefixed("effect_", asdict(document.effect)),
            "promised": document.promised.mean,
        }  # fmt: skip
    for job_class in document.classes:
        yield {**asdict(job_class), **prefixed("effect_", asdict(job_class.effect))}


def _text(output: Output, document: "VerifyDocument") -> None:
    output.paragraph(document.sentence, _MEANINGS.get(document.verdict, ""))
    for reason in document.reasons:
        output.paragraph(f"- {reason}", indent=2)
    rows = list(_rows(document))
    if rows:
        output.section(TextTable.by_column(rows, _TABLE))
    if document.command:
        output.line()
        output.line(f"Next: {document.command}")
