"""``softwalltime convert``, ``generate`` and ``export``: write jobs as accounting logs or in Parquet."""

from datetime import UTC
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from softwalltime.accounting.log_file import size_on_disk
from softwalltime.accounting.reader import read_jobs
from softwalltime.accounting.tally import Tally
from softwalltime.accounting.writer import as_pbs, records, write_logs, write_records
from softwalltime.cli.command import command
from softwalltime.cli.options import server_name
from softwalltime.cli.output import progress_bar
from softwalltime.cli.parameters import FOLDER, argument, option, options
from softwalltime.cli.sources import RecordedJobs, problems
from softwalltime.core.errors import SourceError, UsageError
from softwalltime.core.garbage import rare_collections
from softwalltime.core.written import replaced, require_folder


@options
class ConvertOptions:
    trace: Path = argument(type=click.Path(exists=True, dir_okay=False, path_type=Path))
    folder: Path = argument(type=FOLDER)
    server: str | None = option(
        "Name of the PBS server.  Default: the trace's name up to the first dot.", type=server_name, metavar="NAME"
    )


@command()
def convert(options: ConvertOptions) -> int:
    """Write a trace as accounting logs.

    TRACE is a file in Standard Workload Format.  FOLDER must be new or empty.  It gets one file for each day (UTC)
    with the Q, S and E records of a PBS server (Q and D for a job that never ran).

    \b
    Example:
      softwalltime convert KTH-SP2-1996-unfiltered.swf.gz accounting-kth
    """
    tally, trace = Tally(), options.trace
    server = options.server or trace.name.partition(".")[0].lower()
    with progress_bar("reading", size_on_disk(trace)) as progress:
        jobs = [as_pbs(job, server) for job in read_jobs([trace], tally, progress)]
    for line in problems(tally):
        click.echo(line, err=True)
    if not jobs:
        raise SourceError(f"no job in {trace}")
    files, count = write_logs(jobs, options.folder, UTC)
    click.echo(f"{options.folder}: {len(jobs):,} jobs, {count:,} records, {files:,} files")
    return 1 if tally.broken else 0


@options
class GenerateOptions:
    folder: Path = argument(type=FOLDER)
    jobs: int = option("Number of jobs.", type=click.IntRange(1, 1_000_000_000), default=10_000, metavar="N")
    seed: int = option("Random seed.", type=click.IntRange(0, 2**32 - 1), default=1)
    users: int = option("Number of users.", least=1, default=100)
    processors: int = option("Size of the machine.", least=1, default=128)


@command()
def generate(options: GenerateOptions) -> None:
    """Write a synthetic workload as accounting logs.

    FOLDER must be new or empty.  Arrivals, sizes and runtimes follow Lublin & Feitelson (2003).  Users submit similar
    jobs again and request few popular walltimes, as Tsafrir, Etsion & Feitelson (2005) found.  The same options always
    generate the same jobs.

    \b
    Example:
      softwalltime generate accounting-demo --jobs 10000 --seed 1
    """
    from softwalltime.measure.workloads.synthetic import generate_blocks

    blocks = generate_blocks(options.jobs, seed=options.seed, users=options.users, processors=options.processors)
    # One block after the other: memory does not grow with the jobs.
    written = (record for block in blocks for record in records(block, UTC))
    files, count = write_records(written, options.folder)
    click.echo(f"{options.folder}: {options.jobs:,} jobs, {count:,} records, {files:,} files")


@options
class ExportOptions:
    file: Path = option("File to write, named *.parquet.", "-o", "--output", metavar="FILE")
    recorded: RecordedJobs


@command()
@rare_collections()
def export(options: ExportOptions) -> int:
    """Write recorded jobs in Parquet, to read them faster.

    The sources are those of "softwalltime replay".  Each command that reads recorded jobs takes the file as a source,
    and reads it ten times as fast as logs.  It goes together with newer logs: a job that is in both counts once.  The
    columns are the fields of a completed job, with their units; pandas, polars and DuckDB read them too.

    \b
    Example:
      softwalltime export accounting -o jobs.parquet
      softwalltime export /var/spool/pbs/server_priv/accounting/2025* -o 2025.parquet
    """
    from softwalltime.measure.replay.parquet import GROUP, write_parquet
    from softwalltime.measure.replay.recorded_files import PROCESSORS, SORTED, SUFFIX

    if options.file.suffix != SUFFIX:
        raise UsageError(f"{options.file}: the name must end in {SUFFIX}, by which commands recognise the file")
    require_folder(options.file)
    with TemporaryDirectory() as folder:
        groups, tally = options.recorded.sorted_groups(Path(folder), GROUP)
        # As the accounting logs: their users' names are not for everybody.
        with replaced(options.file, 0o600) as stream:
            jobs = write_parquet(groups, stream, {PROCESSORS: tally.machine, SORTED: True})
    for line in problems(tally):
        click.echo(line, err=True)
    click.echo(f"{options.file}: {jobs:,} jobs, {size_on_disk(options.file) / jobs:.0f} bytes for each")
    return 1 if tally.broken else 0
