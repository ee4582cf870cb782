"""A progress bar, if standard error is a terminal."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click


@contextmanager
def progress_bar(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar on standard error; call the value with each amount of work done."""
    if total <= 0 or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield lambda amount: None
        return
    # Draw it a few hundred times in all, not with each job.
    with click.progressbar(length=total, label=title, file=sys.stderr, update_min_steps=max(total // 400, 1)) as bar:
        yield bar.update
    # What the command prints replaces the finished bar.
    click.echo("\x1b[1A\x1b[2K", nl=False, err=True, color=True)
