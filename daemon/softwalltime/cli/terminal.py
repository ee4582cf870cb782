"""Draw a table that fits into a terminal."""

from io import StringIO

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from softwalltime.text_table import Cell, TextColumn, TextTable

STYLES = {"": "", "good": "green", "bad": "red", "warning": "yellow", "faint": "dim", "strong": "bold"}
"""rich's style of each meaning."""
GAP = 2


def draw(table: TextTable, width: int, *, color: bool) -> tuple[str, list[str]]:
    """Return the table as text, and the names of the columns that do not fit.

    Headers are broken at spaces, then texts are broken into lines, then columns are left out by rank.
    """
    widths, left_out = fit(table, width)
    drawn = RichTable(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, GAP - 1, 0, 0), header_style="bold"
    )
    for index, wide in widths.items():
        column = table.columns[index]
        drawn.add_column(
            Text(column.name), justify="left" if column.left else "right", overflow="fold", width=wide,
        )  # fmt: skip
    for row in table.rows:
        # Texts, not markup: users choose some of them.
        drawn.add_row(*(_text(row[index], wide) for index, wide in widths.items()))
    stream = StringIO()
    console = Console(
        file=stream, width=width, force_terminal=color, color_system="standard" if color else None, highlight=False,
        legacy_windows=False,
    )  # fmt: skip
    console.print(drawn, crop=False)
    lines = (line.rstrip() for line in stream.getvalue().rstrip("\n").split("\n"))
    return "\n".join(lines), [table.columns[index].name for index in left_out]


def fit(table: TextTable, width: int) -> tuple[dict[int, int], list[int]]:
    """Return the width of each column that fits, by index, and the indexes of those left out."""
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
        missing = max(map(cell_len, texts[index]), default=0) - widths[index]
        # Half of a missing width helps sentences only.
        widths[index] += max(0, min(missing, room())) if table.columns[index].left or missing <= room() else 0
    for index in widths:
        missing = cell_len(table.columns[index].name) - widths[index]
        widths[index] += missing if 0 < missing <= room() else 0
    return widths, sorted(left_out)


def _least(column: TextColumn, texts: list[str]) -> int:
    """Return the least width of a column."""
    words = max(map(cell_len, column.name.split()), default=0)
    widest = max(map(cell_len, texts), default=0)
    return max(words, min(widest, column.least or widest))


def _text(cell: Cell, width: int) -> Text:
    """Return the text of a cell; an interval that does not fit beside its mean gets a line of its own."""
    text = cell.text if cell_len(cell.text) <= width else cell.text.replace(" [", "\n[")
    return Text(text, style=STYLES[cell.meaning])
