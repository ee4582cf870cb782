"""A progress bar, if standard error is a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn


@contextmanager
def progress_bar(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar on standard error; call the value with each amount of work done."""
    console = Console(file=sys.stderr)
    with Progress(
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn(),
        console=console, disable=not console.is_terminal, transient=True,
    ) as progress:  # fmt: skip
        task = progress.add_task(title, total=total)
        yield lambda amount: progress.advance(task, amount)
