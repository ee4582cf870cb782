"""``softwalltime train``: train the weights of the predictor calibrated on recorded jobs."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from softwalltime.cli.command import command
from softwalltime.cli.output import Output, progress_bar
from softwalltime.cli.parameters import option, options
from softwalltime.cli.sources import RecordedJobs, load_columns, problems
from softwalltime.core.errors import SourceError
from softwalltime.core.text_table import Cell, TextColumn, TextTable, sentence_column
from softwalltime.core.written import require_folder, write_text
from softwalltime.measure.training.defaults import EPOCHS, JOBS, SEED

if TYPE_CHECKING:
    from softwalltime.accounting.tally import Tally

PARTS = ("nll", "crps", "kernel", "utility")
_TABLE = (
    sentence_column("log"), TextColumn("jobs"), TextColumn("neg. log likelihood"), TextColumn("CRPS", 2),
    TextColumn("kernel score", 4), TextColumn("utility", 3),
)  # fmt: skip


@options
class TrainOptions:
    file: Path = option("Write the weights to this file.", "-o", "--output")
    epochs: int = option("Number of passes over the jobs.", least=1, default=EPOCHS, metavar="N")
    recorded: RecordedJobs


@command()
def train(options: TrainOptions) -> int:
    """Train the weights of the predictor calibrated.

    Each SOURCE is the log of one site: an accounting log or a folder of logs, a trace in Standard Workload Format, or
    the word "store" for the ingested jobs.  More sites give better weights.  The command needs PyTorch (the extra
    train), runs on one core, takes some minutes for 500,000 jobs, and changes nothing but the file.

    Use the file by the option weights of the predictor: calibrated:weights=FILE.

    \b
    Example:
      softwalltime train accounting --output weights.json
      softwalltime replay KTH-SP2.swf.gz --predictors calibrated:weights=weights.json
    """
    from softwalltime.measure.replay.workload import Workload
    from softwalltime.measure.training.examples import Examples
    from softwalltime.measure.training.weights import drawn, fit, require_torch
    from softwalltime.predict.predictors.learned.network import dump

    # Fail before minutes of training.
    require_folder(options.file)
    if os.access(options.file, os.F_OK) and not os.access(options.file, os.W_OK):
        raise SourceError(f"{options.file}: cannot be written: the file is not writable")
    require_torch()
    examples: dict[str, Examples] = {}
    tallies: list[Tally] = []
    for source in options.recorded.sources:
        columns, tally = load_columns((source,), options.recorded.settings, selection=options.recorded.selection)
        examples[source] = drawn(Path(source).name, Workload(columns), JOBS, SEED, progress_bar)
        tallies.append(tally)
    from softwalltime.measure.training.model import Attention, mean_parts

    model = fit(Examples.joined(list(examples.values())), options.epochs, SEED, progress_bar)
    names = {source: Path(source).name for source in examples}
    about = {
        "logs": {names[source]: len(own) for source, own in examples.items()},
        "options": {"jobs": JOBS, "epochs": options.epochs, "seed": SEED},
        "command": f"softwalltime train {' '.join(names.values())} --epochs {options.epochs}",
    }
    lines: list[list[Cell | str]] = []
    for source, own in examples.items():
        before, after = (mean_parts(network, own) for network in (Attention(), model))
        losses = (f"{before[part]:.3f} -> {after[part]:.3f}" for part in PARTS)
        lines.append([Cell(names[source], "strong"), f"{len(own):,}", *losses])
    write_text(options.file, dump(model.weights(about)))
    output = Output.given()
    output.table(TextTable.of(_TABLE, lines))
    output.paragraph(f"wrote {options.file}")
    for line in (line for tally in tallies for line in problems(tally)):
        click.echo(line, err=True)
    return 1 if any(tally.broken for tally in tallies) else 0
