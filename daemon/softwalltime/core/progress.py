"""How long work shows its progress: what shows it is given, because a library draws no bars."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

ShowProgress = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
"""Shows a title and the progress towards a total; the value is called with each amount of work done."""


def no_progress(_title: str, _total: int) -> AbstractContextManager[Callable[[int], None]]:
    return nullcontext(lambda _: None)
