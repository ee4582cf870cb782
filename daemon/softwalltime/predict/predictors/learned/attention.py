"""Estimate a runtime with the learned attention: features, network, and mixture of scaled and smeared runtimes."""

import math
import threading
from typing import NamedTuple

import numpy as np

from softwalltime.core.compiling import kernel
from softwalltime.predict.predictors.learned.distribution import MIDDLE, REACHES, SIZE, STEPS, UPPER, Floats
from softwalltime.predict.predictors.learned.features import (
    CENSORED,
    JOB,
    MAX_PAIRS,
    MAX_RUNNING_JOBS,
    PAIR,
    POWERS,
    REACHED,
    WIDTHS,
    Estimate,
    Floats32,
    Integers,
    Known,
)  # fmt: skip
from softwalltime.predict.predictors.learned.gather import gather
from softwalltime.predict.predictors.learned.network import OUTPUTS, PRIOR_OUTPUTS, Weights
from softwalltime.predict.predictors.learned.user_jobs import GROUP, NAME, NCPUS, QUEUE, WALLTIME

_POWER_0, _POWER_1, _POWER_2 = POWERS
_PER_MIDDLE: Floats = 1 / MIDDLE
_PER_UPPER: Floats = 1 / UPPER
_DECAY = np.exp(-1.0 / (STEPS * np.array(WIDTHS)))


class Gathered(NamedTuple):
    """Inputs of the network and the mixture; rows are the past jobs, the last one first, then the running jobs.

    ``places`` are those of the past jobs.  ``base`` is the logarithm of the hand-set weight, ``logs`` that of runtime /
    walltime asked for, ``shifts`` that of the ratio of the walltimes, ``kinds`` what the job says of the new one.
    ``priors`` are the distributions of the user's, the project's and the queue's jobs.
    """

    pairs: Floats32
    job: Floats32
    places: Integers
    base: Floats
    logs: Floats
    shifts: Floats
    kinds: Integers
    priors: Floats


@kernel(
    "void(f4[:,::1], i8, f4[::1], f4[:,::1], f4[:,::1], f4[::1], f4[:,::1], f4[::1], f4[:,::1], f4[::1], f4[:,::1], "
    "f4[::1], f4[:,::1], f4[::1], f4[:,::1], f4[::1])"
)
def network(
    pairs: Floats32, rows: int, job: Floats32, of_pair: Floats32, of_job: Floats32, bias_1: Floats32,
    second: Floats32, bias_2: Floats32, third: Floats32, bias_3: Floats32, prior_1: Floats32, prior_bias_1: Floats32,
    prior_2: Floats32, prior_bias_2: Floats32, out: Floats32, masses: Floats32,
) -> None:  # fmt: skip
    """Write the network's outputs for each pair into ``out``, and those for the prior into ``masses``."""

    def add_products(values: Floats32, layer: Floats32, sums: Floats32) -> None:
        # Unrolled by four inputs: sums are loaded and stored a quarter as often, in the same order of addition.
        inputs, units = layer.shape
        whole = inputs - inputs % 4
        for first in range(0, whole, 4):
            one, two, three, four = values[first], values[first + 1], values[first + 2], values[first + 3]
            for unit in range(units):
                sums[unit] = (
                    sums[unit]
                    + one * layer[first, unit]
                    + two * layer[first + 1, unit]
                    + three * layer[first + 2, unit]
                    + four * layer[first + 3, unit]
                )
        for place in range(whole, inputs):
            value = values[place]
            for unit in range(units):
                sums[unit] += value * layer[place, unit]

    def cut_off(values: Floats32) -> None:
        for unit in range(len(values)):
            values[unit] = max(values[unit], np.float32(0.0))

    hidden_job, hidden_1, hidden_2 = bias_1.copy(), np.empty_like(bias_1), np.empty_like(bias_2)
    add_products(job, of_job, hidden_job)
    for row in range(rows):
        hidden_1[:] = hidden_job
        add_products(pairs[row], of_pair, hidden_1)
        cut_off(hidden_1)
        hidden_2[:] = bias_2
        add_products(hidden_1, second, hidden_2)
        cut_off(hidden_2)
        out[row] = bias_3
        add_products(hidden_2, third, out[row])
    hidden_prior = prior_bias_1.copy()
    add_products(job, prior_1, hidden_prior)
    cut_off(hidden_prior)
    masses[:] = prior_bias_2
    add_products(hidden_prior, prior_2, masses)


@kernel("void(f4[:,::1], i8, f8[::1], f8[::1], f8[::1], i8[::1], f8[:,::1], f8[:], f4[::1], f8[::1], f8[::1])")
def mix(
    out: Floats32, rows: int, base: Floats, logs: Floats, shifts: Floats, kinds: Integers, priors: Floats,
    everybody: Floats, masses: Floats32, shares: Floats, weights: Floats,
) -> None:  # fmt: skip
    """Write the distribution into ``shares`` and each pair's weight into ``weights``; ``shares`` holds zeros."""

    def smear_out(smeared: Floats, shares: Floats) -> None:
        # All widths in one loop: the running sums are independent, so the processor overlaps them.
        one, two, three = _DECAY
        up, down = np.empty((3, SIZE)), np.empty((3, SIZE))
        first = second = third = 0.0
        for place in range(REACHES):
            first = smeared[0, place] + one * first
            second = smeared[1, place] + two * second
            third = smeared[2, place] + three * third
            up[0, place], up[1, place], up[2, place] = first, second, third
        beyond = np.array([first, second, third])
        first = second = third = 0.0
        for place in range(REACHES - 1, -1, -1):
            down[0, place], down[1, place], down[2, place] = first, second, third
            first = one * (smeared[0, place] + first)
            second = two * (smeared[1, place] + second)
            third = three * (smeared[2, place] + third)
        before = np.array([first, second, third])
        for width in range(3):
            decay = _DECAY[width]
            factor = (1.0 - decay) / (1.0 + decay)
            for place in range(REACHES):
                shares[place] = shares[place] + factor * up[width, place] + factor * down[width, place]
            shares[REACHES] += factor * beyond[width] * decay / (1.0 - decay)
            shares[0] += factor * before[width] / (1.0 - decay)

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
    smear_out(smeared, shares)
    mass = np.exp(masses)
    uniform = mass[5] / SIZE
    for place in range(SIZE):
        share = shares[place] + (uniform + mass[3] * everybody[place])
        share += mass[0] * priors[0, place]
        share += mass[1] * priors[1, place]
        shares[place] = share + mass[2] * priors[2, place]
    shares[REACHES] += mass[4]
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


@kernel("i8(f8[::1], f8)")
def best_bin(shares: Floats, price: float) -> int:
    """Return the bin whose upper end is the prediction with the highest expected utility.

    The utility of a prediction p for a runtime t is the accuracy min(p, t) / max(p, t), minus ``price`` if p < t.
    """
    total = 0.0
    for place in range(SIZE):
        total += shares[place] * _PER_MIDDLE[place]
    short = long = below = 0.0
    best, chosen = -math.inf, 0
    for place in range(SIZE):
        short += shares[place] * MIDDLE[place]
        long += shares[place] * _PER_MIDDLE[place]
        below += shares[place]
        utility = short * _PER_UPPER[place] + (total - long) * UPPER[place] + price * below
        if utility > best:
            best, chosen = utility, place
    return chosen


def gather_features(known: Known) -> Gathered:
    """Return the features of a job, in arrays of their own."""
    space, places = _Workspace(), np.empty(MAX_PAIRS, np.int64)
    count = _gather_into(space, places, known)
    rows = count + min(known.running.shape[1], MAX_RUNNING_JOBS)
    return Gathered(
        space.pairs[:rows], space.job, places[:count], space.base[:rows], space.logs[:rows], space.shifts[:rows],
        space.kinds[:rows], space.priors,
    )  # fmt: skip


class _Workspace(threading.local):
    """Work arrays of the kernels, one set for each thread: allocating them takes as long as a mixture."""

    def __init__(self) -> None:
        self.pairs, self.job = np.empty((MAX_PAIRS, PAIR), np.float32), np.empty(JOB, np.float32)
        self.base, self.logs, self.shifts = np.empty(MAX_PAIRS), np.empty(MAX_PAIRS), np.empty(MAX_PAIRS)
        self.kinds, self.priors = np.empty(MAX_PAIRS, np.int64), np.empty((3, SIZE))
        self.out, self.masses = np.empty((MAX_PAIRS, OUTPUTS), np.float32), np.empty(PRIOR_OUTPUTS, np.float32)


_SPACE = _Workspace()


def _gather_into(space: _Workspace, places: Integers, known: Known) -> int:
    asked = known.asked
    return gather(
        float(known.now), asked[WALLTIME], asked[NCPUS], asked[QUEUE], asked[NAME], asked[GROUP], known.ended,
        known.running, known.submitted, known.keys, known.key, known.waiting, known.project, known.queue,
        known.everybody, space.pairs, space.job, places, space.base, space.logs, space.shifts, space.kinds,
        space.priors,
    )  # fmt: skip


def estimate_runtime(known: Known, weights: Weights) -> Estimate:
    """Return the distribution of the runtime of the job asked about, on the grid of its walltime."""
    # New arrays: they are part of the result.
    places, shares, counted = np.empty(MAX_PAIRS, np.int64), np.zeros(SIZE), np.empty(MAX_PAIRS)
    space = _SPACE
    count = _gather_into(space, places, known)
    running = min(known.running.shape[1], MAX_RUNNING_JOBS)
    rows, out, masses = count + running, space.out, space.masses
    network(space.pairs, rows, space.job, *weights.layers, out, masses)
    mix(
        out, rows, space.base, space.logs, space.shifts, space.kinds, space.priors, known.everybody, masses, shares,
        counted,
    )  # fmt: skip
    # numpy takes four times as long.
    prior = sum(map(math.exp, masses.tolist()))
    return Estimate(shares, places[:count], counted[:count], running, prior)


def smears() -> Floats:
    """Return for each width the matrix that smears each bin's mass as :func:`mix` does, for training.

    Mass beyond the walltime is added to the last bin.
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
