"""Estimate a runtime by the learned attention: features, network, mixture; compiled by numba where it is installed."""

import math
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from softwalltime.predictors.learned import gather_kernel, network_kernels, sequence_kernel
from softwalltime.predictors.learned.compiling import compile_function
from softwalltime.predictors.learned.distribution import SIZE
from softwalltime.predictors.learned.features import JOB, MAX_PAIRS, MAX_RUNNING_JOBS, PAIR
from softwalltime.predictors.learned.gather import Gathered, gather
from softwalltime.predictors.learned.known import Estimate, Integers, Known
from softwalltime.predictors.learned.mixture import mix
from softwalltime.predictors.learned.network import OUTPUTS, PRIOR_OUTPUTS, Weights, evaluate
from softwalltime.predictors.learned.user_jobs import GROUP, NAME, NCPUS, QUEUE, WALLTIME

_F, _F2, _S, _S2, _I = "f8[:]", "f8[:,:]", "f4[::1]", "f4[:,::1]", "i8[:]"
_SIGNATURES = {
    "gather": f"i8(f8, f8, f8, f8, f8, f8, {_F2}, {_F2}, {_F}, {_F}, f8, f8, {_I}, {_I}, {_F}, "
    f"{_S2}, {_S}, i8[::1], f8[::1], f8[::1], f8[::1], i8[::1], f8[:,::1])",
    "network": f"void({_S2}, i8, {_S}, {_S2}, {_S2}, {_S}, {_S2}, {_S}, {_S2}, {_S}, {_S2}, {_S}, {_S2}, {_S}, "
    f"{_S2}, {_S})",
    "best_bin": "i8(f8[::1], f8)",
    **sequence_kernel.SIGNATURES,
    "mix": f"void({_S2}, i8, f8[::1], f8[::1], f8[::1], i8[::1], f8[:,::1], {_F}, {_S}, f8[::1], f8[::1])",
}


KERNELS: dict[str, Callable[..., Any]] = {
    "gather": gather_kernel.gather,
    "network": network_kernels.network,
    "mix": network_kernels.mix,
    "best_bin": network_kernels.best_bin,
    "ended_by": sequence_kernel.ended_by,
    "order": sequence_kernel.order,
    "present_at": sequence_kernel.present_at,
}
"""The functions that numba compiles."""


@cache
def compiled(name: str) -> Callable[..., Any]:
    """Compile a function of ``KERNELS``, or load what was compiled before; some seconds."""
    return compile_function(KERNELS[name], _SIGNATURES[name])


def compile_functions() -> None:
    for name in _SIGNATURES:
        compiled(name)


def estimate_runtime(known: Known, weights: Weights) -> Estimate:
    """Return the distribution of the runtime of the job asked about, on the grid of its walltime, by numpy."""
    features = gather(known)
    out, masses = evaluate(features.pairs, features.job, weights)
    shares, counted = mix(features, out, masses, known.everybody)
    count = len(features.places)
    return Estimate(shares, features.places, counted[:count], len(counted) - count, float(np.exp(masses).sum()))


def gather_compiled(known: Known, function: Callable[..., int] | None = None) -> Gathered:
    """Return what :func:`.gather.gather` returns.

    :param function: :func:`.gather_kernel.gather` or what numba made of it, which is the default.
    """
    space, places = _Workspace(), np.empty(MAX_PAIRS, np.int64)
    count = _gather_into(space, places, known, function or compiled("gather"))
    rows = count + min(known.running.shape[1], MAX_RUNNING_JOBS)
    return Gathered(
        space.pairs[:rows], space.job, places[:count], space.base[:rows], space.logs[:rows], space.shifts[:rows],
        space.kinds[:rows], space.priors,
    )  # fmt: skip


class _Workspace:
    """Arrays that the functions of an estimate hand to each other."""

    def __init__(self) -> None:
        self.pairs, self.job = np.empty((MAX_PAIRS, PAIR), np.float32), np.empty(JOB, np.float32)
        self.base, self.logs, self.shifts = np.empty(MAX_PAIRS), np.empty(MAX_PAIRS), np.empty(MAX_PAIRS)
        self.kinds, self.priors = np.empty(MAX_PAIRS, np.int64), np.empty((3, SIZE))
        self.out, self.masses = np.empty((MAX_PAIRS, OUTPUTS), np.float32), np.empty(PRIOR_OUTPUTS, np.float32)


class _OfThread(threading.local):
    """One workspace for each thread: to make the arrays takes as long as to mix a distribution."""

    def __init__(self) -> None:
        self.space = _Workspace()


_THREAD = _OfThread()


def _gather_into(space: _Workspace, places: Integers, known: Known, function: Callable[..., int]) -> int:
    asked = known.asked
    return function(
        float(known.now), asked[WALLTIME], asked[NCPUS], asked[QUEUE], asked[NAME], asked[GROUP], known.ended,
        known.running, known.submitted, known.keys, known.key, known.waiting, known.project, known.queue,
        known.everybody, space.pairs, space.job, places, space.base, space.logs, space.shifts, space.kinds,
        space.priors,
    )  # fmt: skip


def estimate_compiled(
    known: Known, weights: Weights, function: Callable[[str], Callable[..., Any]] = compiled
) -> Estimate:
    """Return what :func:`estimate_runtime` returns.

    :param function: returns a function of ``KERNELS`` by its name, by default what numba made of it.
    """
    # These three belong to the answer.
    places, shares, counted = np.empty(MAX_PAIRS, np.int64), np.zeros(SIZE), np.empty(MAX_PAIRS)
    space = _THREAD.space
    count = _gather_into(space, places, known, function("gather"))
    running = min(known.running.shape[1], MAX_RUNNING_JOBS)
    rows, out, masses = count + running, space.out, space.masses
    function("network")(space.pairs, rows, space.job, *weights.layers, out, masses)
    function("mix")(
        out, rows, space.base, space.logs, space.shifts, space.kinds, space.priors, known.everybody, masses, shares,
        counted,
    )  # fmt: skip
    # With numpy it takes four times as long.
    prior = sum(map(math.exp, masses.tolist()))
    return Estimate(shares, places[:count], counted[:count], running, prior)
