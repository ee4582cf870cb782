"""``softwalltime train``: train the weights of the predictor calibrated on recorded jobs."""

from pathlib import Path
from typing import Any

import click

from softwalltime.cli.completing import complete_source
from softwalltime.cli.options import store_options
from softwalltime.cli.output import output_options
from softwalltime.cli.selection import selection_options

JOBS, EPOCHS, SEED = 80_000, 3, 1


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...", shell_complete=complete_source)
@click.option(
    "-o",
    "--output",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="Write the weights to this file.",
)
@click.option(
    "--leave-out",
    "left_out",
    multiple=True,
    metavar="TEXT",
    help="Do not train on sources whose name contains this; print their loss.  Repeatable.",
)
@click.option(
    "--max-jobs",
    "jobs",
    type=click.IntRange(100),
    default=JOBS,
    show_default=True,
    metavar="N",
    help="Most jobs of one source to train on, drawn at random.",
)
@click.option(
    "--epochs",
    type=click.IntRange(1),
    default=EPOCHS,
    show_default=True,
    metavar="N",
    help="Number of passes over the jobs.",
)
@click.option("--seed", type=int, default=SEED, show_default=True, metavar="N", help="Seed of all random choices.")
@selection_options
@output_options
@store_options
def train(**given: Any) -> int:
    """Train the weights of the predictor calibrated.

    Each SOURCE is the log of one site: an accounting log or a folder of logs, a trace in Standard Workload Format, or
    the word "store" for the ingested jobs.  More sites give better weights.  The command needs PyTorch (the extra
    train), runs on one core, takes some minutes for 500,000 jobs, and changes nothing but the file.

    Use the file by the option weights of the predictor: calibrated:weights=FILE.

    \b
    Example:
      softwalltime train accounting --output weights.json
      softwalltime train *.swf.gz --leave-out KTH --output without-kth.json
      softwalltime replay KTH-SP2.swf.gz --predictors calibrated:weights=without-kth.json
    """
    from softwalltime.cli.measure.train import train_weights

    return train_weights(**given)
