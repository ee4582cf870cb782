"""Results as tables and verdicts: Markdown for people, plain values for programs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, NamedTuple, cast

from softwalltime.core.formatting import MISSING, duration, number, percent, plural
from softwalltime.core.text_table import TextColumn, TextTable, sentence_column
from softwalltime.measure.simulation.differences import Interval

Cell = str | int | float | Interval | None
Kind = Literal["text", "count", "duration", "minutes", "number", "accuracy", "share", "change", "pooled", "better"]
"""Format of a column: a share in per cent, a change in signed per cent with its interval.

Columns of compared policies: ``pooled`` is the change of the mean over all jobs, ``better`` in how many parts it fell.
"""


class Column(NamedTuple):
    """One column: its key in JSON, its title in Markdown, and the kind of its values."""

    key: str
    title: str
    kind: Kind

    @classmethod
    def of(cls, text: str) -> "Column":
        """Return the column of ``key|title|kind``; by default the title is the key and the kind is text."""
        key, title, kind = (*text.split("|"), "", "")[:3]
        return cls(key, title or key, cast(Kind, kind or "text"))


Contents = tuple[tuple[str, ...], Sequence[tuple[Cell, ...]]]
"""Columns and rows of a table."""


@dataclass(frozen=True, slots=True)
class Table:
    """One table, or the data of one figure, of a paper.

    ``texts``: the columns, as :meth:`Column.of` reads them.  ``facts`` are figures for the text ``setting``, which says
    what differs from the paper's setting.  ``published``: the paper's values, with their table or figure.
    """

    key: str
    texts: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]
    facts: Mapping[str, float] = field(default_factory=dict)
    title: str = ""
    published: str = ""
    setting: str = ""

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(map(Column.of, self.texts))

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
        return PaperTable(self.title, self.published, self.setting, rows)

    def value(self, column: str, wanted: Mapping[str, Cell]) -> Cell:
        """Return the value of a column in the first row with these values in other columns; ``None`` without either."""
        rows = ({named.key: cell for named, cell in pairs} for pairs in self.pairs())
        return next((cells.get(column) for cells in rows if wanted.items() <= cells.items()), None)

    def pairs(self) -> Iterator[list[tuple[Column, Cell]]]:
        columns = self.columns
        return (list(zip(columns, row, strict=True)) for row in self.rows)


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A recomputed table of a paper."""

    title: str
    """Title of the table."""
    published: str
    """The paper's values."""
    setting: str
    """Difference from the paper's setting, besides those of the whole experiment."""
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
class ClaimVerdict:
    """A claim of a paper, and whether it held on the traces."""

    paper: str
    """Short name of the paper."""
    claim: str
    """The claim."""
    verdict: str
    """held, not held, the traces on which it held, or not testable."""
    ours: str
    """Our figure on each trace."""
    published: str
    """The paper's figure."""


@dataclass(frozen=True, slots=True)
class ExperimentDocument:
    """The experiments of papers on several traces."""

    claims: tuple[ClaimVerdict, ...]
    """The papers' claims, and whether they held."""
    experiments: tuple[PaperDocument, ...]
    """The experiments, one for each paper and trace."""


@dataclass(frozen=True, slots=True)
class PaperResults(PaperHead):
    """The results of one paper's experiment on one trace."""

    tables: tuple[Table, ...]

    def parts(self) -> Iterator[str | TextTable]:
        """Return the whole report as lines; empty lines separate its parts."""
        refused = f", {self.refused:,} refused (larger than the machine)" if self.refused else ""
        yield from (f"## {self.citation}: {self.source}", "")
        yield (
            f"{self.jobs:,} jobs on {plural(self.processors, 'processor')}{refused}; "
            + ", ".join(f"{name} {value}" for name, value in self.settings.items() if value is not None)
        )
        for table in self.tables:
            yield from ("", f"### {table.title}", "", table.text())
            if table.published:
                yield from ("", f"Published: {table.published}")
            if table.setting:
                yield from ("", f"Setting: {table.setting}")
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

    def value(self, figure: str) -> Cell:
        """Return a value of a table: ``fig4_5, accuracy, keys=user`` has its table, its column and its row."""
        key, column, *row = figure.split(", ")
        wanted = dict(text.split("=", 1) for text in row)
        tables = [table for table in self.tables if table.key == key]
        return tables[0].value(column, wanted) if tables else None

    def document(self) -> PaperDocument:
        head = {one.name: getattr(self, one.name) for one in fields(PaperHead)}
        return PaperDocument(**head, tables={table.key: table.document() for table in self.tables})


class Figure(NamedTuple):
    """A value of a claim: ``{:share}`` in a text formats it as the kind of a column does."""

    cell: Cell

    def __format__(self, kind: str) -> str:
        return _printed(self.cell, cast(Kind, kind))


def verdict_table(verdicts: Sequence[ClaimVerdict]) -> TextTable:
    columns = (sentence_column(name, least=12) for name in ("paper", "claim", "verdict", "ours", "published"))
    return TextTable.of(columns, ([one.paper, one.claim, one.verdict, one.ours, one.published] for one in verdicts))


def verdict_cells(verdicts: Sequence[ClaimVerdict]) -> Iterator[dict[str, object]]:
    """Yield the verdicts as :meth:`PaperResults.cells` does values: the table is ``claims``."""
    for row, verdict in enumerate(verdicts, 1):
        for column in ("claim", "verdict", "ours", "published"):
            cell = {"column": column, "value": getattr(verdict, column)}
            yield {"paper": verdict.paper, "table": "claims", "row": row, **cell}


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
        case "change" | "pooled":
            return f"{cell:+.1%}"
        case _:
            return number(cell)
