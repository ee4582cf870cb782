"""Train the weights of calibrated: the work of ``softwalltime train``."""

import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from softwalltime.accounting.tally import Tally
from softwalltime.cli.options import LazySettings
from softwalltime.cli.output import Output
from softwalltime.cli.problems import problems, require_folder
from softwalltime.cli.progress import progress_bar
from softwalltime.cli.selection import JobSelection
from softwalltime.cli.sources import load_columns
from softwalltime.errors import SoftwalltimeError, SourceError, UsageError
from softwalltime.predictors.learned.network import dump
from softwalltime.replay.workload import Workload
from softwalltime.text_table import Cell, TextColumn, TextTable, sentence_column
from softwalltime.training.examples import Examples, examples_of

if TYPE_CHECKING:
    from softwalltime.training.model import Attention

MISSING = (
    "torch is missing: run pip install 'pbs-softwalltime[train]'; "
    "without a GPU add --extra-index-url https://download.pytorch.org/whl/cpu"
)
PARTS = ("nll", "crps", "kernel", "utility")


COLUMNS = ("log", "use", "jobs", "part", "before", "after")
"""Columns of CSV: a row for each log and part of the loss."""
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

    file: str
    """The file of the weights."""
    logs: tuple[TrainedLog, ...]
    """The losses by log."""


def train_weights(
    sources: tuple[str, ...], file: Path, left_out: tuple[str, ...], jobs: int, epochs: int, seed: int,
    selection: JobSelection, output: Output, settings: LazySettings,
) -> int:  # fmt: skip
    """Train on the sources and write the weights; return the exit status."""
    # Fail before minutes of training.
    require_folder(file)
    if os.access(file, os.F_OK) and not os.access(file, os.W_OK):
        raise SourceError(f"{file}: cannot be written: the file is not writable")
    unknown = [text for text in left_out if not any(text in source for source in sources)]
    if unknown:
        raise UsageError(f"--leave-out {unknown[0]}: no source has this in its name")
    trained = [source for source in sources if not any(text in source for text in left_out)]
    if not trained:
        raise UsageError("--leave-out leaves no source to train on")
    require_torch()
    examples: dict[str, Examples] = {}
    tallies: list[Tally] = []
    for source in sources:
        examples[source], tally = _examples(source, jobs, seed, selection, settings)
        tallies.append(tally)
    from softwalltime.training.model import Attention, mean_parts

    model = fit(Examples.joined([examples[source] for source in trained]), epochs, seed)
    names = {source: Path(source).name for source in sources}
    about = {
        "logs": {names[source]: len(examples[source]) for source in trained},
        "options": {"jobs": jobs, "epochs": epochs, "seed": seed},
        "command": f"softwalltime train {' '.join(names[source] for source in trained)} "
        f"--max-jobs {jobs} --epochs {epochs} --seed {seed}",
    }
    logs = []
    for source in sources:
        before, after = (mean_parts(network, examples[source]) for network in (Attention(), model))
        use = "trained" if source in trained else "left out"
        logs.append(TrainedLog(names[source], use, len(examples[source]), dict(before), dict(after)))
    write_weights(file, dump(model.weights(about)))
    if output.form == "json":
        output.document(TrainDocument(str(file), tuple(logs)))
    elif output.form == "csv":
        output.rows(COLUMNS, (
            {"log": log.log, "use": log.use, "jobs": log.jobs, "part": part, "before": log.before[part],
             "after": log.after[part]}
            for log in logs for part in PARTS
        ))  # fmt: skip
    else:
        lines: list[list[Cell | str]] = [
            [
                Cell(log.log, "strong"), log.use, f"{log.jobs:,}",
                *(f"{log.before[part]:.3f} -> {log.after[part]:.3f}" for part in PARTS),
            ]
            for log in logs
        ]  # fmt: skip
        output.table(TextTable.of(_TABLE, lines))
        output.paragraph(f"wrote {file}")
    for tally in tallies:
        for line in problems(tally):
            click.echo(line, err=True)
    return 1 if any(tally.broken for tally in tallies) else 0


def require_torch() -> None:
    """Refuse to train without PyTorch.

    :raises SoftwalltimeError: says what to install.
    """
    if find_spec("torch") is None:
        raise SoftwalltimeError(MISSING)


def fit(examples: Examples, epochs: int, seed: int) -> "Attention":
    """Train on these examples under a progress bar; needs PyTorch."""
    from softwalltime.training.schedule import train

    with progress_bar("training", epochs * len(examples)) as progress:
        return train(examples, epochs, seed, lambda count, _: progress(count))


def write_weights(file: Path, text: str) -> None:
    """Write the file of weights.

    :raises SourceError: if it cannot be written.
    """
    try:
        file.write_text(text, "utf-8")
    except OSError as error:
        raise SourceError(f"{file}: cannot be written: {error.strerror}") from error


def _examples(
    source: str, jobs: int, seed: int, selection: JobSelection, settings: LazySettings
) -> tuple[Examples, Tally]:
    columns, tally = load_columns((source,), settings, selection=selection)
    workload = Workload(columns)
    with progress_bar(f"examples of {Path(source).name}", len(workload.jobs)) as progress:
        drawn = examples_of(workload, jobs, seed, progress)
    if drawn is None:
        raise SourceError(f"{source}: fewer than 20 jobs have a walltime and ran: nothing to train on")
    return drawn, tally
