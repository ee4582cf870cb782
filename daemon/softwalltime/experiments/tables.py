"""Results as tables: Markdown for people, plain values for programs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from softwalltime.formatting import MISSING, duration, number, percent, plural
from softwalltime.simulation.differences import Interval
from softwalltime.text_table import TextColumn, TextTable

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

    ``published`` says what the paper has in its place, with the table or figure it comes from.  ``detail``: printed
    only if asked for.
    """

    key: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    published: str = ""
    detail: bool = False

    def text(self) -> TextTable:
        """The table as text; a narrow terminal leaves out its last columns."""
        columns = (
            TextColumn(column.title, max(0, index - 2), left=index == 0, least=0 if index else 24)
            for index, column in enumerate(self.columns)
        )
        rows = ([_printed(cell, column.kind) for cell, column in self._pairs(row)] for row in self.rows)
        return TextTable.of(columns, rows)

    def document(self) -> dict[str, object]:
        """The table as plain values."""
        rows = [{column.key: _plain(cell) for cell, column in self._pairs(row)} for row in self.rows]
        return {"title": self.title, "published": self.published, "rows": rows}

    def _pairs(self, row: Sequence[Cell]) -> list[tuple[Cell, Column]]:
        return list(zip(row, self.columns, strict=True))


@dataclass(frozen=True, slots=True)
class PaperResults:
    """The results of one paper's experiment on one trace.

    ``settings`` says what was simulated, ``differences`` how that differs from the paper, ``unavailable`` why a
    predictor of the paper was not run.
    """

    paper: str
    citation: str
    source: str
    jobs: int
    refused: int
    processors: int
    settings: Mapping[str, object]
    differences: tuple[str, ...]
    unavailable: Mapping[str, str]
    tables: tuple[Table, ...]

    def parts(self, details: bool = False) -> Iterator[str | TextTable]:
        """The whole report, line by line; empty lines separate its parts.

        :param details: the tables that are long as well.
        """
        refused = f", {self.refused:,} refused (larger than the machine)" if self.refused else ""
        yield from (f"## {self.citation}", "")
        yield (
            f"{self.source}: {self.jobs:,} jobs on {plural(self.processors, 'processor')}{refused}; "
            + ", ".join(f"{name} {value}" for name, value in self.settings.items() if value is not None)
        )
        shown = [table for table in self.tables if details or not table.detail]
        for table in shown:
            yield from ("", f"### {table.title}", "", table.text())
            if table.published:
                yield from ("", f"Published: {table.published}")
        hidden = [table.title for table in self.tables if table not in shown]
        if hidden:
            yield from ("", f"With --details also: {'; '.join(hidden)}.")
        yield from ("", "Differences from the paper:", *(f"- {difference}" for difference in self.differences))
        yield from (f"- Not available: {name} ({reason})." for name, reason in self.unavailable.items())

    def markdown(self, details: bool = False) -> str:
        """The whole report as Markdown."""
        return "\n".join(part if isinstance(part, str) else part.markdown() for part in self.parts(details))

    def cells(self) -> Iterator[dict[str, object]]:
        """Each value of each table, with its place: source, table, row (from 1) and column."""
        for table in self.tables:
            for number_of_row, row in enumerate(table.rows, 1):
                for cell, column in zip(row, table.columns, strict=True):
                    value = asdict(cell) if isinstance(cell, Interval) else {"mean": cell}
                    yield {
                        "paper": self.paper, "source": self.source, "table": table.key, "row": number_of_row,
                        "column": column.key, "value": value.pop("mean"), **value,
                    }  # fmt: skip

    def document(self) -> dict[str, Any]:
        """The whole report as plain values."""
        return {
            "paper": self.paper,
            "citation": self.citation,
            "source": self.source,
            "jobs": self.jobs,
            "refused": self.refused,
            "processors": self.processors,
            "settings": dict(self.settings),
            "differences": list(self.differences),
            "unavailable": dict(self.unavailable),
            "tables": {table.key: table.document() for table in self.tables},
        }


def _plain(cell: Cell) -> object:
    return asdict(cell) if isinstance(cell, Interval) else cell


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
