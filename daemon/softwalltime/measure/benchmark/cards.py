"""Data cards of public logs, which of them a folder has, and their jobs."""

import gzip
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import file_digest
from importlib.resources import files
from pathlib import Path

from softwalltime.accounting.tally import Tally
from softwalltime.core.errors import SourceError
from softwalltime.core.formatting import printable
from softwalltime.measure.replay.recorded_files import RecordedFiles
from softwalltime.measure.replay.workload import Workload
from softwalltime.measure.simulation.simulated_jobs import Jobs, jobs_of

TRACES = ("*.swf", "*.swf.gz")


@dataclass(frozen=True, slots=True)
class DataCard:
    """A public log."""

    name: str
    """Short name."""
    file: str
    """File name in the archive, without .gz."""
    sha256: str
    """Digest of the uncompressed file."""
    institution: str
    """Where the jobs ran."""
    system: str
    """Machine and scheduler."""
    processors: int
    """Number of processors."""
    years: str
    """Years of the jobs."""
    fields: str
    """What is known of a job besides times, processors and walltime."""
    cleaned: str
    """What was left out."""
    source: str
    """Where to get the log."""
    terms: str
    """Terms of use."""


@dataclass(frozen=True, slots=True)
class NamedLog:
    """A log to measure: its path, and its card if it is a public one."""

    path: Path
    card: DataCard | None

    @property
    def name(self) -> str:
        return self.card.name if self.card else printable(self.path.name)


def cards() -> tuple[DataCard, ...]:
    text = files("softwalltime.measure.benchmark").joinpath("logs.toml").read_text("utf-8")
    return tuple(DataCard(**card) for card in tomllib.loads(text)["logs"])


def named_logs(sources: Sequence[Path]) -> list[NamedLog]:
    """Return the logs of files and folders: those with cards in their order, then the others.

    A trace has the card whose digest its contents have, whatever its name is.  A folder without traces is one log.

    :raises SourceError: if a file cannot be read, or a folder has no log.
    """
    known = {card.sha256: card for card in cards()}
    found = {path: known.get(_digest(path)) if path.is_file() else None for path in dict.fromkeys(_paths(sources))}
    order = {digest: number for number, digest in enumerate(known)}
    logs = [NamedLog(path, card) for path, card in found.items()]
    return sorted(logs, key=lambda log: order[log.card.sha256] if log.card else len(order))


@lru_cache(1)
def read_log(path: Path, limit: int | None) -> tuple[Workload, Tally]:
    """Return the first jobs of a log, and what could not be read; a process gets several tasks on the same log."""
    tally = Tally()
    return Workload(RecordedFiles([path]).read(tally), limit), tally


def jobs_on_machine(log: NamedLog, limit: int | None, processors: int | None) -> tuple[Jobs, int, Tally]:
    """Return the first jobs of a log that its machine can run, its size, and what could not be read.

    :param processors: size of the machine of a log without a card; ``None``: that in the header, else the most in use.
    """
    workload, tally = read_log(log.path, limit)
    jobs = jobs_of(workload.jobs)
    size = (log.card.processors if log.card else processors) or tally.machine or jobs.peak()
    jobs, _ = jobs.that_fit(size)
    return jobs, size, tally


def _paths(sources: Sequence[Path]) -> Iterator[Path]:
    for source in sources:
        traces = sorted(path for pattern in TRACES for path in source.glob(pattern))
        if not traces:
            # One that is not there, or has no log, is said before others are measured.
            RecordedFiles([source])
        yield from traces or [source]


def _digest(path: Path) -> str:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            return file_digest(stream, "sha256").hexdigest()
    except (OSError, EOFError) as error:
        raise SourceError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
