"""From the network's outputs to a distribution, with numpy: scaled and smeared past runtimes, prior, Kaplan-Meier."""

import numpy as np

from softwalltime.predictors.learned.distribution import REACHES, SIZE, STEPS, Floats, bins_of, estimate
from softwalltime.predictors.learned.features import CENSORED, ENDED, POWERS, REACHED, WIDTHS
from softwalltime.predictors.learned.gather import Gathered
from softwalltime.predictors.learned.network import Floats32

LOG_WEIGHTS = (-14.0, 6.0)
"""Limits of a past job's log weight."""
LARGEST_OUTPUT = 20.0
"""Limit of the outputs that choose scaling and smear."""


def smears() -> Floats:
    """Return for each width the matrix that spreads each bin's mass by a Laplace distribution, within the grid.

    What lies beyond the walltime reaches it.
    """
    places = np.arange(REACHES)
    found = np.zeros((len(WIDTHS), SIZE, SIZE))
    for number, width in enumerate(WIDTHS):
        decay = np.exp(-1.0 / (STEPS * width))
        factor = (1.0 - decay) / (1.0 + decay)
        found[number, :REACHES, :REACHES] = factor * decay ** np.abs(places[:, None] - places)
        found[number, :REACHES, REACHES] = factor * decay ** (REACHES - places) / (1.0 - decay)
        found[number, :REACHES, 0] += factor * decay ** (places + 1.0) / (1.0 - decay)
        found[number, REACHES, REACHES] = 1.0
    return found


_SMEARS = smears()


def mix(found: Gathered, out: Floats32, masses: Floats32, everybody: Floats) -> tuple[Floats, Floats]:
    """Return the distribution, and the weight of each pair."""
    outputs = out.astype(np.float64)
    weights: Floats = np.exp(np.clip(found.base + outputs[:, 0], *LOG_WEIGHTS))
    scaling = weights[:, None] * _softmax(outputs[:, 1:4])
    smear = _softmax(outputs[:, 4:8])
    bins = bins_of(found.logs[:, None] + np.array(POWERS) * found.shifts[:, None])
    ended, limited = found.kinds == ENDED, found.kinds == CENSORED
    parts = (scaling[ended][:, :, None] * smear[ended][:, None]).reshape(-1, 1 + len(WIDTHS))
    of_parts = bins[ended].ravel()
    shares = np.bincount(of_parts, parts[:, 0], SIZE).astype(np.float64)
    for width in range(len(WIDTHS)):
        shares += np.bincount(of_parts, parts[:, 1 + width], SIZE) @ _SMEARS[width]
    mass = np.exp(masses.astype(np.float64))
    shares += mass[:3] @ found.priors + mass[3] * everybody + mass[5] / SIZE
    shares[REACHES] += mass[4] + weights[found.kinds == REACHED].sum()
    at_least = np.minimum(bins[limited], REACHES - 1).ravel()
    censored = np.bincount(at_least, scaling[limited].ravel(), SIZE).astype(np.float64)
    return estimate(shares, censored), weights


def _softmax(outputs: Floats) -> Floats:
    found: Floats = np.exp(np.clip(outputs, -LARGEST_OUTPUT, LARGEST_OUTPUT))
    found /= found.sum(axis=1, keepdims=True)
    return found
