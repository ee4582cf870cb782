"""Distributions for tests, and a slow reference of how the network and the mixture make them of features."""

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from softwalltime.predict.predictors.learned.attention import Gathered, smears
from softwalltime.predict.predictors.learned.distribution import REACHES, SIZE, Floats, bin_of
from softwalltime.predict.predictors.learned.features import CENSORED, POWERS, REACHED
from softwalltime.predict.predictors.learned.network import Weights

masses = st.lists(st.floats(0, 10), min_size=SIZE, max_size=SIZE).map(np.array)
SMEARS = [np.eye(SIZE), *smears()]


def kaplan_meier(ended: Floats, censored: Floats) -> Floats:
    """Return the distribution of the runtime by the weighted Kaplan-Meier estimator (Kaplan & Meier 1958)."""
    shares, surviving = np.zeros(SIZE), 1.0
    for place in range(SIZE):
        hazard = min(ended[place] / max((ended + censored)[place:].sum(), 1e-300), 1.0)
        shares[place] = surviving * hazard
        surviving *= 1.0 - hazard
    shares[REACHES] += surviving
    return shares


def evaluate(features: Gathered, weights: Weights) -> tuple[Floats, Floats]:
    """Return the network's outputs for each pair, and those for the prior."""
    of_pair, of_job, bias_1, second, bias_2, third, bias_3, prior_1, prior_bias_1, prior_2, prior_bias_2 = (
        layer.astype(np.float64) for layer in weights.layers
    )
    hidden = np.maximum(features.pairs @ of_pair + features.job @ of_job + bias_1, 0)
    out = np.maximum(hidden @ second + bias_2, 0) @ third + bias_3
    return out, np.maximum(features.job @ prior_1 + prior_bias_1, 0) @ prior_2 + prior_bias_2


def mixture(features: Gathered, out: Floats, masses: Floats, everybody: Floats) -> tuple[Floats, Floats]:
    """Return the distribution, and the weight of each pair."""
    weights: Floats = np.exp(np.clip(features.base + out[:, 0], -14, 6))
    mass = np.exp(masses)
    ended = mass[:3] @ features.priors + mass[3] * everybody + mass[5] / SIZE
    ended[REACHES] += mass[4]
    censored = np.zeros(SIZE)
    for row, weight in enumerate(weights):
        for power, scaling in zip(POWERS, softmax(out[row, 1:4]), strict=True):
            place = bin_of(features.logs[row] + power * features.shifts[row])
            if features.kinds[row] == REACHED:
                ended[REACHES] += weight * scaling
            elif features.kinds[row] == CENSORED:
                censored[min(place, REACHES - 1)] += weight * scaling
            else:
                smear = softmax(out[row, 4:8])
                ended += (
                    sum(share * matrix[place] for share, matrix in zip(smear, SMEARS, strict=True)) * weight * scaling
                )
    return kaplan_meier(ended, censored), weights


def softmax(outputs: Floats) -> NDArray[np.float64]:
    weights = np.exp(np.clip(outputs, -20, 20))
    return weights / weights.sum()
