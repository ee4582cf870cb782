"""Python's garbage collector, where millions of objects form no cycles."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_ALLOCATIONS = 1_000_000
"""Allocations between two garbage collections; Python's 700 or 2,000 cost a replay a seventh of its time."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Run the garbage collector rarely: jobs form no cycles, so reference counting frees them."""
    before = gc.get_threshold()
    gc.set_threshold(_ALLOCATIONS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
