"""Choose a prediction from a distribution by what its errors cost."""

import math
from typing import Literal

import numpy as np

from softwalltime.predictors.learned.attention import best_bin
from softwalltime.predictors.learned.distribution import MIDDLE, REACHES, UPPER, Floats, seconds_of

Objective = Literal["accuracy", "absolute-error", "node-seconds"]

HOUR = 3600.0
"""Seconds in the unit of the price of an underestimate, unless the objective is the accuracy."""


def first_log_price(objective: Objective, target: float) -> float:
    """Return the logarithm of the price of an underestimate before any job has ended: about where it ends on traces."""
    if objective == "accuracy":
        return -0.87 * math.log(target / 0.07)
    return (1.4 if objective == "absolute-error" else 3.4) - 1.2 * math.log(target / 0.05)


def best_seconds(objective: Objective, shares: Floats, log_price: float, walltime: int, ncpus: float) -> float:
    """Return the prediction with the least expected loss, in seconds.

    ============== ====================================================================================
    objective      loss of a prediction p for a runtime t on n processors
    ============== ====================================================================================
    accuracy       1 - min(p, t) / max(p, t), + price if p < t
    absolute-error abs(p - t), + price in hours if p < t
    node-seconds   n x abs(p - t), + price in processor hours if p < t
    ============== ====================================================================================

    The price is the same for all jobs.  At the price for which a given share of the jobs is underestimated, the
    predictions have the least mean loss of all that underestimate this share (Lagrange).

    :param log_price: logarithm of the price.
    """
    price = math.exp(log_price)
    if objective == "accuracy":
        return seconds_of(best_bin(shares, price), walltime)
    price *= HOUR / walltime
    if objective == "node-seconds":
        price /= ncpus
    return seconds_of(least_error_bin(shares, price), walltime)


def least_error_bin(shares: Floats, price: float) -> int:
    """Return the bin whose upper end p has the least expected abs(p - t) + ``price`` if p < t, in walltimes."""
    below, short = shares.cumsum(), (shares * MIDDLE).cumsum()
    # E|p - t| is p x P(t <= p) - E[t; t <= p] + E[t; t > p] - p x P(t > p).
    loss = UPPER * (2.0 * below - below[REACHES]) - 2.0 * short - price * below
    return int(np.argmin(loss))
