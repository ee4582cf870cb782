"""``softwalltime convert`` and ``softwalltime generate``: accounting folders to try things on."""

from datetime import UTC, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click

from softwalltime.accounting.opening import size_on_disk
from softwalltime.accounting.reader import read_jobs
from softwalltime.accounting.tally import Tally
from softwalltime.accounting.writer import as_pbs, write_logs
from softwalltime.cli.options import ServerName
from softwalltime.cli.progress import progress_bar
from softwalltime.cli.sources import problems
from softwalltime.errors import SourceError
from softwalltime.workloads.synthetic import generate as generate_jobs


class TimeZone(click.ParamType[tzinfo]):
    """A time zone by its name in the time zone database."""

    name = "zone"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tzinfo:
        """The zone, or a usage error."""
        if isinstance(value, tzinfo):
            return value
        try:
            return ZoneInfo(str(value))
        except (ZoneInfoNotFoundError, ValueError, OSError):
            return self.fail(f"{value!r} is no time zone such as UTC or Europe/Prague", param, ctx)


zone_option = click.option(
    "--time-zone", "zone", type=TimeZone(), default=UTC, show_default="UTC", help="Of the time stamps and files."
)


@click.command()
@click.argument("trace", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--to", "form", type=click.Choice(["pbs"]), default="pbs", show_default=True, help="What to write.")
@click.option("--server", type=ServerName(), help="The server's name.  Default: the trace's, up to a dot.")
@zone_option
def convert(trace: Path, folder: Path, form: str, server: str | None, zone: tzinfo) -> int:
    """Write a trace as accounting logs.

    TRACE is a file in Standard Workload Format.  FOLDER, which must be new or empty, gets one file a local day with
    the Q, S and E records that a PBS server would have written (Q and D for a job that never ran), so that all that
    works on logs can be tried on public traces.

    \b
    Example:
      softwalltime convert KTH-SP2-1996-unfiltered.swf.gz --to pbs accounting-kth
    """
    tally = Tally()
    with progress_bar("reading", size_on_disk(trace)) as progress:
        jobs = [as_pbs(job, server or _name(trace)) for job in read_jobs([trace], tally, progress)]
    for line in problems(tally):
        click.echo(line, err=True)
    if not jobs:
        raise SourceError(f"no job in {trace}")
    files, records = write_logs(jobs, folder, zone)
    click.echo(f"{folder}: {len(jobs):,} jobs, {records:,} records, {files:,} files")
    return 1 if tally.broken else 0


def _name(trace: Path) -> str:
    return trace.name.partition(".")[0].lower()


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--jobs", type=click.IntRange(1, 10_000_000), default=10_000, show_default=True, metavar="N")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=1, show_default=True)
@click.option("--users", type=click.IntRange(1), default=100, show_default=True)
@click.option("--processors", type=click.IntRange(1), default=128, show_default=True)
@zone_option
def generate(folder: Path, jobs: int, seed: int, users: int, processors: int, zone: tzinfo) -> None:
    """Write a made-up workload as accounting logs.

    FOLDER must be new or empty.  Arrivals, sizes and runtimes follow Lublin & Feitelson (2003); users repeat
    themselves and ask for few popular walltimes, as Tsafrir, Etsion & Feitelson (2005) found.  The same options always
    give the same jobs.

    \b
    Example:
      softwalltime generate accounting-demo --jobs 10000 --seed 1
    """
    made = generate_jobs(jobs, seed=seed, users=users, processors=processors)
    files, records = write_logs(made, folder, zone)
    click.echo(f"{folder}: {len(made):,} jobs, {records:,} records, {files:,} files")
