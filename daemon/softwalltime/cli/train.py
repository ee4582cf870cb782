"""``softwalltime train``: train the weights of the predictor calibrated on recorded jobs."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from softwalltime.cli.command import Result, command
from softwalltime.cli.options import SOURCES, StoreOptions
from softwalltime.cli.output import Output, progress_bar
from softwalltime.cli.parameters import option, options
from softwalltime.cli.selection import JobSelection
from softwalltime.cli.sources import load_columns, problems
from softwalltime.core.errors import SourceError, UsageError
from softwalltime.core.text_table import Cell, TextColumn, TextTable, sentence_column
from softwalltime.core.written import require_folder, write_text
from softwalltime.measure.training.defaults import EPOCHS, JOBS, SEED

if TYPE_CHECKING:
    from softwalltime.accounting.tally import Tally

PARTS = ("nll", "crps", "kernel", "utility")
_TABLE = (
    sentence_column("log"), TextColumn("use", 1), TextColumn("jobs"), TextColumn("neg. log likelihood"),
    TextColumn("CRPS", 2), TextColumn("kernel score", 4), TextColumn("utility", 3),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TrainedLog:
    """The loss on one log, by its parts, without and with the trained weights."""

    log: str
    """Name of the log."""
    use: str
    """trained, or left out."""
    jobs: int
    """Number of jobs."""
    before: dict[str, float]
    """Parts of the mean loss without trained weights."""
    after: dict[str, float]
    """Parts of the mean loss with them."""


@dataclass(frozen=True, slots=True)
class TrainDocument:
    """Trained weights."""

    COLUMNS: ClassVar = ("log", "use", "jobs", "part", "before", "after")

    file: str
    """The file of the weights."""
    logs: tuple[TrainedLog, ...]
    """The losses by log."""

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row for each log and part of the loss."""
        for log in self.logs:
            for part in PARTS:
                figures = {"part": part, "before": log.before[part], "after": log.after[part]}
                yield {"log": log.log, "use": log.use, "jobs": log.jobs, **figures}


@options
class TrainOptions:
    sources: tuple[str, ...] = SOURCES
    file: Path = option("Write the weights to this file.", "-o", "--output")
    left_out: tuple[str, ...] = option(
        "Do not train on sources whose name contains this; print their loss.  Repeatable.", "--leave-out",
        metavar="TEXT",
    )  # fmt: skip
    jobs: int = option(
        "Most jobs of one source to train on, drawn at random.", "--max-jobs", least=100, default=JOBS, metavar="N"
    )
    epochs: int = option("Number of passes over the jobs.", least=1, default=EPOCHS, metavar="N")
    seed: int = option("Seed of all random choices.", default=SEED, metavar="N")
    selection: JobSelection
    output: Output
    settings: StoreOptions

    def trained(self) -> list[str]:
        """Return the sources to train on.

        :raises UsageError: if there is none, or an option names none.
        :raises SourceError: if the weights cannot be written.
        """
        require_folder(self.file)
        if os.access(self.file, os.F_OK) and not os.access(self.file, os.W_OK):
            raise SourceError(f"{self.file}: cannot be written: the file is not writable")
        unknown = [text for text in self.left_out if not any(text in source for source in self.sources)]
        if unknown:
            raise UsageError(f"--leave-out {unknown[0]}: no source has this in its name")
        trained = [source for source in self.sources if not any(text in source for text in self.left_out)]
        if not trained:
            raise UsageError("--leave-out leaves no source to train on")
        return trained


@command("a log and part of the loss")
def train(options: TrainOptions) -> Result[TrainDocument]:
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
    from softwalltime.measure.replay.workload import Workload
    from softwalltime.measure.training.examples import Examples
    from softwalltime.measure.training.weights import drawn, fit, require_torch
    from softwalltime.predict.predictors.learned.network import dump

    # Fail before minutes of training.
    trained = options.trained()
    require_torch()
    examples: dict[str, Examples] = {}
    tallies: list[Tally] = []
    for source in options.sources:
        columns, tally = load_columns((source,), options.settings, selection=options.selection)
        examples[source] = drawn(Path(source).name, Workload(columns), options.jobs, options.seed, progress_bar)
        tallies.append(tally)
    from softwalltime.measure.training.model import Attention, mean_parts

    joined = Examples.joined([examples[source] for source in trained])
    model = fit(joined, options.epochs, options.seed, progress_bar)
    names = {source: Path(source).name for source in options.sources}
    about = {
        "logs": {names[source]: len(examples[source]) for source in trained},
        "options": {"jobs": options.jobs, "epochs": options.epochs, "seed": options.seed},
        "command": f"softwalltime train {' '.join(names[source] for source in trained)} "
        f"--max-jobs {options.jobs} --epochs {options.epochs} --seed {options.seed}",
    }
    logs = []
    for source in options.sources:
        before, after = (mean_parts(network, examples[source]) for network in (Attention(), model))
        use = "trained" if source in trained else "left out"
        logs.append(TrainedLog(names[source], use, len(examples[source]), dict(before), dict(after)))
    write_text(options.file, dump(model.weights(about)))
    remarks = [line for tally in tallies for line in problems(tally)]
    broken = any(tally.broken for tally in tallies)
    return Result(TrainDocument(str(options.file), tuple(logs)), _text, 1 if broken else 0, remarks)


def _text(output: Output, document: TrainDocument) -> None:
    lines: list[list[Cell | str]] = [
        [
            Cell(log.log, "strong"), log.use, f"{log.jobs:,}",
            *(f"{log.before[part]:.3f} -> {log.after[part]:.3f}" for part in PARTS),
        ]
        for log in document.logs
    ]  # fmt: skip
    output.table(TextTable.of(_TABLE, lines))
    output.paragraph(f"wrote {document.file}")
