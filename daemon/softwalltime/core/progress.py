"""Progress of long work: the caller supplies the display."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

ShowProgress = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
"""Context manager (title, total) that yields a function to call with each amount of work done."""


def no_progress(_title: str, _total: int) -> AbstractContextManager[Callable[[int], None]]:
    return nullcontext(lambda _: None)
