"""Results as tables: Markdown for people, plain values for programs."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from softwalltime.formatting import MISSING, duration, number, percent, plural
from softwalltime.simulation.differences import Interval
from softwalltime.text_table import table

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

    def markdown(self) -> str:
        """The table under its title."""
        header = [column.title for column in self.columns]
        rows = [[_printed(cell, column.kind) for cell, column in self._pairs(row)] for row in self.rows]
        published = f"\n\nPublished: {self.published}" if self.published else ""
        return f"### {self.title}\n\n{table(header, rows)}{published}"

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

    def markdown(self, details: bool = False) -> str:
        """The whole report.

        :param details: the tables that are long as well.
        """
        refused = f", {self.refused:,} refused (larger than the machine)" if self.refused else ""
        lines = [
            f"## {self.citation}",
            "",
            f"{self.source}: {self.jobs:,} jobs on {plural(self.processors, 'processor')}{refused}; "
            + ", ".join(f"{name} {value}" for name, value in self.settings.items() if value is not None),
        ]
        shown = [each for each in self.tables if details or not each.detail]
        for each in shown:
            lines += ["", each.markdown()]
        hidden = [each.title for each in self.tables if each not in shown]
        if hidden:
            lines += ["", f"With --details also: {'; '.join(hidden)}."]
        lines += ["", "Differences from the paper:"]
        lines += [f"- {each}" for each in self.differences]
        lines += [f"- Not available: {name} ({reason})." for name, reason in self.unavailable.items()]
        return "\n".join(lines)

    def document(self) -> dict[str, object]:
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
            "tables": {each.key: each.document() for each in self.tables},
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
