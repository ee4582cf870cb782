"""Estimate a runtime by the learned attention: features, network, mixture; compiled by numba where it is installed."""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from softwalltime.predictors.learned import gather_kernel, network_kernels
from softwalltime.predictors.learned.distribution import SIZE
from softwalltime.predictors.learned.features import JOB, MOST_PAIRS, MOST_RUNNING, PAIR
from softwalltime.predictors.learned.gather import Gathered, gather
from softwalltime.predictors.learned.mixture import mix
from softwalltime.predictors.learned.network import OUTPUTS, PRIOR_OUTPUTS, Weights, evaluate
from softwalltime.predictors.learned.similarity import Estimate, Known

_F, _F2, _S, _S2, _I = "f8[:]", "f8[:,:]", "f4[::1]", "f4[:,::1]", "i8[:]"
_SIGNATURES = {
    "gather": f"i8(f8, {_F}, {_F2}, {_F2}, {_F}, {_F}, f8, f8, {_I}, {_I}, {_F}, "
    f"{_S2}, {_S}, i8[::1], f8[::1], f8[::1], f8[::1], i8[::1], f8[:,::1])",
    "network": f"void({_S2}, i8, {_S}, {_S2}, {_S2}, {_S}, {_S2}, {_S}, {_S2}, {_S}, {_S2}, {_S}, {_S2}, {_S}, "
    f"{_S2}, {_S})",
    "best_bin": "i8(f8[::1], f8)",
    "mix": f"void({_S2}, i8, f8[::1], f8[::1], f8[::1], i8[::1], f8[:,::1], {_F}, {_S}, f8[::1], f8[::1])",
}


KERNELS: dict[str, Callable[..., Any]] = {
    "gather": gather_kernel.gather,
    "network": network_kernels.network,
    "mix": network_kernels.mix,
    "best_bin": network_kernels.best_bin,
}
"""The functions that numba compiles."""


@cache
def compiled(name: str) -> Callable[..., Any]:
    """Compile a function of ``KERNELS``, or load what was compiled before; some seconds."""
    from numba import njit  # type: ignore[import-not-found,import-untyped,unused-ignore]  # an extra without types

    compiler: Any = njit
    function = KERNELS[name]
    try:
        made: Callable[..., Any] = compiler(_SIGNATURES[name], cache=True)(function)
    # No folder in which to keep it can be written to.
    except RuntimeError:
        made = compiler(_SIGNATURES[name])(function)
    return made


def compile_estimate() -> None:
    """Compile all functions that an answer needs."""
    for name in _SIGNATURES:
        compiled(name)


def estimate_runtime(known: Known, weights: Weights) -> Estimate:
    """Return the distribution of the runtime of the job asked about, on the grid of its walltime, by numpy."""
    found = gather(known)
    out, masses = evaluate(found.pairs, found.job, weights)
    shares, counted = mix(found, out, masses, known.everybody)
    count = len(found.places)
    return Estimate(shares, found.places, counted[:count], len(counted) - count, float(np.exp(masses).sum()))


def gather_compiled(known: Known, function: Callable[..., int] | None = None) -> Gathered:
    """Return what :func:`.gather.gather` returns.

    :param function: :func:`.gather_kernel.gather` or what numba made of it, which is the default.
    """
    pairs, job = np.empty((MOST_PAIRS, PAIR), np.float32), np.empty(JOB, np.float32)
    places, kinds = np.empty(MOST_PAIRS, np.int64), np.empty(MOST_PAIRS, np.int64)
    base, logs, shifts = np.empty(MOST_PAIRS), np.empty(MOST_PAIRS), np.empty(MOST_PAIRS)
    priors = np.zeros((3, SIZE))
    count = (function or compiled("gather"))(
        float(known.now), np.array(known.asked), known.ended, known.running, known.submitted, known.keys, known.key,
        known.waiting, known.project, known.queue, known.everybody, pairs, job, places, base, logs, shifts, kinds,
        priors,
    )  # fmt: skip
    rows = count + min(known.running.shape[1], MOST_RUNNING)
    return Gathered(pairs[:rows], job, places[:count], base[:rows], logs[:rows], shifts[:rows], kinds[:rows], priors)


def estimate_compiled(
    known: Known, weights: Weights, function: Callable[[str], Callable[..., Any]] = compiled
) -> Estimate:
    """Return what :func:`estimate_runtime` returns.

    :param function: returns a function of ``KERNELS`` by its name, by default what numba made of it.
    """
    found = gather_compiled(known, function("gather"))
    rows, count = len(found.base), len(found.places)
    out, masses = np.empty((rows, OUTPUTS), np.float32), np.empty(PRIOR_OUTPUTS, np.float32)
    function("network")(found.pairs, rows, found.job, *weights.layers, out, masses)
    shares, counted = np.zeros(SIZE), np.empty(rows)
    function("mix")(
        out, rows, found.base, found.logs, found.shifts, found.kinds, found.priors, known.everybody, masses, shares,
        counted,
    )  # fmt: skip
    # With numpy it takes four times as long.
    prior = sum(map(math.exp, masses.tolist()))
    return Estimate(shares, found.places, counted[:count], rows - count, prior)
