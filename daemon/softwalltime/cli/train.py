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
from softwalltime.core.text_table import TextColumn, TextTable, sentence_column
from softwalltime.core.written import require_folder, write_text
from softwalltime.measure.training.defaults import EPOCHS, JOBS, SEED

if TYPE_CHECKING:
    from softwalltime.accounting.tally import Tally
    from softwalltime.measure.training.examples import Examples
    from softwalltime.measure.training.weights import LossChange

RANDOM = "random"
_TABLE = (
    sentence_column("log"), TextColumn("jobs"), TextColumn("loss before", 2), TextColumn("after", 2),
    TextColumn("change, 95% interval"),
)  # fmt: skip


@options
class TrainOptions:
    file: Path = option("Write the weights to this file.", "-o", "--output")
    weights: str = option(
        "Weights to start from: learned (those in the package), a file of train, or random.", default="learned"
    )
    epochs: int = option("Number of passes over the jobs.", least=1, default=EPOCHS, metavar="N")
    recorded: RecordedJobs


@command()
def train(options: TrainOptions) -> int:
    """Train the weights of the predictor calibrated.

    Each SOURCE is the log of one site: an accounting log or a folder of logs, a trace in Standard Workload Format, or
    the word "store" for the ingested jobs.  The command needs PyTorch (the extra train), runs on one core, takes some
    minutes for 500,000 jobs, and changes nothing but the file.

    Training starts from the weights in the package.  First it trains on each half of a log's time and measures the loss
    on the other half.  If the loss falls on every log, beyond the 95% interval over its weeks, the command trains on
    all jobs and writes these weights.  Otherwise it writes those that it started from.  Training from random weights
    compares nothing.

    Use the file by the option weights of the predictor: calibrated:weights=FILE.

    \b
    Example:
      softwalltime train accounting --output weights.json
      softwalltime replay KTH-SP2.swf.gz --predictors calibrated:weights=weights.json
    """
    from softwalltime.measure.replay.workload import Workload
    from softwalltime.measure.training.weights import MIN_WEEKS, compare, drawn, fit, require_torch
    from softwalltime.predict.predictors.learned.network import dump, load

    # Fail before minutes of training.
    require_folder(options.file)
    if os.access(options.file, os.F_OK) and not os.access(options.file, os.W_OK):
        raise SourceError(f"{options.file}: cannot be written: the file is not writable")
    require_torch()
    start, weeks = (None, 0) if options.weights == RANDOM else (load(options.weights), MIN_WEEKS)
    logs: dict[str, Examples] = {}
    tallies: list[Tally] = []
    for source in options.recorded.sources:
        columns, tally = load_columns((source,), options.recorded.settings, selection=options.recorded.selection)
        logs[source] = drawn(Path(source).name, Workload(columns), JOBS, SEED, progress_bar, weeks)
        tallies.append(tally)
    names, examples, output = [Path(source).name for source in logs], list(logs.values()), Output.given()
    changes = [] if start is None else compare(examples, options.epochs, SEED, progress_bar, start)
    done = f"no gain beyond chance on every log: wrote the weights that training started from to {options.file}"
    if start is None or all(change.high < 0 for change in changes):
        about = {
            "logs": dict(zip(names, map(len, examples), strict=True)),
            "options": {"jobs": JOBS, "epochs": options.epochs, "seed": SEED, "weights": options.weights},
            "command": f"softwalltime train {' '.join(names)} --weights {options.weights} --epochs {options.epochs}",
        }
        start = fit(examples, options.epochs, SEED, progress_bar, start).weights(about)
        done = f"wrote {options.file}"
    write_text(options.file, dump(start))
    if changes:
        counts = [f"{len(log):,}" for log in examples]
        output.table(TextTable.of(_TABLE, map(_line, names, counts, changes)))
    output.paragraph(done)
    for line in (line for tally in tallies for line in problems(tally)):
        click.echo(line, err=True)
    return 1 if any(tally.broken for tally in tallies) else 0


def _line(name: str, jobs: str, change: "LossChange") -> list[str]:
    return [name, jobs, f"{change.before:.3f}", f"{change.after:.3f}", f"{change.low:+.4f} to {change.high:+.4f}"]
