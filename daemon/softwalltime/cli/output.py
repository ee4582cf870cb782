"""Output of commands: options for format, width and colour, tables, texts, documents and progress bars."""

import csv
import io
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import click

from softwalltime.cli.parameters import option, options
from softwalltime.cli.terminal import COLORS, draw
from softwalltime.core.formatting import csv_cell
from softwalltime.core.text_table import Meaning, TextTable

WIDEST = 10_000


@options
class Output:
    """Where and how a command prints: a group of options.

    ``terminal``: fit tables to ``width`` columns; otherwise they are Markdown.
    """

    form: str = option(
        "Output format; deploy/OUTPUT.md describes the fields.", "--format",
        type=click.Choice(["table", "json", "csv"]), default="table",
    )  # fmt: skip
    terminal: bool = False
    width: int = WIDEST
    color: bool = False

    @classmethod
    def given(cls, form: str = "table") -> "Output":
        """Return the output for standard output as it is now, in colours in a terminal unless NO_COLOR is set."""
        tty = sys.stdout.isatty()
        color = tty and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        fitted = tty or os.environ.get("COLUMNS", "").isdecimal()
        width = shutil.get_terminal_size().columns if fitted else WIDEST
        return cls(form=form, terminal=tty, width=width, color=color)

    def style(self, text: str, meaning: Meaning = "") -> str:
        return click.style(text, **COLORS[meaning]) if self.color and meaning and text else text

    def line(self, text: str = "", meaning: Meaning = "") -> None:
        click.echo(self.style(text, meaning), color=self.color)

    def paragraph(self, text: str, meaning: Meaning = "", indent: int = 0) -> None:
        """Print a text, rewrapped if the terminal is too narrow.

        :param indent: columns by which the lines after the first are indented.
        """
        if self.terminal and any(len(click.unstyle(line)) > self.width for line in text.splitlines()):
            text = wrapped(text if indent else " ".join(text.split()), self.width, indent)
        self.line(text, meaning)

    def table(self, table: TextTable) -> None:
        """Print a table: fitted to the terminal, else as Markdown."""
        if not self.terminal:
            self.line(table.markdown())
            return
        text, left_out = draw(table, self.width, color=self.color)
        click.echo(text, color=True)
        if left_out:
            self.paragraph(f"without {', '.join(left_out)}: the terminal is too narrow (a pipe gets all)", "faint")

    def section(self, table: TextTable, legend: str = "") -> None:
        """Print an empty line and a table; where there is a legend, it after another empty line."""
        self.line()
        self.table(table)
        if legend:
            self.line()
            self.paragraph(legend, "faint")

    def rows(self, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        for row in rows:
            writer.writerow([csv_value(row.get(column)) for column in columns])
        click.echo(text.getvalue().encode("utf-8", "backslashreplace"), nl=False)


@contextmanager
def progress_bar(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar if standard error is a terminal; call the value with each amount of work done."""
    if total <= 0 or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield lambda amount: None
        return
    with click.progressbar(length=total, label=title, file=sys.stderr, update_min_steps=max(total // 400, 1)) as bar:
        yield bar.update
    click.echo("\x1b[1A\x1b[2K", nl=False, err=True, color=True)


def wrapped(text: str, width: int, indent: int = 0) -> str:
    """Break a text into lines at spaces; colours take no width, and other spaces stay.

    >>> wrapped("  name  a long value", 14, 8).splitlines()
    ['  name  a long', '        value']
    """
    lines = [""]
    for space, word in re.findall(r"(\s*)(\S+)", text):
        if lines[-1] and len(click.unstyle(lines[-1] + space + word)) > width:
            lines.append(" " * indent + word)
        else:
            lines[-1] += space + word
    return "\n".join(lines)


def prefixed(prefix: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields with this prefix before their names, for the columns of CSV."""
    return {prefix + name: value for name, value in fields.items()}


def csv_value(value: Any) -> Any:
    """Return a CSV value: empty for missing, true and false as in JSON, and no text that a spreadsheet evaluates."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping | list | tuple):
        return json.dumps(value, default=asdict)
    return csv_cell(value) if isinstance(value, str) else value
