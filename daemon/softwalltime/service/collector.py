"""Python's garbage collector in the daemon: a full collection blocks answers for a tenth of a second."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LOADING = 2000, 10, 20
"""Thresholds while a history is loaded: few collections of young objects, each of some milliseconds at most; one of all
objects only where numba compiles, which leaves much garbage."""


@contextmanager
def short_collections() -> Iterator[Callable[[], None]]:
    """Leave the objects that exist out of collections, and let few collections look at those that a history adds.

    What is yielded is to be called once the history is loaded: its objects are left out too, and the thresholds are
    the usual ones again.  Reference counting still frees what is left out, but for cycles.
    """
    before = gc.get_threshold()

    def loaded() -> None:
        gc.freeze()
        gc.set_threshold(*before)

    gc.freeze()
    gc.set_threshold(*LOADING)
    try:
        yield loaded
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
