"""What a shell completes for sources of jobs and for predictors."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

STORE = "store"
"""The source that is no file."""
POLICIES = ("off", "shadow", "safe", "balanced", "order")
"""The policies that ``policy set`` takes by name."""


def complete_source(context: click.Context, _: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Complete a source: ``store`` or a path."""
    return _word_or_file((STORE,) if incomplete else (), incomplete)


def complete_policy(context: click.Context, _: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Complete the name of a policy, or the path of a plan file."""
    return _word_or_file(POLICIES, incomplete)


def _word_or_file(words: Sequence[str], incomplete: str) -> "list[CompletionItem]":
    from click.shell_completion import CompletionItem

    file = CompletionItem(incomplete, type="file")
    named = [CompletionItem(word) for word in words if word.startswith(incomplete)]
    # bash completes either files or words, whichever come last: words would hide a file that begins alike.
    return [*named, file] if not named or _begins_a_file(incomplete) else [file, *named]


def _begins_a_file(text: str) -> bool:
    """Return whether a file here has a name that begins so."""
    try:
        return any(entry.name.startswith(text) for entry in os.scandir())
    except OSError:
        return False


def complete_predictor(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a predictor, or the last name of a list."""
    from softwalltime.predictors.registry import entries

    before, comma, _last = incomplete.rpartition(",")
    names = sorted(before + comma + name for entry in entries() if entry.predictor for name in entry.names)
    return [name for name in names if name.startswith(incomplete)]
