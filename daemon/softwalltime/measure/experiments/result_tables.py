"""Results as tables: Markdown for people, plain values for programs."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from softwalltime.core.formatting import MISSING, duration, number, percent, plural
from softwalltime.core.text_table import TextColumn, TextTable
from softwalltime.measure.simulation.differences import Interval

Cell = str | int | float | Interval | None
Kind = Literal["text", "count", "duration", "minutes", "number", "accuracy", "share", "change"]
"""Format of a column: a share in per cent, a change in signed per cent with its interval."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its key in JSON, its title in Markdown, and the kind of its values."""

    key: str
    title: str
    kind: Kind = "text"


@dataclass(frozen=True, slots=True)
class Table:
    """One table, or the data of one figure, of a paper.

    ``published``: the paper's values, with their table or figure.
    """

    key: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    published: str = ""

    def text(self) -> TextTable:
        columns = (
            TextColumn(column.title, max(0, index - 2), left=index == 0, least=0 if index else 24)
            for index, column in enumerate(self.columns)
        )
        rows = ([_printed(cell, column.kind) for column, cell in row] for row in self.pairs())
        return TextTable.of(columns, rows)

    def document(self) -> "PaperTable":
        rows = tuple(
            {column.key: asdict(cell) if isinstance(cell, Interval) else cell for column, cell in row}
            for row in self.pairs()
        )
        return PaperTable(self.title, self.published, rows)

    def pairs(self) -> Iterator[list[tuple[Column, Cell]]]:
        return (list(zip(self.columns, row, strict=True)) for row in self.rows)


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A recomputed table of a paper."""

    title: str
    """Title of the table."""
    published: str
    """The paper's values."""
    rows: tuple[dict[str, Any], ...]
    """Rows: values by column; an interval has mean, low and high."""


@dataclass(frozen=True, slots=True)
class PaperHead:
    """Settings of the repetition of a paper's experiment on one trace."""

    paper: str
    """Short name of the paper."""
    citation: str
    """Citation of the paper."""
    source: str
    """The trace."""
    jobs: int
    """Number of jobs."""
    refused: int
    """Number of jobs that are larger than the machine."""
    processors: int
    """Size of the machine."""
    settings: Mapping[str, object]
    """Settings of the simulation."""
    differences: tuple[str, ...]
    """Differences from the paper's experiment."""
    unavailable: Mapping[str, str]
    """Predictors of the paper that were not run, with the reason."""


@dataclass(frozen=True, slots=True)
class PaperDocument(PaperHead):
    """A paper's experiment on one trace."""

    tables: dict[str, PaperTable]
    """The tables, by name."""


@dataclass(frozen=True, slots=True)
class ExperimentDocument:
    """A paper's experiment on several traces."""

    experiments: tuple[PaperDocument, ...]
    """The experiments, one for each trace."""


@dataclass(frozen=True, slots=True)
class PaperResults(PaperHead):
    """The results of one paper's experiment on one trace."""

    tables: tuple[Table, ...]

    def parts(self) -> Iterator[str | TextTable]:
        """Return the whole report as lines; empty lines separate its parts."""
        refused = f", {self.refused:,} refused (larger than the machine)" if self.refused else ""
        yield from (f"## {self.citation}", "")
        yield (
            f"{self.source}: {self.jobs:,} jobs on {plural(self.processors, 'processor')}{refused}; "
            + ", ".join(f"{name} {value}" for name, value in self.settings.items() if value is not None)
        )
        for table in self.tables:
            yield from ("", f"### {table.title}", "", table.text())
            if table.published:
                yield from ("", f"Published: {table.published}")
        yield from ("", "Differences from the paper:", *(f"- {difference}" for difference in self.differences))
        yield from (f"- Not available: {name} ({reason})." for name, reason in self.unavailable.items())

    def cells(self) -> Iterator[dict[str, object]]:
        """Yield each value of each table with its source, table, row (from 1) and column."""
        for table in self.tables:
            for number_of_row, row in enumerate(table.pairs(), 1):
                for column, cell in row:
                    value = asdict(cell) if isinstance(cell, Interval) else {"mean": cell}
                    yield {
                        "paper": self.paper, "source": self.source, "table": table.key, "row": number_of_row,
                        "column": column.key, "value": value.pop("mean"), **value,
                    }  # fmt: skip

    def document(self) -> PaperDocument:
        head = {field.name: getattr(self, field.name) for field in fields(PaperHead)}
        return PaperDocument(**head, tables={table.key: table.document() for table in self.tables})


def _printed(cell: Cell, kind: Kind) -> str:
    if isinstance(cell, Interval):
        if cell.mean is None:
            return MISSING
        if cell.low is None or cell.high is None:
            return f"{cell.mean:+.1%}"
        return f"{cell.mean:+.1%} [{cell.low:+.1%}, {cell.high:+.1%}]"
    if cell is None:
        return MISSING
    if isinstance(cell, str):
        return cell
    match kind:
        case "duration":
            return duration(cell)
        case "minutes":
            return number(cell / 60, 2)
        case "number":
            return number(cell, 2)
        case "accuracy":
            return f"{cell:.3f}"
        case "share":
            return percent(cell)
        case "change":
            return f"{cell:+.1%}"
        case _:
            return number(cell)
