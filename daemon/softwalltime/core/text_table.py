"""Text tables: aligned Markdown, and layout hints for terminals.

rich would add 14 MB (with pygments) to every installation.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

from softwalltime.core.formatting import local_time

T = TypeVar("T")
Meaning = Literal["", "good", "bad", "warning", "faint", "strong"]
"""Meaning of a text; terminals show it by colour."""


class TextColumn(NamedTuple):
    """A column of a table.

    ``rank`` 0: always printed; where the terminal is too narrow, the column with the greatest rank is left out first.
    ``left``: texts, aligned left.  ``least``: a narrow terminal may break the texts into lines of that width; 0: never.
    """

    name: str
    rank: int = 0
    left: bool = False
    least: int = 0


def sentence_column(name: str, rank: int = 0, least: int = 24) -> TextColumn:
    return TextColumn(name, rank, left=True, least=least)


class Cell(NamedTuple):
    """A text of a table with its meaning; ``moment``: the instant that it names, epoch seconds."""

    text: str
    meaning: Meaning = ""
    moment: int | None = None


def time_cell(epoch: int | None, now: int) -> Cell:
    """Return a cell with an instant in the local time zone (both epoch seconds)."""
    return Cell(local_time(epoch, now), moment=epoch)


@dataclass(frozen=True, slots=True)
class TextTable:
    columns: tuple[TextColumn, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @classmethod
    def of(cls, columns: Iterable[TextColumn], rows: Iterable[Iterable[Cell | str]]) -> "TextTable":
        """Make a table; a plain text is a cell without meaning."""
        cells = tuple(tuple(cell if isinstance(cell, Cell) else Cell(cell) for cell in row) for row in rows)
        return cls(tuple(columns), cells)

    @classmethod
    def by_column(cls, rows: Iterable[T], columns: Mapping[TextColumn, Callable[[T], Cell | str]]) -> "TextTable":
        """Make a table whose columns name the functions that return their cells."""
        return cls.of(columns, ([cell(row) for cell in columns.values()] for row in rows))

    def markdown(self) -> str:
        widths = [
            max(len(column.name), *(len(row[index].text) for row in self.rows)) if self.rows else len(column.name)
            for index, column in enumerate(self.columns)
        ]

        def line(texts: Iterable[str]) -> str:
            aligned = (
                text.ljust(width) if column.left else text.rjust(width)
                for column, text, width in zip(self.columns, texts, widths, strict=True)
            )
            return f"| {' | '.join(aligned)} |"

        rule = " | ".join(
            "-" * width if column.left else "-" * (width - 1) + ":"
            for column, width in zip(self.columns, widths, strict=True)
        )
        header = line(column.name for column in self.columns)
        return "\n".join((header, f"| {rule} |", *(line(cell.text for cell in row) for row in self.rows)))
