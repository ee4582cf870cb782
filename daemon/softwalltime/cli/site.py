"""``softwalltime site`` and ``softwalltime collect``: what the site runs, read here and taken to another host."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from pathlib import Path
from typing import cast

import click

from softwalltime.cli.command import Result, command
from softwalltime.cli.options import TIMEOUT
from softwalltime.cli.output import Output
from softwalltime.cli.parameters import argument, option, options
from softwalltime.errors import UsageError
from softwalltime.formatting import duration, plural


@dataclass(frozen=True, slots=True)
class SiteDocument:
    """What a site runs, as simulations take it."""

    server: str
    """Name of the PBS server."""
    version: str
    """Version of PBS."""
    taken: int
    """When the snapshot was taken, epoch seconds."""
    scheduler: str
    """The scheduler in a few words."""
    order: str
    """Order of the queue."""
    formula: str
    """Expression of the order formula; empty: none."""
    strict_ordering: bool
    """Whether the scheduler reserves processors for the first jobs that do not fit."""
    depth: int
    """Number of jobs that get a reservation."""
    processors: int
    """Processors of all vnodes."""
    vnodes: int
    """Number of vnodes."""
    walltimes: dict[str, int]
    """Walltime of jobs that request none, in seconds by queue; * for other queues."""
    remarks: tuple[str, ...]
    """What of the scheduler is not simulated, or approximated."""


COLUMNS = tuple(field.name for field in fields(SiteDocument) if field.name not in ("walltimes", "remarks"))


@options
class SiteCommandOptions:
    file: Path = argument("SNAPSHOT")
    output: Output


@command("the site", columns=COLUMNS)
def site(options: SiteCommandOptions) -> Result[SiteDocument]:
    """Print what --site takes from a snapshot.

    SNAPSHOT is a file of softwalltime snapshot, or snapshot.json of softwalltime collect.  With --site report, tune and
    policy compare take the scheduler's planning and order from it, the machine's size, and the walltimes of jobs that
    request none.  The last lines say what is not simulated.

    \b
    Example:
      softwalltime site queue.json
    """
    from softwalltime.forecast.site_scheduler import site_scheduler
    from softwalltime.forecast.snapshot import load_snapshot

    snapshot = load_snapshot(options.file)
    read = site_scheduler(snapshot)
    policy = read.policy
    document = SiteDocument(
        snapshot.server, snapshot.version, snapshot.taken, read.name, policy.order, policy.formula,
        policy.strict_ordering, policy.depth or 1, read.processors, len(snapshot.vnodes), dict(read.walltimes),
        read.remarks,
    )  # fmt: skip
    return Result(document, _text)


def _text(output: Output, document: SiteDocument) -> None:
    output.paragraph(f"{document.server or 'PBS'} {document.version}: {document.scheduler}")
    output.paragraph(f"machine: {plural(document.processors, 'processor')} of {plural(document.vnodes, 'vnode')}")
    limits = ", ".join(f"{queue} {duration(seconds)}" for queue, seconds in document.walltimes.items())
    output.paragraph(f"walltimes of jobs that request none: {limits or 'not given by any queue'}")
    for remark in document.remarks:
        output.paragraph(f"not simulated as it is: {remark}", "warning")


@options
class CollectOptions:
    logs: tuple[Path, ...] = argument("[LOG...]", type=click.Path(path_type=Path), nargs=-1)
    target: Path | None = option(
        "Write this compressed tar file, such as site.tar.gz.  Default: list only what it would hold.", "-o",
        "--output",
    )  # fmt: skip
    taken: Path | None = option("A file of softwalltime snapshot, in place of asking PBS.", "--snapshot")
    since: datetime | None = option(
        "Only logs of this day and later, by their names.", "--first-day", type=click.DateTime(["%Y-%m-%d"]),
        metavar="DATE",
    )  # fmt: skip
    key: Path | None = option(
        "Replace the names of users, groups, accounts, projects, hosts and jobs, with the key in this file.  A "
        "missing file is created.  Do not give it away.",
        "--pseudonyms", metavar="KEYFILE",
    )  # fmt: skip
    timeout: float = TIMEOUT


@command()
def collect(options: CollectOptions) -> int:
    """Collect what a report needs in one file.

    The report can then be written on another host.  The file holds snapshot.json, with the scheduler's settings, queues
    and vnodes but no job, and the accounting logs: those of the PBS server of this host unless LOGs are named.  What it
    holds is listed first.  Logs are copied as they are; with --pseudonyms they are written anew and contain only what
    replay, report and simulate read.

    \b
    Example:
      softwalltime collect
      softwalltime collect --first-day 2026-01-01 --pseudonyms ~/site.key -o site.tar.gz
      tar xf site.tar.gz && softwalltime report site/accounting --site site/snapshot.json
    """
    from softwalltime.accounting.files import log_day
    from softwalltime.accounting.folders import find_logs
    from softwalltime.cli.collecting import FOLDER, anonymous_logs, anonymous_snapshot, distinct_names, write_archive
    from softwalltime.cli.snapshot import look
    from softwalltime.deployment.qmgr import find
    from softwalltime.forecast.snapshot import load_snapshot
    from softwalltime.reports.pseudonyms import Pseudonyms, read_key

    found_logs = find_logs(options.logs or [find().home / "server_priv" / "accounting"])
    first = "" if options.since is None else f"{options.since:%Y%m%d}"
    # A file with another name may be of any day.
    files = [path for path in found_logs.files if (log_day(path.name) or first) >= first]
    if not files:
        raise UsageError(f"--first-day {options.since:%Y-%m-%d}: no log is of that day or later")
    names: Pseudonyms | None = Pseudonyms(read_key(options.key)) if options.key is not None else None
    snapshot = replace(look(options.timeout) if options.taken is None else load_snapshot(options.taken), jobs=())
    if names is not None:
        snapshot = anonymous_snapshot(snapshot)
    lines, logs = list(snapshot.remarks), cast("Mapping[str, bytes | Path]", distinct_names(files))
    if names is not None:
        logs, lines = anonymous_logs(files, names)
    for line in lines:
        click.echo(line, err=True)
    contents: dict[str, bytes | Path] = {f"{FOLDER}/snapshot.json": snapshot.to_json().encode()}
    contents |= {f"{FOLDER}/accounting/{name}": content for name, content in logs.items()}
    for name, content in contents.items():
        size = len(content) if isinstance(content, bytes) else content.stat().st_size
        click.echo(f"{size:>13,}  {name}")
    if options.target is None:
        click.echo("nothing was written: -o FILE writes it", err=True)
        return 0
    write_archive(options.target, contents)
    click.echo(f"{options.target}: {plural(len(contents), 'file')}")
    return 1 if found_logs.broken else 0
