"""Quantiles of a sample, interpolated linearly, as PostgreSQL's percentile_cont and numpy's default do."""

from collections.abc import Sequence


def quantile(values: Sequence[float], share: float) -> float:
    """Return the quantile (``share`` from 0 to 1) of ascending values; there must be at least one.

    The order of operations is that of PostgreSQL's percentile_cont, so results are bitwise equal.

    >>> quantile([10.0, 20.0, 40.0], 0.75)
    30.0
    """
    rank = share * (len(values) - 1)
    below = int(rank)
    value = values[below]
    if rank != below:
        value += (rank - below) * (values[below + 1] - value)
    return value
