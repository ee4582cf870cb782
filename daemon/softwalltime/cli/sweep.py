"""``softwalltime sweep``: measure a grid of predictors on several workloads."""

from pathlib import Path
from typing import Any

import click

from softwalltime.cli.completing import complete_source
from softwalltime.cli.options import list_of_predictors, minimum_option, store_options
from softwalltime.cli.output import output_options
from softwalltime.cli.selection import selection_options


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...", shell_complete=complete_source)
@click.option(
    "-o", "--output", "file", required=True, type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="CSV file for the results.",
)  # fmt: skip
@list_of_predictors(
    "Predictors or grids, separated by commas.",
    "One predictor or grid",
)
@click.option("--processes", type=click.IntRange(1), metavar="N", help="Processes.  Default: one a core.")
@click.option(
    "--scheduler", metavar="ADDRESS", help="Run on a Dask cluster: address of its scheduler, such as tcp://host:8786."
)
@click.option("--discard", "again", is_flag=True, help="Discard the results in the file.")
@selection_options
@minimum_option
@output_options
@store_options
def sweep(**given: Any) -> int:
    """Measure a grid of predictors on recorded jobs.

    A SOURCE is the same as for replay, but each source is a separate workload.  The results have a row for each
    source and predictor, with every option in a column.  In a SPEC "|" separates alternatives; all combinations are
    tried.

    At the end the most accurate predictors of each source are printed.

    Results are saved as they are computed.  After an interruption the same command continues.  New sources and
    predictors add rows.  A source whose jobs have changed is computed again.

    \b
    Example:
      softwalltime sweep accounting -o results.csv
      softwalltime sweep KTH-SP2.swf.gz SDSC-SP2.swf.gz -o results.csv
      softwalltime sweep LOGS -o results.csv --predictor 'percentile:p=75|85|95,keys=user|project'
    """
    from softwalltime.cli.measure.sweep import sweep_sources

    return sweep_sources(**given)
