"""``softwalltime snapshot`` and ``collect``: the state of a PBS server, and what a report on another host needs."""

import tempfile
import time
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from softwalltime.cli.command import command
from softwalltime.cli.options import TIMEOUT
from softwalltime.cli.parameters import argument, option, options
from softwalltime.core.formatting import plural
from softwalltime.core.pbs_conf import pbs_home
from softwalltime.measure.forecast.defaults import LOOK

if TYPE_CHECKING:
    from softwalltime.measure.forecast.snapshot import ServerSnapshot


@options
class SnapshotOptions:
    timeout: float = TIMEOUT


@command()
def snapshot(options: SnapshotOptions) -> None:
    """Print the state of the PBS server as JSON.

    The document holds waiting and running jobs, vnodes, queues, reservations and the scheduler's settings.  It is what
    softwalltime starts --snapshot reads.  The command asks PBS through its library and changes nothing.

    \b
    Example:
      softwalltime snapshot > queue.json
    """
    state = look(options.timeout)
    click.echo(state.to_json(), nl=False)
    for remark in state.remarks:
        click.echo(remark, err=True)


def look(seconds: float = LOOK) -> "ServerSnapshot":
    """Return the state of the PBS server of this host.

    An ordinary user's rights suffice where the server shows jobs of others (``query_other_jobs``).

    :param seconds: what an answer of PBS may take.
    :raises IflError: if PBS cannot be reached, or takes longer.
    """
    from softwalltime.service.live.connection import PbsConnection
    from softwalltime.service.snapshot_source import SnapshotSource

    with closing(PbsConnection(timeout=seconds)) as connection:
        config = pbs_home() / "sched_priv" / "sched_config"
        return SnapshotSource(connection, config).take(int(time.time()))


@options
class CollectOptions:
    logs: tuple[Path, ...] = argument("[LOG...]", type=click.Path(path_type=Path), nargs=-1)
    target: Path | None = option(
        "Write this compressed tar file, such as site.tar.gz.  Default: list only what it would hold.", "-o",
        "--output",
    )  # fmt: skip
    taken: Path | None = option("A file of softwalltime snapshot, in place of asking PBS.", "--snapshot")
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
      softwalltime collect /var/spool/pbs/server_priv/accounting/2026* --pseudonyms ~/site.key -o site.tar.gz
      tar xf site.tar.gz && softwalltime report site/accounting --site site/snapshot.json
    """
    from softwalltime.accounting.folders import find_logs
    from softwalltime.cli.collecting import anonymous_logs, anonymous_snapshot, distinct_names, write_archive
    from softwalltime.measure.forecast.snapshot import load_snapshot
    from softwalltime.reports.pseudonyms import Pseudonyms, read_key

    logs = find_logs(options.logs or [pbs_home() / "server_priv" / "accounting"])
    files, names = logs.files, Pseudonyms(read_key(options.key)) if options.key is not None else None
    snapshot = replace(look(options.timeout) if options.taken is None else load_snapshot(options.taken), jobs=())
    if names is not None:
        snapshot = anonymous_snapshot(snapshot, names)
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
    return 1 if logs.broken else 0
