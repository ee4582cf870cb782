"""The estimate of :mod:`.similarity`, compiled by numba where it is installed: a tenth of the time of numpy.

:func:`fill` is the code that is compiled.  It is plain Python, and the tests hold it to the results of numpy.
"""

import math
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec

import numpy as np

from softwalltime.errors import OptionError
from softwalltime.predictors.learned.compiling import compile_function
from softwalltime.predictors.learned.distribution import REACHES, SIZE, STEPS, Floats
from softwalltime.predictors.learned.similarity import (
    ALIKE,
    LAST,
    LOOK_BACK,
    OTHER,
    OTHER_SCRIPT,
    OWN,
    RUNNING,
    SAME,
    SAME_WALLTIME,
    SCALED,
    Estimate,
    Integers,
    Known,
)  # fmt: skip
from softwalltime.predictors.learned.user_jobs import (
    END,
    KILLED,
    NAME,
    NCPUS,
    OTHER_NAME,
    QUEUE,
    RUNTIME,
    SHARE,
    START,
    SUBMITTED,
    WALLTIME,
)  # fmt: skip

MISSING = "numba is missing: pip install 'pbs-softwalltime[fast]'"


_SIGNATURE = f"i8({', '.join(['f8'] * 5 + ['f8[:,:]'] * 2)}, f8[:], i8[:], f8[:], f8[:], f8[:], i8[:], f8[:])"


def wanted(choice: str) -> bool:
    """Return whether to use the compiled estimate by the option ``auto``, ``yes`` or ``no``.

    :raises OptionError: on ``yes`` where numba is missing.
    """
    there = choice != "no" and find_spec("numba") is not None
    if choice == "yes" and not there:
        raise OptionError(f"compiled=yes: {MISSING}")
    return there


def estimate_runtime(known: Known, function: Callable[..., int] | None = None) -> Estimate:
    """Return what :func:`.similarity.estimate_runtime` returns.

    :param function: :func:`fill` or what numba made of it, which is the default.
    """
    shares, censored = np.zeros(SIZE), np.zeros(SIZE)
    chosen, weights = np.empty(LAST + SAME + SAME_WALLTIME, np.int64), np.empty(LAST + SAME + SAME_WALLTIME)
    now, asked, ended, running, submitted, project, everybody = known[:7]
    count = (function or compile_estimate())(
        float(now), asked[WALLTIME], asked[NCPUS], asked[QUEUE], asked[NAME], ended, running, submitted, project,
        everybody, shares, censored, chosen, weights,
    )  # fmt: skip
    return Estimate(shares, chosen[count - 1 :: -1] if count else chosen[:0], weights[:count][::-1], running.shape[1])


@cache
def compile_estimate() -> Callable[..., int]:
    """Compile :func:`fill`, or load what was compiled before; some seconds.

    One signature for arrays of any layout: no later call with another one must wait for the compiler.
    """
    return compile_function(fill, _SIGNATURE)


def fill(
    now: float, walltime: float, ncpus: float, queue: float, name: float, ended: Floats, running: Floats,
    submitted: Floats, project: Integers, everybody: Floats, shares: Floats, censored: Floats, chosen: Integers,
    weights: Floats,
) -> int:  # fmt: skip
    """Write the distribution into ``shares``, and the jobs that count with their weights, the last one first.

    The other parameters are those of :class:`.similarity.Known`; ``shares`` and ``censored`` hold zeros.  Return the
    number of jobs.
    """
    # The prior.
    count = ended.shape[1]
    own = 0
    for job in range(count - 1, -1, -1):
        if ended[WALLTIME, job] == walltime and own < OWN:
            own += 1
            shares[int(ended[SHARE, job])] += 1.0
    left = 1.0
    if own:
        left -= 0.8 * own / (own + 4.0)
        for place in range(SIZE):
            shares[place] *= (1.0 - left) / own
    if len(project):
        share = left * 0.6 * len(project) / (len(project) + 4.0)
        left -= share
        for job in range(len(project)):
            shares[project[job]] += share / len(project)
    known = 0.0
    for place in range(SIZE):
        known += everybody[place]
        shares[place] += everybody[place] * (0.2 * left)
    shares[REACHES] += left * (1.0 - 0.2 * known)
    # Past jobs, the last one first, then running ones.
    counted = same = same_walltime = 0
    total = len(submitted) + 1
    past = min(count, LOOK_BACK)
    for number in range(past + running.shape[1]):
        jobs = ended if number < past else running
        job = count - 1 - number if number < past else number - past
        of_walltime = jobs[WALLTIME, job] == walltime
        alike = of_walltime and jobs[NCPUS, job] == ncpus and jobs[QUEUE, job] == queue
        if number < past:
            counts = number < LAST or (alike and same < SAME) or (of_walltime and same_walltime < SAME_WALLTIME)
            same += alike
            same_walltime += of_walltime
            if not counts:
                continue
        distance = 0.0
        if not of_walltime:
            distance += 0.1 + 0.8 * abs(jobs[WALLTIME, job] - walltime)
        if jobs[NCPUS, job] != ncpus:
            distance += 0.4 + 0.4 * abs(jobs[NCPUS, job] - ncpus)
        if jobs[QUEUE, job] != queue:
            distance += 0.06
        if jobs[NAME, job] != name:
            distance += 0.3
        if jobs[NAME, job] == OTHER_NAME:
            distance += OTHER_SCRIPT
        since = min(total - np.searchsorted(submitted, jobs[SUBMITTED, job], "right"), 4095)
        weight = math.exp(-distance) * max(since, 1) ** -0.75
        scaled = SCALED * (walltime - jobs[WALLTIME, job]) - walltime
        if number >= past:
            log = math.log(now - jobs[START, job]) + scaled
            place = min(max(math.floor(log * STEPS) + REACHES, 0), REACHES - 1)
            censored[place] += RUNNING * weight
            continue
        weight *= (1.0 + (now - jobs[END, job]) / 3600.0) ** -0.15
        chosen[counted] = job
        weights[counted] = weight
        counted += 1
        if jobs[KILLED, job] > 0 and jobs[WALLTIME, job] >= walltime:
            shares[REACHES] += weight
            continue
        log = jobs[RUNTIME, job] + scaled
        if jobs[KILLED, job] > 0:
            censored[min(max(math.floor(log * STEPS) + REACHES, 0), REACHES - 1)] += weight
            continue
        spread = ALIKE if alike else OTHER
        shares[min(max(math.floor(log * STEPS) + REACHES, 0), REACHES)] += 0.45 * weight
        shares[min(max(math.floor((log + spread) * STEPS) + REACHES, 0), REACHES)] += 0.30 * weight
        shares[min(max(math.floor((log - spread) * STEPS) + REACHES, 0), REACHES)] += 0.25 * weight
    # Kaplan and Meier.
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
    return counted
