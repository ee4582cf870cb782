"""Draw a table that fits into a terminal."""

import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import zip_longest
from typing import Any

import click

from softwalltime.core.text_table import Cell, TextColumn, TextTable

COLORS: dict[str, dict[str, Any]] = {
    "": {},
    "good": {"fg": "green"},
    "bad": {"fg": "red"},
    "warning": {"fg": "yellow"},
    "faint": {"dim": True},
    "strong": {"bold": True},
}
"""Arguments of click.style for each meaning."""
GAP = 2


def draw(table: TextTable, width: int, *, color: bool) -> tuple[str, list[str]]:
    """Return the table as text, and the names of the columns that do not fit.

    Headers are broken at spaces, then texts are broken into lines, then columns are left out by rank.
    """
    widths, left_out = fit(table, width)
    header = {index: Cell(table.columns[index].name, "strong") for index in widths}
    total = sum(widths.values()) + GAP * (len(widths) - 1)
    headlines = list(_lines(table, widths, header, color=color, bottom=True))
    # No markup in texts: some are chosen by users.
    rows = (line for row in table.rows for line in _lines(table, widths, dict(enumerate(row)), color=color))
    return "\n".join((*headlines, "─" * total, *rows)), [table.columns[index].name for index in left_out]


def fit(table: TextTable, width: int) -> tuple[dict[int, int], list[int]]:
    """Choose the columns that fit into ``width`` characters.

    :returns: the width of each chosen column by its index, and the indexes of the other columns.
    """
    texts = [[row[index].text for row in table.rows] for index in range(len(table.columns))]
    widths = {index: _least(column, texts[index]) for index, column in enumerate(table.columns)}
    left_out: list[int] = []

    def room() -> int:
        return width - sum(widths.values()) - GAP * (len(widths) - 1)

    while room() < 0:
        least_important = max(widths, key=lambda index: table.columns[index].rank)
        if not table.columns[least_important].rank:
            break
        del widths[least_important]
        left_out.append(least_important)
    # Texts get what is left, then headers that then need no second line.
    for index in widths:
        missing = max(map(columns_of, texts[index]), default=0) - widths[index]
        widths[index] += max(0, min(missing, room())) if table.columns[index].left or missing <= room() else 0
    for index in widths:
        missing = columns_of(table.columns[index].name) - widths[index]
        widths[index] += missing if 0 < missing <= room() else 0
    return widths, sorted(left_out)


def columns_of(text: str) -> int:
    """Return how many columns of a terminal a text takes.

    >>> columns_of("naïve"), columns_of("漢字"), columns_of("ที่")
    (5, 4, 1)
    """
    return len(text) if text.isascii() else sum(map(_columns, text))


@cache
def _columns(character: str) -> int:
    # Not combining(), which is 0 for vowel signs above a letter.
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "FW" else 1


def _least(column: TextColumn, texts: list[str]) -> int:
    words = max(map(columns_of, column.name.split()), default=0)
    widest = max(map(columns_of, texts), default=0)
    return max(words, min(widest, column.least or widest))


def _lines(
    table: TextTable, widths: dict[int, int], cells: dict[int, Cell], *, color: bool, bottom: bool = False
) -> Iterator[str]:
    """Yield the lines of a row, whose cells begin in the first line or end in the last one."""
    broken = {index: _broken(cells[index].text, width) for index, width in widths.items()}
    height = max(map(len, broken.values()), default=0)
    if bottom:
        broken = {index: [""] * (height - len(lines)) + lines for index, lines in broken.items()}
    for line in zip_longest(*broken.values(), fillvalue=""):
        parts = (
            _aligned(text, width, cells[index], left=table.columns[index].left, color=color)
            for (index, width), text in zip(widths.items(), line, strict=True)
        )
        yield (" " * GAP).join(parts).rstrip()


def _aligned(text: str, width: int, cell: Cell, *, left: bool, color: bool) -> str:
    spaces = " " * (width - columns_of(text))
    styled = click.style(text, **COLORS[cell.meaning]) if color and cell.meaning and text else text
    return styled + spaces if left else spaces + styled


def _broken(text: str, width: int) -> list[str]:
    """Break a text into lines, at spaces where possible; an interval beside its mean gets a line of its own."""
    if columns_of(text) <= width:
        return [text]
    lines: list[str] = []
    for part in text.replace(" [", "\n[").split("\n"):
        lines.append("")
        for word in part.split(" "):
            if lines[-1] and columns_of(f"{lines[-1]} {word}") <= width:
                lines[-1] += f" {word}"
                continue
            if lines[-1]:
                lines.append("")
            # A word that is too long is broken at the greatest width that fits.
            for character in word:
                if lines[-1] and columns_of(lines[-1] + character) > width:
                    lines.append("")
                lines[-1] += character
    return lines
