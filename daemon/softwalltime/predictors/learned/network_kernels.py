"""The network and the mixture as plain loops, which numba compiles: what :mod:`.network` and :mod:`.mixture` do."""

import math

import numpy as np

from softwalltime.predictors.learned.distribution import MIDDLE, REACHES, SIZE, STEPS, UPPER, Floats
from softwalltime.predictors.learned.features import CENSORED, POWERS, REACHED, WIDTHS
from softwalltime.predictors.learned.network import Floats32
from softwalltime.predictors.learned.similarity import Integers

_POWER_0, _POWER_1, _POWER_2 = POWERS
_PER_MIDDLE: Floats = 1 / MIDDLE
_PER_UPPER: Floats = 1 / UPPER
_DECAY = np.exp(-1.0 / (STEPS * np.array(WIDTHS)))


def network(
    pairs: Floats32, rows: int, job: Floats32, of_pair: Floats32, of_job: Floats32, bias_1: Floats32,
    second: Floats32, bias_2: Floats32, third: Floats32, bias_3: Floats32, prior_1: Floats32, prior_bias_1: Floats32,
    prior_2: Floats32, prior_bias_2: Floats32, out: Floats32, masses: Floats32,
) -> None:  # fmt: skip
    """Write the network's outputs for each pair into ``out``, and those for the prior into ``masses``."""
    width_1, width_2, width_3 = of_pair.shape[1], second.shape[1], third.shape[1]
    hidden_job = np.empty(width_1, np.float32)
    hidden_1 = np.empty(width_1, np.float32)
    hidden_2 = np.empty(width_2, np.float32)
    for unit in range(width_1):
        hidden_job[unit] = bias_1[unit]
    for feature in range(job.shape[0]):
        value = job[feature]
        for unit in range(width_1):
            hidden_job[unit] += value * of_job[feature, unit]
    for row in range(rows):
        for unit in range(width_1):
            hidden_1[unit] = hidden_job[unit]
        for feature in range(pairs.shape[1]):
            value = pairs[row, feature]
            for unit in range(width_1):
                hidden_1[unit] += value * of_pair[feature, unit]
        for unit in range(width_2):
            hidden_2[unit] = bias_2[unit]
        for feature in range(width_1):
            value = max(hidden_1[feature], np.float32(0.0))
            for unit in range(width_2):
                hidden_2[unit] += value * second[feature, unit]
        for unit in range(width_3):
            out[row, unit] = bias_3[unit]
        for feature in range(width_2):
            value = max(hidden_2[feature], np.float32(0.0))
            for unit in range(width_3):
                out[row, unit] += value * third[feature, unit]
    width_1, width_2 = prior_1.shape[1], prior_2.shape[1]
    hidden_prior = np.empty(width_1, np.float32)
    for unit in range(width_1):
        hidden_prior[unit] = prior_bias_1[unit]
    for feature in range(job.shape[0]):
        value = job[feature]
        for unit in range(width_1):
            hidden_prior[unit] += value * prior_1[feature, unit]
    for unit in range(width_2):
        masses[unit] = prior_bias_2[unit]
    for feature in range(width_1):
        value = max(hidden_prior[feature], np.float32(0.0))
        for unit in range(width_2):
            masses[unit] += value * prior_2[feature, unit]


def mix(
    out: Floats32, rows: int, base: Floats, logs: Floats, shifts: Floats, kinds: Integers, priors: Floats,
    everybody: Floats, masses: Floats32, shares: Floats, weights: Floats,
) -> None:  # fmt: skip
    """Write the distribution into ``shares`` and each pair's weight into ``weights``; ``shares`` holds zeros."""
    censored = np.zeros(SIZE)
    smeared = np.zeros((3, SIZE))
    scaling = np.empty(3)
    smear = np.empty(4)
    for row in range(rows):
        weight = math.exp(min(max(base[row] + out[row, 0], -14.0), 6.0))
        weights[row] = weight
        if kinds[row] == REACHED:
            shares[REACHES] += weight
            continue
        total = 0.0
        for choice in range(3):
            scaling[choice] = math.exp(min(max(out[row, 1 + choice], -20.0), 20.0))
            total += scaling[choice]
        for choice in range(3):
            scaling[choice] *= weight / total
        total = 0.0
        for choice in range(4):
            smear[choice] = math.exp(min(max(out[row, 4 + choice], -20.0), 20.0))
            total += smear[choice]
        for choice in range(3):
            power = _POWER_0 if choice == 0 else _POWER_1 if choice == 1 else _POWER_2
            place = math.floor((logs[row] + power * shifts[row]) * STEPS) + REACHES
            if kinds[row] == CENSORED:
                censored[int(min(max(place, 0), REACHES - 1))] += scaling[choice]
                continue
            place = int(min(max(place, 0), REACHES))
            if place == REACHES:
                shares[REACHES] += scaling[choice]
                continue
            shares[place] += scaling[choice] * smear[0] / total
            for width in range(3):
                smeared[width, place] += scaling[choice] * smear[1 + width] / total
    for width in range(3):
        decay = _DECAY[width]
        factor = (1.0 - decay) / (1.0 + decay)
        running = 0.0
        for place in range(REACHES):
            running = smeared[width, place] + decay * running
            shares[place] += factor * running
        shares[REACHES] += factor * running * decay / (1.0 - decay)
        running = 0.0
        for place in range(REACHES - 1, -1, -1):
            shares[place] += factor * running
            running = decay * (smeared[width, place] + running)
        shares[0] += factor * running / (1.0 - decay)
    for place in range(SIZE):
        shares[place] += math.exp(masses[5]) / SIZE + math.exp(masses[3]) * everybody[place]
        for which in range(3):
            shares[place] += math.exp(masses[which]) * priors[which, place]
    shares[REACHES] += math.exp(masses[4])
    at_risk = 0.0
    for place in range(SIZE):
        at_risk += shares[place] + censored[place]
    surviving = 1.0
    for place in range(SIZE):
        hazard = min(shares[place] / max(at_risk, 1e-300), 1.0)
        at_risk -= shares[place] + censored[place]
        shares[place] = surviving * hazard
        surviving *= 1.0 - hazard
    shares[REACHES] += surviving


def best_bin(shares: Floats, price: float) -> int:
    """Return what :func:`.distribution.best_bin` returns."""
    total = 0.0
    for place in range(SIZE):
        total += shares[place] * _PER_MIDDLE[place]
    short = long = below = 0.0
    best, found = -math.inf, 0
    for place in range(SIZE):
        short += shares[place] * MIDDLE[place]
        long += shares[place] * _PER_MIDDLE[place]
        below += shares[place]
        utility = short * _PER_UPPER[place] + (total - long) * UPPER[place] + price * below
        if utility > best:
            best, found = utility, place
    return found
