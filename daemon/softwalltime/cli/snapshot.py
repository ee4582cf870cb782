"""``softwalltime snapshot`` and ``collect``: the state of a PBS server, and what a report on another host needs."""

import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from softwalltime.cli.command import command
from softwalltime.cli.options import TIMEOUT
from softwalltime.cli.parameters import argument, option, options
from softwalltime.core.errors import UsageError
from softwalltime.core.formatting import plural
from softwalltime.deployment.qmgr import PbsError, Qmgr, find, run
from softwalltime.measure.forecast.defaults import LOOK

if TYPE_CHECKING:
    from softwalltime.measure.forecast.snapshot import ServerSnapshot

_UTC = {"TZ": "UTC"}
"""PBS's commands print local times without a zone."""


@options
class SnapshotOptions:
    timeout: float = TIMEOUT


@command()
def snapshot(options: SnapshotOptions) -> None:
    """Print the state of the PBS server as JSON.

    The document holds waiting and running jobs, vnodes, queues, reservations and the scheduler's settings.  It is what
    softwalltime starts --snapshot reads.  The command runs qstat, pbsnodes and pbs_rstat and changes nothing.

    \b
    Example:
      softwalltime snapshot > queue.json
    """
    state = look(options.timeout)
    click.echo(state.to_json(), nl=False)
    for remark in state.remarks:
        click.echo(remark, err=True)


def look(seconds: float = LOOK, pbs: Callable[[], Qmgr] = find) -> "ServerSnapshot":
    """Return the state of the PBS server that this host's commands ask.

    An ordinary user's rights suffice where the server shows jobs of others (``query_other_jobs``).

    :param seconds: what all commands together may take.
    :raises PbsError: if PBS cannot be reached, or takes longer.
    :raises SourceError: if what it prints cannot be read at all.
    """
    from softwalltime.measure.forecast.pbs_state import PbsOutput, snapshot_of

    qmgr = pbs()
    folder = qmgr.qmgr.parent
    deadline = time.monotonic() + seconds

    def printed(name: str, *options: str) -> str:
        left = deadline - time.monotonic()
        if left <= 0:
            raise PbsError(f"PBS has not answered in {seconds:g} s: allow more with --timeout, or ask at another time")
        return run([str(folder / name), *options], left, environment=_UTC)

    output = PbsOutput(
        jobs=printed("qstat", "-t", "-f", "-F", "json"),
        vnodes=printed("pbsnodes", "-a", "-F", "json"),
        queues=printed("qstat", "-Q", "-f", "-F", "json"),
        server=printed("qstat", "-B", "-f", "-F", "json"),
    )
    with suppress(PbsError):
        output = replace(output, reservations=printed("pbs_rstat", "-f"))
    # An ordinary user cannot read it.
    with suppress(OSError):
        text = (qmgr.home / "sched_priv" / "sched_config").read_text(encoding="utf-8", errors="replace")
        output = replace(output, sched_config=text)
    return snapshot_of(output)


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
    from softwalltime.accounting.daily_files import log_day
    from softwalltime.accounting.folders import find_logs
    from softwalltime.cli.collecting import anonymous_logs, anonymous_snapshot, distinct_names, write_archive
    from softwalltime.measure.forecast.snapshot import load_snapshot
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
    with tempfile.TemporaryDirectory(prefix="softwalltime-collect-") as name:
        folder, lines = Path(name), snapshot.remarks
        if names is not None:
            lines = tuple(anonymous_logs(files, names, folder / "accounting"))
            files = sorted((folder / "accounting").iterdir())
        (folder / "snapshot.json").write_text(snapshot.to_json(), encoding="utf-8")
        collected = {"site/snapshot.json": folder / "snapshot.json"}
        collected |= {f"site/accounting/{name}": path for name, path in distinct_names(files).items()}
        for line in lines:
            click.echo(line, err=True)
        for name, path in collected.items():
            click.echo(f"{path.stat().st_size:>13,}  {name}")
        if options.target is None:
            click.echo("nothing was written: -o FILE writes it", err=True)
            return 0
        write_archive(options.target, collected, datetime.now(UTC))
    click.echo(f"{options.target}: {plural(len(collected), 'file')}")
    return 1 if found_logs.broken else 0
