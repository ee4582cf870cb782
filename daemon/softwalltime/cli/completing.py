"""What a shell completes for sources of jobs and for predictors."""

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

STORE = "store"
"""The source that is no file."""


def complete_source(context: click.Context, _: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Complete a source: ``store`` or a path."""
    from click.shell_completion import CompletionItem

    stores = [CompletionItem(STORE)] if incomplete and STORE.startswith(incomplete) else []
    return [*stores, CompletionItem(incomplete, type="file")]


def complete_predictor(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a predictor, or the last name of a list."""
    from softwalltime.predictors.registry import entries

    before, comma, _last = incomplete.rpartition(",")
    names = sorted(before + comma + name for entry in entries() if entry.predictor for name in entry.names)
    return [name for name in names if name.startswith(incomplete)]
