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
    matrices = np.zeros((len(WIDTHS), SIZE, SIZE))
    for number, width in enumerate(WIDTHS):
        decay = np.exp(-1.0 / (STEPS * width))
        factor = (1.0 - decay) / (1.0 + decay)
        matrices[number, :REACHES, :REACHES] = factor * decay ** np.abs(places[:, None] - places)
        matrices[number, :REACHES, REACHES] = factor * decay ** (REACHES - places) / (1.0 - decay)
        matrices[number, :REACHES, 0] += factor * decay ** (places + 1.0) / (1.0 - decay)
        matrices[number, REACHES, REACHES] = 1.0
    return matrices


_SMEARS = smears()


def mix(features: Gathered, out: Floats32, masses: Floats32, everybody: Floats) -> tuple[Floats, Floats]:
    """Return the distribution, and the weight of each pair."""
    outputs = out.astype(np.float64)
    weights: Floats = np.exp(np.clip(features.base + outputs[:, 0], *LOG_WEIGHTS))
    scaling = weights[:, None] * _softmax(outputs[:, 1:4])
    smear = _softmax(outputs[:, 4:8])
    bins = bins_of(features.logs[:, None] + np.array(POWERS) * features.shifts[:, None])
    ended, limited = features.kinds == ENDED, features.kinds == CENSORED
    parts = (scaling[ended][:, :, None] * smear[ended][:, None]).reshape(-1, 1 + len(WIDTHS))
    of_parts = bins[ended].ravel()
    shares = np.bincount(of_parts, parts[:, 0], SIZE).astype(np.float64)
    for width in range(len(WIDTHS)):
        shares += np.bincount(of_parts, parts[:, 1 + width], SIZE) @ _SMEARS[width]
    mass = np.exp(masses.astype(np.float64))
    shares += mass[:3] @ features.priors + mass[3] * everybody + mass[5] / SIZE
    shares[REACHES] += mass[4] + weights[features.kinds == REACHED].sum()
    at_least = np.minimum(bins[limited], REACHES - 1).ravel()
    censored = np.bincount(at_least, scaling[limited].ravel(), SIZE).astype(np.float64)
    return estimate(shares, censored), weights


def _softmax(outputs: Floats) -> Floats:
    weights: Floats = np.exp(np.clip(outputs, -LARGEST_OUTPUT, LARGEST_OUTPUT))
    weights /= weights.sum(axis=1, keepdims=True)
    return weights
